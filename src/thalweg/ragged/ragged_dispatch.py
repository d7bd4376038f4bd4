"""Ordinary functions and operators on RaggedTensors: installed when ragged tensors are first used.

`tf.add`, `tf.reduce_sum`, `tf.concat` and others are replaced in their namespaces by functions that look for a
RaggedTensor among their arguments, and call the original if there is none. Programs without ragged tensors keep the
originals.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import thalweg
from thalweg.ragged import ragged_functions as ragged
from thalweg.ragged.ragged_indexing import gather_rows, select
from thalweg.ragged.ragged_tensor import RaggedTensor

tf: Any = thalweg  # The public names are bound at run time.

# Functions of each element: applied to the innermost values.
_ELEMENTWISE: Final = (
    "abs", "acos", "acosh", "add", "add_n", "as_string", "asin", "asinh", "atan", "atan2", "atanh", "cast",
    "ceil", "clip_by_value", "cos", "cosh", "decode_base64", "digamma", "div", "divide", "encode_base64",
    "equal", "erf", "erfc", "exp", "expm1", "floor", "floordiv", "floormod", "greater", "greater_equal",
    "identity", "invert_permutation", "is_finite", "is_inf", "is_nan", "less", "less_equal", "lgamma", "log",
    "log1p", "log_sigmoid", "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum",
    "mod", "multiply", "negative", "not_equal", "ones_like", "pow", "real", "reciprocal", "rint", "round",
    "rsqrt", "saturate_cast", "sigmoid", "sign", "sin", "sinh", "sqrt", "square", "squared_difference",
    "string_strip", "string_to_hash_bucket", "string_to_hash_bucket_fast", "string_to_hash_bucket_strong",
    "string_to_number", "subtract", "substr", "tan", "tanh", "truediv", "zeros_like", "math.add",
    "math.subtract", "math.multiply", "math.divide", "math.abs", "math.square", "math.exp", "math.log",
    "math.sqrt", "math.maximum", "math.minimum", "math.negative", "math.tanh", "math.sigmoid", "strings.length",
    "strings.lower", "strings.upper", "strings.strip", "strings.substr", "strings.to_number",
    "strings.regex_replace", "strings.regex_full_match", "strings.to_hash_bucket_fast", "nn.relu", "nn.sigmoid",
    "nn.tanh", "nn.elu", "nn.dropout",
)  # fmt: skip
_OPERATORS: Final = {
    "__add__": "add", "__sub__": "subtract", "__mul__": "multiply", "__truediv__": "truediv", "__mod__": "floormod",
    "__floordiv__": "floordiv", "__pow__": "pow", "__and__": "logical_and", "__or__": "logical_or",
    "__xor__": "logical_xor", "__lt__": "less", "__le__": "less_equal", "__gt__": "greater", "__ge__": "greater_equal",
}  # fmt: skip
_REFLECTED: Final = ("__add__", "__sub__", "__mul__", "__truediv__", "__mod__", "__floordiv__", "__pow__")


def _space(dotted: str) -> tuple[Any, str]:
    path, _, name = dotted.rpartition(".")
    space = tf
    for part in path.split(".") if path else ():
        space = getattr(space, part)
    return space, name


def _has_ragged(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    for value in (*args, *kwargs.values()):
        if isinstance(value, RaggedTensor):
            return True
        if isinstance(value, (list, tuple)) and any(isinstance(item, RaggedTensor) for item in value):
            return True
    return False


def _replace(dotted: str, make: Callable[[Any], Any]) -> None:
    space, name = _space(dotted)
    original = getattr(space, name, None)
    if original is None:
        return
    own = make(original)

    @functools.wraps(original)
    def dispatched(*args: Any, **kwargs: Any) -> Any:
        return own(*args, **kwargs) if _has_ragged(args, kwargs) else original(*args, **kwargs)

    setattr(space, name, dispatched)


def _elementwise(original: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], (list, tuple)):
            return ragged.map_flat_values(lambda *items: original(list(items), **kwargs), *args[0])
        return ragged.map_flat_values(original, *args, **kwargs)

    return call


def _reduction(name: str, segments: Any) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        def call(input_tensor: Any, axis: Any = None, keepdims: Any = None, name: Any = None, **kwargs: Any) -> Any:
            if keepdims or kwargs.get("keep_dims"):
                raise ValueError("keepdims is not supported for ragged tensors.")
            axis = kwargs.get("reduction_indices", axis)
            return ragged.reduce_rows(original.__name__, segments, original, input_tensor, axis)

        return call

    return make


def _mean_segments(values: Any, ids: Any, count: Any) -> Any:
    total = tf.unsorted_segment_sum(values, ids, count)
    ones = tf.unsorted_segment_sum(tf.ones_like(values), ids, count)
    return total / ones


def _logical(segments: Any) -> Any:
    def reduce(values: Any, ids: Any, count: Any) -> Any:
        return tf.cast(segments(tf.cast(values, tf.int32), ids, count) > 0, tf.bool)

    return reduce


def install() -> None:
    """Replaces the functions, and gives RaggedTensor its operators."""
    for name in _ELEMENTWISE:
        _replace(name, _elementwise)
    for space in ("", "math."):
        for name, segments in (
            ("reduce_sum", tf.unsorted_segment_sum), ("reduce_prod", tf.unsorted_segment_prod),
            ("reduce_max", tf.unsorted_segment_max), ("reduce_min", tf.unsorted_segment_min),
            ("reduce_mean", _mean_segments), ("reduce_any", _logical(tf.unsorted_segment_max)),
            ("reduce_all", _logical(tf.unsorted_segment_min)),
        ):  # fmt: skip
            _replace(space + name, _reduction(name, segments))
    _replace("concat", lambda original: lambda values, axis=0, name=None: ragged.concat(values, axis))
    _replace("stack", lambda original: lambda values, axis=0, name=None: ragged.stack(values, axis))
    _replace("expand_dims", lambda original: lambda input, axis, name=None: ragged.expand_dims(input, axis))
    _replace(
        "boolean_mask",
        lambda original: lambda tensor, mask, name="boolean_mask", axis=None: ragged.boolean_mask(tensor, mask),
    )
    _replace("gather", lambda original: lambda params, indices, **unused: gather_rows(params, indices))
    _replace("rank", lambda original: lambda input, name=None: tf.rank(input.flat_values) + input.ragged_rank)
    _replace(
        "size",
        lambda original: lambda input, name=None, out_type=tf.int32: tf.size(input.flat_values, out_type=out_type),
    )
    for operator, name in _OPERATORS.items():
        _set_operator(operator, name)
    for operator, unary in (("__neg__", tf.negative), ("__abs__", tf.abs), ("__invert__", tf.logical_not)):
        setattr(RaggedTensor, operator, functools.partialmethod(_unary, unary))
    setattr(RaggedTensor, "__getitem__", select)  # noqa: B010 (mypy knows no such method)


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


install()
