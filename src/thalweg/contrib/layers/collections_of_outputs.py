"""Outputs of layers by name: collect_named_outputs, and the dict of a collection."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from typing import Any

from thalweg.contrib.layers.variable_names import aliases_of, finished
from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export_value

NamedOutputs = namedtuple("NamedOutputs", ["name", "outputs"])


def append_tensor_alias(tensor: Any, alias: str) -> Any:
    """Gives a tensor one more name for `convert_collection_to_dict`."""
    alias = alias.rstrip("/")
    aliases_of(tensor).append(alias)
    return tensor


def gather_tensors_aliases(tensors: Any) -> list[str]:
    """All names of tensors."""
    return [alias for tensor in tensors for alias in get_tensor_aliases(tensor)]


def get_tensor_aliases(tensor: Any) -> list[str]:
    """The names of a tensor: its aliases, or its own name without the number."""
    return list(getattr(tensor, "aliases", None) or [tensor.name[:-2] if tensor.name.endswith(":0") else tensor.name])


def convert_collection_to_dict(collection: str, clear_collection: bool = False) -> OrderedDict[str, Any]:
    """The tensors of a collection by their names."""
    found = OrderedDict(
        (alias, tensor) for tensor in tf.get_collection(collection) for alias in get_tensor_aliases(tensor)
    )
    if clear_collection:
        tf.get_default_graph().clear_collection(collection)
    return found


def collect_named_outputs(collections: Any, alias: str, outputs: Any) -> Any:
    """Adds a tensor with a name to collections; returns it."""
    return finished(collections, alias, outputs)


def constant_value(value_or_tensor_or_var: Any, dtype: Any = None) -> Any:
    """The value of something if it is known while the graph is built, else None."""
    if value_or_tensor_or_var is None:
        raise ValueError("value_or_tensor_or_var cannot be None")
    if isinstance(value_or_tensor_or_var, (tf.Tensor, tf.Variable)):
        return None if isinstance(value_or_tensor_or_var, tf.Variable) else tf.get_static_value(value_or_tensor_or_var)
    return value_or_tensor_or_var


def static_cond(pred: bool, fn1: Any, fn2: Any) -> Any:
    """Calls one of two functions."""
    return fn1() if pred else fn2()


def n_positive_integers(n: int, value: Any) -> tuple[int, ...]:
    """`n` positive integers of one, or of `n`.

    Raises:
        ValueError: If there are others, or `n` is no positive integer.
    """
    if not isinstance(n, int) or n < 1:
        raise ValueError(f"n must be a positive integer, got {n!r}")
    values = (value,) * n if isinstance(value, int) else tuple(tf.TensorShape(value).as_list())
    if len(values) == 1:
        values = values * n
    known = tuple(int(size) for size in values if size is not None and size > 0)
    if len(known) != n or len(values) != n:
        raise ValueError(f"{value} should be {n} positive integers")
    return known


def two_element_tuple(int_or_tuple: Any) -> tuple[int, int]:
    """Two positive integers of one, or of two."""
    first, second = n_positive_integers(2, int_or_tuple)
    return first, second


def channel_dimension(shape: Any, data_format: str, min_rank: int = 1) -> Any:
    """The size of the channels' axis of a shape."""
    sizes = tf.TensorShape(shape).with_rank_at_least(min_rank).as_list()
    size = sizes[1 if data_format.startswith("NC") else -1]
    if size is None:
        raise ValueError(f"dimension of channels must be known but is None: {shape}")
    return size


def last_dimension(shape: Any, min_rank: int = 1) -> Any:
    """The last size of a shape."""
    return channel_dimension(shape, "NHWC", min_rank)


def get_variable_collections(variables_collections: Any, name: str) -> Any:
    """The collections of one kind of variable."""
    if isinstance(variables_collections, dict):
        return variables_collections.get(name)
    return variables_collections


def smart_cond(pred: Any, fn1: Any, fn2: Any, name: str | None = None) -> Any:
    """Calls one of two functions where the choice is known, and builds a `tf.cond` where it is a tensor."""
    return tf.contrib.framework.smart_cond(pred, fn1, fn2, name)


_UTILITIES = (
    NamedOutputs, append_tensor_alias, gather_tensors_aliases, get_tensor_aliases, convert_collection_to_dict,
    collect_named_outputs, constant_value, static_cond, n_positive_integers, two_element_tuple, channel_dimension,
    last_dimension, get_variable_collections, smart_cond,
)  # fmt: skip
for _function in _UTILITIES:
    _short = _function.__name__
    export_value(_function, f"contrib.layers.utils.{_short}", f"contrib.slim.utils.{_short}")
