"""Requests to compile parts of a graph: every step is compiled here, so they change nothing but what they promise."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


@export("contrib.compiler.jit.experimental_jit_scope")
@contextlib.contextmanager
def experimental_jit_scope(compile_ops: Any = True, separate_compiled_gradients: bool = False) -> Iterator[None]:
    """A scope whose operations TensorFlow's XLA may compile. Thalweg fuses all operations that it can anyway.

    Raises:
        RuntimeError: Where operations run at once, as in TensorFlow.
    """
    if tf.executing_eagerly():
        raise RuntimeError("xla.experimental.jit_scope is not supported when eager execution is enabled.")
    yield


@export("contrib.compiler.xla.compile")
def compile(computation: Callable[..., Any], inputs: Sequence[Any] | None = None) -> list[Any]:
    """Builds a computation; its outputs are a list, operations among them run before any of the tensors.

    Raises:
        TypeError: If `inputs` is no list, or the computation does not take as many arguments.
    """
    if inputs is not None and not isinstance(inputs, (list, tuple)):
        raise TypeError("inputs must be a list")
    with tf.name_scope("cluster"):
        found = computation(*(tf.identity(tf.convert_to_tensor(value)) for value in inputs or ()))
        flat = [found] if not isinstance(found, (list, tuple)) else list(found)
        operations = [each for each in flat if isinstance(each, tf.Operation)]
        tensors = [tf.convert_to_tensor(each) for each in flat if each is not None and each not in operations]
        with tf.control_dependencies(operations):
            return [tf.identity(tensor, name=f"output_{i}") for i, tensor in enumerate(tensors)]
