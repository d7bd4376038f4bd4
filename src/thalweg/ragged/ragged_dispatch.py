"""Ordinary functions and operators on RaggedTensors: what `tf.add`, `tf.reduce_sum` and `tf.concat` do with them.

Functions of each element are applied to the innermost values. Others have an entry in the table here, under the
function's name; it takes the function without its dispatch, and the arguments of the call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import thalweg
from thalweg.graph.definitions import dispatch
from thalweg.ragged import ragged_functions as ragged
from thalweg.ragged.ragged_indexing import gather_rows, select
from thalweg.ragged.ragged_tensor import RaggedTensor

tf: Any = thalweg  # The public names are bound at run time.

_OPERATORS: Final = {
    "__add__": "add", "__sub__": "subtract", "__mul__": "multiply", "__truediv__": "truediv", "__mod__": "floormod",
    "__floordiv__": "floordiv", "__pow__": "pow", "__and__": "logical_and", "__or__": "logical_or",
    "__xor__": "logical_xor", "__lt__": "less", "__le__": "less_equal", "__gt__": "greater", "__ge__": "greater_equal",
}  # fmt: skip
_REFLECTED: Final = ("__add__", "__sub__", "__mul__", "__truediv__", "__mod__", "__floordiv__", "__pow__")


def _elementwise(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if args and isinstance(args[0], (list, tuple)):
        return ragged.map_flat_values(lambda *items: function(list(items), **kwargs), *args[0])
    return ragged.map_flat_values(function, *args, **kwargs)


def _reduction(segments: Any) -> Callable[..., Any]:
    def reduce(
        function: Any, input_tensor: Any, axis: Any = None, keepdims: Any = None, name: Any = None, **kwargs: Any
    ) -> Any:
        if keepdims or kwargs.get("keep_dims"):
            raise ValueError("keepdims is not supported for ragged tensors.")
        axis = kwargs.get("reduction_indices", axis)
        return ragged.reduce_rows(function.__name__, segments, function, input_tensor, axis)

    return reduce


def _mean_segments(values: Any, ids: Any, count: Any) -> Any:
    total = tf.unsorted_segment_sum(values, ids, count)
    ones = tf.unsorted_segment_sum(tf.ones_like(values), ids, count)
    return total / ones


def _logical(segments: Any) -> Any:
    def reduce(values: Any, ids: Any, count: Any) -> Any:
        return tf.cast(segments(tf.cast(values, tf.int32), ids, count) > 0, tf.bool)

    return reduce


def _rank(function: Any, input: Any, name: Any = None) -> Any:
    return function(input.flat_values) + input.ragged_rank


def _size(function: Any, input: Any, name: Any = None, out_type: Any = None) -> Any:
    return function(input.flat_values, out_type=out_type or tf.int32)


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "reduce_sum": _reduction(tf.unsorted_segment_sum),
    "reduce_prod": _reduction(tf.unsorted_segment_prod),
    "reduce_max": _reduction(tf.unsorted_segment_max),
    "reduce_min": _reduction(tf.unsorted_segment_min),
    "reduce_mean": _reduction(_mean_segments),
    "reduce_any": _reduction(_logical(tf.unsorted_segment_max)),
    "reduce_all": _reduction(_logical(tf.unsorted_segment_min)),
    "concat": lambda function, values, axis=0, name=None: ragged.concat(values, axis),
    "stack": lambda function, values, axis=0, name=None: ragged.stack(values, axis),
    "expand_dims": lambda function, input, axis, name=None: ragged.expand_dims(input, axis),
    "boolean_mask": lambda function, tensor, mask, name=None, axis=None: ragged.boolean_mask(tensor, mask),
    "gather": lambda function, params, indices, **unused: gather_rows(params, indices),
    "rank": _rank,
    "size": _size,
}


def _handle(function: Any, is_elementwise: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if is_elementwise:
        return _elementwise(function, args, kwargs)
    own = _FUNCTIONS.get(function.__name__)
    return function(*args, **kwargs) if own is None else own(function, *args, **kwargs)


def _unary(rt: Any, function: Any) -> Any:
    return ragged.map_flat_values(function, rt)


def _set_operator(operator: str, name: str) -> None:
    function = getattr(tf, name)

    def forward(self: Any, other: Any) -> Any:
        return function(self, other)

    def backward(self: Any, other: Any) -> Any:
        return function(other, self)

    setattr(RaggedTensor, operator, forward)
    if operator in _REFLECTED:
        setattr(RaggedTensor, "__r" + operator[2:], backward)


for _operator, _name in _OPERATORS.items():
    _set_operator(_operator, _name)
for _operator, _function in (("__neg__", tf.negative), ("__abs__", tf.abs), ("__invert__", tf.logical_not)):
    setattr(RaggedTensor, _operator, functools.partialmethod(_unary, _function))
setattr(RaggedTensor, "__getitem__", select)  # noqa: B010 (mypy knows no such method)
dispatch.register(RaggedTensor, _handle)
