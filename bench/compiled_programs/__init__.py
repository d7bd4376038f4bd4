"""Programs that a compiler can make much of: every module here has a list PROGRAMS, and `all_cases` a case of each.

A program is one function of the names (`names.py`) and of its inputs, which are fed as NumPy arrays; the results come
back as NumPy arrays. The graph side runs in a session, JAX's under `jax.jit`.
"""

import importlib
import pkgutil
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from case import Case, session
from compiled_programs.names import GraphNames, JaxNames
from op_sweep import Source, aligned


@dataclass(frozen=True)
class Program:
    """One program.

    Attributes:
        name: Its name in the table.
        function: Takes the names and the inputs; returns a result, or several.
        inputs: The sources of the inputs.
        dtype: Of the inputs that have no type of their own.
    """

    name: str
    function: Callable[..., Any]
    inputs: Sequence[Source]
    dtype: Any = np.float32


class Step:
    """A call of the program, and its results for comparison."""

    def __init__(self, run: Callable[[], Any]) -> None:
        """Keeps the call."""
        self.run = run

    def __call__(self) -> Any:
        """Runs the program once."""
        return self.run()

    def results(self) -> list[np.ndarray]:
        """What the program computes."""
        found = self.run()
        return list(found) if isinstance(found, (list, tuple)) else [found]


def _arrays(program: Program) -> list[np.ndarray]:
    rng = np.random.default_rng(zlib.crc32(program.name.encode()))
    return [aligned(np.asarray(source(program.dtype, rng))) for source in program.inputs]


def _graph_builder(program: Program) -> Any:
    def build(tf: Any, setting: Any) -> Step:
        arrays = _arrays(program)
        graph = tf.Graph()
        with graph.as_default():
            inputs = [tf.placeholder(array.dtype, array.shape) for array in arrays]
            outputs = program.function(GraphNames(tf), *inputs)
        run = session(tf, setting, graph).make_callable(outputs, inputs)
        return Step(lambda: run(*arrays))

    return build


def _jax_builder(program: Program) -> Any:
    def build(jax: Any, setting: Any) -> Step:
        arrays = _arrays(program)
        names = JaxNames(jax)
        compiled = jax.jit(lambda *inputs: program.function(names, *inputs))

        def run() -> Any:
            found = compiled(*arrays)
            return [np.asarray(x) for x in found] if isinstance(found, (list, tuple)) else np.asarray(found)

        return Step(run)

    return build


def all_cases() -> dict[str, Case]:
    """A case for each program."""
    cases = {}
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        for program in getattr(module, "PROGRAMS", ()):
            assert program.name not in cases, program.name
            cases[program.name] = Case(info.name, graph=_graph_builder(program), jax=_jax_builder(program))
    return cases
