"""The sweep over single ops: every module here has a list SWEEPS, and `all_cases` makes a benchmark case of each entry.

An entry is one op with its arguments, in several sizes and element types. `call` gets the framework's module (Thalweg
or TensorFlow) and tensors; `torch` gets PyTorch and its tensors, where PyTorch has the same op. Numbers are fed, from
memory that no framework has to copy; strings are held in variables, because converting them would hide the op. The
timed step fetches the operation and not its value, so that nothing but the op is done; values are fetched once, to be
compared.
"""

import importlib
import pkgutil
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from case import Case, session

Source = Callable[[Any, np.random.Generator], np.ndarray]
DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "u8": np.uint8}
DTYPES |= {"i8": np.int8, "i16": np.int16, "bool": np.bool_, "c64": np.complex64, "c128": np.complex128, "str": object}


@dataclass(frozen=True)
class Sweep:
    """One op with arguments.

    Attributes:
        op: The op's type, and whatever else tells the entry from others of the op, after a blank.
        call: Adds the op to a graph: takes the module and the tensors of `inputs`.
        inputs: For each size, by name, the sources of the arguments.
        dtypes: The element types, as short names.
        torch: The same for PyTorch, with its tensors.
        compared: Whether the values have to agree (not for random ones).
        tolerance: The largest relative difference of digests.
        held: Inputs stay in variables instead of being fed.
    """

    op: str
    call: Callable[..., Any]
    inputs: dict[str, Sequence[Source]]
    dtypes: str = "f32"
    torch: Callable[..., Any] | None = None
    compared: bool = True
    tolerance: float = 2e-3
    held: bool = False


def named(path: str) -> Callable[..., Any]:
    """A function of a module by its dotted name."""

    def call(module: Any, *tensors: Any) -> Any:
        for part in path.split("."):
            module = getattr(module, part)
        return module(*tensors)

    return call


def normal(*shape: int) -> Source:
    """Normally distributed values (rounded multiples of 20 for integers)."""

    def draw(dtype: Any, rng: np.random.Generator) -> np.ndarray:
        x = rng.standard_normal(shape)
        if np.issubdtype(dtype, np.complexfloating):
            x = x + 1j * rng.standard_normal(shape)
        return x.astype(dtype) if np.issubdtype(dtype, np.inexact) else np.abs(x * 20).astype(dtype)

    return draw


def uniform(low: float, high: float, *shape: int) -> Source:
    """Values in [low, high)."""

    def draw(dtype: Any, rng: np.random.Generator) -> np.ndarray:
        x = rng.uniform(low, high, shape)
        if np.issubdtype(dtype, np.complexfloating):
            x = x + 1j * rng.uniform(low, high, shape)
        return (np.floor(x) if np.dtype(dtype).kind in "biu" else x).astype(dtype)

    return draw


def integers(low: int, high: int, *shape: int, dtype: Any = np.int32) -> Source:
    """Integers in [low, high) of a type of their own: indices and labels."""
    return lambda _, rng: rng.integers(low, high, shape).astype(dtype)


def fixed(value: Any) -> Source:
    """One value, whatever the element type."""
    return lambda _, rng: np.asarray(value() if callable(value) else value)


def words(count: int, low: int = 3, high: int = 12) -> Source:
    """Random words of lower-case and upper-case letters."""

    def draw(dtype: Any, rng: np.random.Generator) -> np.ndarray:
        letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", np.uint8)
        lengths = rng.integers(low, high, count)
        text = letters[rng.integers(0, len(letters), lengths.sum())].tobytes()
        ends = np.cumsum(lengths)
        return np.array([text[e - n : e] for e, n in zip(ends, lengths, strict=True)], object)

    return draw


def aligned(x: np.ndarray) -> np.ndarray:
    """A copy whose memory begins at a multiple of 64, which no framework has to copy when it is fed."""
    if x.dtype == object:
        return x
    buffer = np.empty(x.nbytes + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    result = buffer[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    result[...] = x
    return result


class OpStep:
    """A timed call of an op, and its results for comparison."""

    def __init__(self, run: Callable[[], Any], results: Callable[[], list[np.ndarray]] | None) -> None:
        """Keeps both."""
        self.run, self.results = run, results

    def __call__(self) -> None:
        """Runs the op once."""
        self.run()


def _flat(x: Any) -> list[Any]:
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, (list, tuple)):
        return [leaf for part in x for leaf in _flat(part)]
    return [] if x is None else [x]


def _arrays(sweep: Sweep, size: str, dtype: str) -> list[np.ndarray]:
    rng = np.random.default_rng(zlib.crc32(f"{sweep.op}/{size}".encode()))
    return [aligned(source(DTYPES[dtype], rng)) for source in sweep.inputs[size]]


def _graph_builder(sweep: Sweep, size: str, dtype: str) -> Any:
    def build(tf: Any, setting: Any) -> OpStep:
        arrays = _arrays(sweep, size, dtype)
        graph = tf.Graph()
        with graph.as_default():
            tensors, keys, fed = [], [], []
            for array in arrays:
                if array.dtype == object or sweep.held:
                    tensors.append(tf.Variable(tf.constant(array), use_resource=True).read_value())
                else:
                    tensors.append(tf.placeholder(array.dtype, array.shape))
                    keys.append(tensors[-1])
                    fed.append(array)
            outputs = [x for x in _flat(sweep.call(tf, *tensors)) if hasattr(x, "op")]
            if any(hasattr(x, "indices") for x in outputs):
                outputs = [y for x in outputs for y in ((x.indices, x.values) if hasattr(x, "indices") else (x,))]
            outputs = [x for x in outputs if x.op.type != "Placeholder"]  # indices that an op passes on
            initializer = tf.group(tf.global_variables_initializer(), tf.tables_initializer())
        sess = session(tf, setting, graph)
        sess.run(initializer)
        run = sess.make_callable(list({x.op.name: x.op for x in outputs}.values()), keys)
        return OpStep(
            lambda: run(*fed),
            (lambda: sess.run(outputs, dict(zip(keys, fed, strict=True)))) if sweep.compared else None,
        )

    return build


def _torch_builder(sweep: Sweep, size: str, dtype: str) -> Any:
    def build(torch: Any, setting: Any) -> OpStep:
        tensors = [torch.from_numpy(array) for array in _arrays(sweep, size, dtype)]
        return OpStep(
            lambda: sweep.torch(torch, *tensors),
            (lambda: [x.detach().resolve_conj().numpy() for x in _flat(sweep.torch(torch, *tensors))])
            if sweep.compared
            else None,
        )

    return build


def all_cases() -> dict[str, Case]:
    """A case for each entry, size and element type, named `Op/dtype/size`."""
    cases = {}
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        for sweep in getattr(module, "SWEEPS", ()):
            for dtype in sweep.dtypes.split():
                for size in sweep.inputs:
                    name = f"{sweep.op}/{dtype}/{size}"
                    assert name not in cases, name
                    cases[name] = Case(
                        info.name,
                        graph=_graph_builder(sweep, size, dtype),
                        torch=_torch_builder(sweep, size, dtype) if sweep.torch and dtype != "str" else None,
                    )
    return cases


def tolerances() -> dict[str, float]:
    """The tolerance of each op's entries, by the first part of their names."""
    modules = [importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)]
    return {sweep.op: sweep.tolerance for module in modules for sweep in getattr(module, "SWEEPS", ())}
