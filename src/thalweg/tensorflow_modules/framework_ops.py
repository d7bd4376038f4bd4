"""Names of `tensorflow.python.framework.ops` and `random_seed` that are not public."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any, Final

from thalweg.contrib.public_names import tf
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.conversion import is_tensor_like
from thalweg.graph.default_graph import graph_of
from thalweg.graph.definitions import op_registry
from thalweg.graph.tensor import Tensor

_uids: Final = itertools.count(1)
_lock: Final = threading.Lock()


class EagerTensor:
    """No tensor is one: programs ask whether a value is."""


class RegisterShape:
    """Decorator of shape functions in Python: accepted, and not used. Shapes are those of the op's definition."""

    def __init__(self, op_type: str) -> None:
        """Takes the op type."""
        self.op_type = op_type

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the function."""
        return function


def internal_convert_to_tensor(
    value: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False, preferred_dtype: Any = None, **_: Any
) -> Any:
    """`tf.convert_to_tensor`."""
    return tf.convert_to_tensor(value, dtype=dtype, name=name, preferred_dtype=preferred_dtype)


def convert_n_to_tensor(
    values: Any, dtype: Any = None, name: str | None = None, preferred_dtype: Any = None
) -> list[Any]:
    """Converts each of several values."""
    return [
        tf.convert_to_tensor(value, dtype, None if name is None else f"{name}_{i}", preferred_dtype)
        for i, value in enumerate(values)
    ]


def convert_n_to_tensor_or_indexed_slices(values: Any, dtype: Any = None, name: str | None = None) -> list[Any]:
    """Converts each of several values; None and IndexedSlices stay."""
    return [
        value if value is None or isinstance(value, IndexedSlices) else tf.convert_to_tensor(value, dtype, name)
        for value in values
    ]


_TensorLike = Tensor


def is_dense_tensor_like(t: Any) -> bool:
    """Whether a value is a tensor, or is used like one: a variable, or a class that was registered."""
    return isinstance(t, Tensor) or (is_tensor_like(t) and hasattr(t, "dtype") and hasattr(t, "name"))


def register_dense_tensor_like_type(tensor_type: Any) -> None:
    """Accepts a class that has a name and a type of elements: its conversion is what counts.

    Raises:
        TypeError: If it has not both as properties.
    """
    for name in ("name", "dtype"):
        if not isinstance(getattr(tensor_type, name, None), property):
            raise TypeError(f"Type {tensor_type.__name__} does not define a `{name}` property")


def _as_graph_element(obj: Any) -> Any:
    convert = getattr(obj, "_as_graph_element", None)
    return None if convert is None else convert()


def uid() -> int:
    """A number that no other call in this process returns."""
    with _lock:
        return next(_uids)


def _get_graph_from_inputs(op_input_list: Any, graph: Any = None) -> Any:
    values = list(op_input_list)
    if graph is None:
        return graph_of(values)
    for value in values:
        if getattr(value, "graph", graph) is not graph:
            raise ValueError(f"{value} is not from the passed-in graph.")
    return graph


def get_gradient_function(op: Any) -> Any:
    """The gradient function of an operation's type; None if it has no inputs.

    Raises:
        LookupError: If none is registered.
    """
    return None if not op.inputs else op_registry.gradient_function(op.type)


def strip_name_scope(name: str, export_scope: str | None) -> str:
    """A name without a scope at its beginning."""
    return name.removeprefix(f"{export_scope}/") if export_scope else name


def prepend_name_scope(name: str, import_scope: str | None) -> str:
    """A name below a scope."""
    return f"{import_scope.rstrip('/')}/{name}" if import_scope else name


def get_name_scope() -> str:
    """The current name scope of the default graph."""
    return str(tf.get_default_graph().get_name_scope())


def executing_eagerly_outside_functions() -> bool:
    """Whether ops run when they are called: no, a graph is built."""
    return bool(tf.executing_eagerly())


def inside_function() -> bool:
    """Whether a function's body is being built."""
    return bool(getattr(tf.get_default_graph(), "building_function", False))


def get_seed(op_seed: int | None) -> tuple[int | None, int | None]:
    """The two seeds of an op for a given seed of its own and the graph's."""
    first, second = tf.get_seed(op_seed)
    return first, second
