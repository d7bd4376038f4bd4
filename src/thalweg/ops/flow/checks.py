"""Checks of values, ranks and types: tf.assert_*. Values and shapes that are static are checked at construction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from thalweg import errors
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.composite import IndexedSlices, SparseTensor
from thalweg.graph.conversion import convert
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.operation import Operation
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.constants import no_op
from thalweg.ops.flow.printing import Assert
from thalweg.ops.flow.tensor_names import named


def all_true(condition: Tensor) -> Tensor:
    """Whether all elements of a bool tensor are true, as a scalar."""
    rank = condition.shape.rank
    axes = (
        np.arange(rank, dtype=np.int32) if rank is not None else apply_one("Range", 0, apply_one("Rank", condition), 1)
    )
    return apply_one("All", condition, axes)


def _abbreviated(value: Any, summarize: int | None) -> str:
    flat = np.ravel(value)
    most = flat.size if summarize is not None and summarize < 0 else 3 if summarize is None else summarize
    text = " ".join(str(item) for item in flat[:most])
    return f"[{text}{'...' if flat.size > most else ''}]" if np.ndim(value) else text


def _compare(
    default_name: str, op_type: str, static: Callable[[Any, Any], Any], condition: str, x: Any, y: Any, data: Any,
    summarize: int | None, message: str | None, name: str | None,
) -> Operation:  # fmt: skip
    with name_scope(name, default_name, [x, y, data]):
        x = convert(x, None, "x")
        y = convert(y, None, "y", x.dtype.base_dtype)
        left, right = constant_value(x), constant_value(y)
        if left is not None and right is not None:
            if np.all(static(left, right)):
                return no_op(name="static_checks_determined_all_ok")
            raise errors.InvalidArgumentError(
                None, None,
                f"{message + chr(10) if message else ''}Condition {condition} did not hold element-wise:\n"
                f"x ({named(x)}) = \n{_abbreviated(left, summarize)}\n"
                f"y ({named(y)}) = \n{_abbreviated(right, summarize)}",
            )  # fmt: skip
        if data is None:
            data = [
                f"Condition {condition} did not hold element-wise:",
                f"x ({named(x)}) = ",
                x,
                f"y ({named(y)}) = ",
                y,
            ]
            if message:
                data.insert(0, message)
        return Assert(all_true(apply_one(op_type, x, y)), data, summarize=summarize)


def _comparison(
    function_name: str, op_type: str, static: Callable[[Any, Any], Any], symbol: str
) -> Callable[..., Operation]:
    def check(
        x: Any, y: Any, data: Any = None, summarize: int | None = None, message: str | None = None,
        name: str | None = None,
    ) -> Operation:  # fmt: skip
        return _compare(function_name, op_type, static, f"x {symbol} y", x, y, data, summarize, message, name)

    check.__name__ = check.__qualname__ = function_name
    check.__doc__ = f"""Fails unless `x {symbol} y` holds for every element; an empty tensor always passes.

    Args:
        x: Numbers.
        y: Numbers, which broadcast against `x`.
        data: What the message shows; the two tensors if None.
        summarize: How many elements of each to print.
        message: What to say first.
        name: The scope's name.

    Returns:
        The operation that checks. If both values are known while the graph is built, they are checked at once.

    Raises:
        InvalidArgumentError: If the check fails at once.
    """
    return export(function_name, f"debugging.{function_name}")(check)


assert_equal = _comparison("assert_equal", "Equal", np.equal, "==")
assert_none_equal = _comparison("assert_none_equal", "NotEqual", np.not_equal, "!=")
assert_less = _comparison("assert_less", "Less", np.less, "<")
assert_less_equal = _comparison("assert_less_equal", "LessEqual", np.less_equal, "<=")
assert_greater = _comparison("assert_greater", "Greater", np.greater, ">")
assert_greater_equal = _comparison("assert_greater_equal", "GreaterEqual", np.greater_equal, ">=")


def _comparison_with_zero(
    function_name: str, op_type: str, static: Callable[[Any, Any], Any], symbol: str
) -> Callable[..., Operation]:
    def check(
        x: Any, data: Any = None, summarize: int | None = None, message: str | None = None, name: str | None = None
    ) -> Operation:
        with name_scope(name, function_name, [x, data]):
            x = convert(x, None, "x")
            if data is None:
                data = [f"Condition x {symbol} 0 did not hold element-wise:", f"x ({named(x)}) = ", x]
                if message:
                    data.insert(0, message)
            zero = np.zeros((), x.dtype.as_numpy_dtype)
            return _compare(
                "assert_less", op_type, static, f"x {symbol} 0", x, zero, data, summarize, message, None
            )  # fmt: skip

    check.__name__ = check.__qualname__ = function_name
    check.__doc__ = f"""Fails unless `x {symbol} 0` holds for every element; see `assert_equal` for the arguments."""
    return export(function_name, f"debugging.{function_name}")(check)


assert_positive = _comparison_with_zero("assert_positive", "Greater", np.greater, ">")
assert_negative = _comparison_with_zero("assert_negative", "Less", np.less, "<")
assert_non_negative = _comparison_with_zero("assert_non_negative", "GreaterEqual", np.greater_equal, ">=")
assert_non_positive = _comparison_with_zero("assert_non_positive", "LessEqual", np.less_equal, "<=")


@export("assert_near", "debugging.assert_near")
def assert_near(
    x: Any, y: Any, rtol: Any = None, atol: Any = None, data: Any = None, summarize: int | None = None,
    message: str | None = None, name: str | None = None,
) -> Operation:  # fmt: skip
    """Fails unless `|x - y| <= atol + rtol * |y|` for every element; the tolerances are 10 times the type's epsilon."""
    with name_scope(name, "assert_near", [x, y, rtol, atol, data]):
        x = convert(x, None, "x")
        y = convert(y, x.dtype.base_dtype, "y")
        real = x.dtype.real_dtype
        epsilon = 10 * np.finfo(real.as_numpy_dtype).eps if real.is_floating and real is not dtypes.bfloat16 else 0.08
        rtol = convert(epsilon if rtol is None else rtol, real, "rtol")
        atol = convert(epsilon if atol is None else atol, real, "atol")
        absolute = "ComplexAbs" if x.dtype.is_complex else "Abs"
        bound = apply_one("AddV2", atol, apply_one("Mul", rtol, apply_one(absolute, y)))
        near = apply_one("LessEqual", apply_one(absolute, apply_one("Sub", x, y)), bound)
        if data is None:
            data = [
                message or "", "x and y not equal to tolerance rtol = ", rtol, ", atol = ", atol,
                f"x ({named(x)}) = ", x, f"y ({named(y)}) = ", y,
            ]  # fmt: skip
        return Assert(all_true(near), data, summarize=summarize)


def _static_rank(rank: Any) -> tuple[Tensor, int | None]:
    tensor = convert(rank, None, "rank")
    if tensor.dtype.base_dtype is not dtypes.int32:
        raise TypeError(f"{named(tensor)} must be of type tf.int32; got {tensor.dtype!r}")
    value = constant_value(tensor)
    if tensor.shape.rank not in (None, 0):
        raise ValueError("Rank must be a scalar.")
    return tensor, None if value is None else int(value)


def _check_rank(
    x: Any, ranks: list[Any], fits: Callable[[int, list[int]], bool], op_type: str, words: str, data: Any,
    summarize: int | None, message: str | None,
) -> Operation:  # fmt: skip
    x = convert(x, None, "x")
    pairs = [_static_rank(rank) for rank in ranks]
    known = [value for _, value in pairs if value is not None]
    if x.shape.rank is not None and len(known) == len(pairs):
        if fits(x.shape.rank, known):
            return no_op(name="static_checks_determined_all_ok")
        expected = f"{words} {tuple(known) if words == 'in' else known[0]}".lstrip()
        prefix = f"{message}.  " if message else ""
        raise ValueError(
            f"{prefix}Tensor {named(x)} must have rank {expected}.  Received rank {x.shape.rank}, shape {x.shape}"
        )
    actual = apply_one("Rank", x)
    tensors = [tensor for tensor, _ in pairs]
    holds = apply_one(op_type, actual, tensors[0])
    for tensor in tensors[1:]:
        holds = apply_one("LogicalOr", holds, apply_one(op_type, actual, tensor))
    if data is None:
        prefix = f"{message}.  " if message else ""
        must = f"Tensor {named(x)} must have rank {words}".rstrip()
        data = [prefix, must, *tensors, "Received shape: ", apply_one("Shape", x)]
    return Assert(holds, data, summarize=summarize)


@export("assert_rank", "debugging.assert_rank")
def assert_rank(
    x: Any, rank: Any, data: Any = None, summarize: int | None = None, message: str | None = None,
    name: str | None = None,
) -> Operation:  # fmt: skip
    """Fails unless `x` has this rank: with a ValueError if it is known, else when the returned op runs."""
    with name_scope(name, "assert_rank", [x, data]):
        return _check_rank(x, [rank], lambda r, want: r == want[0], "Equal", "", data, summarize, message)


@export("assert_rank_at_least", "debugging.assert_rank_at_least")
def assert_rank_at_least(
    x: Any, rank: Any, data: Any = None, summarize: int | None = None, message: str | None = None,
    name: str | None = None,
) -> Operation:  # fmt: skip
    """Fails unless `x` has at least this rank; see `assert_rank`."""
    with name_scope(name, "assert_rank_at_least", [x, data]):
        return _check_rank(
            x, [rank], lambda r, want: r >= want[0], "GreaterEqual", "at least", data, summarize, message
        )


@export("assert_rank_in", "debugging.assert_rank_in")
def assert_rank_in(
    x: Any, ranks: Any, data: Any = None, summarize: int | None = None, message: str | None = None,
    name: str | None = None,
) -> Operation:  # fmt: skip
    """Fails unless the rank of `x` is one of `ranks`; see `assert_rank`."""
    with name_scope(name, "assert_rank_in", [x, data]):
        return _check_rank(x, list(ranks), lambda r, want: r in want, "Equal", "in", data, summarize, message)


@export("assert_integer", "debugging.assert_integer")
def assert_integer(x: Any, message: str | None = None, name: str | None = None) -> Operation:
    """Raises TypeError unless `x` is of an integer type."""
    with name_scope(name, "assert_integer", [x]):
        x = convert(x, None, "x")
        if not x.dtype.is_integer:
            prefix = f"{message}  " if message else ""
            raise TypeError(f'{prefix}Expected "x" to be integer type.  Found: {named(x)} of dtype {x.dtype!r}')
        return no_op(name="statically_determined_was_integer")


@export("assert_type", "debugging.assert_type")
def assert_type(tensor: Any, tf_type: Any, message: str | None = None, name: str | None = None) -> Operation:
    """Raises TypeError unless `tensor` is of type `tf_type`."""
    with name_scope(name, "assert_type", [tensor]):
        tensor = convert(tensor, None, "tensor")
        wanted = as_dtype(tf_type)
        if tensor.dtype.base_dtype is not wanted:
            prefix = f"{message}.  " if message else ""
            raise TypeError(f"{prefix}{named(tensor)} must be of type {wanted!r}; got {tensor.dtype!r}")
        return no_op(name="statically_determined_correct_type")


@export("assert_scalar", "debugging.assert_scalar")
def assert_scalar(tensor: Any, name: str | None = None, message: str | None = None) -> Tensor:
    """Returns `tensor`; raises ValueError if its static shape is not that of a scalar."""
    with name_scope(name, "assert_scalar", [tensor]):
        scalar = convert(tensor, None, "tensor")
        if scalar.shape.rank != 0:
            prefix = f"{message}  " if message else ""
            raise ValueError(f"{prefix}Expected scalar shape for {named(scalar)}, saw shape: {scalar.shape}.")
        return scalar


@export("assert_proper_iterable", "debugging.assert_proper_iterable")
def assert_proper_iterable(values: Any) -> None:
    """Raises TypeError unless `values` is an iterable that is neither a tensor, an array nor a string."""
    if isinstance(values, (Tensor, IndexedSlices, SparseTensor, np.ndarray, bytes, str)):
        raise TypeError(f'Expected argument "values" to be a "proper" iterable.  Found: {type(values)}')
    if not hasattr(values, "__iter__"):
        raise TypeError(f'Expected argument "values" to be iterable.  Found: {type(values)}')


@export("debugging.assert_same_float_dtype", "assert_same_float_dtype")
def assert_same_float_dtype(tensors: Any = None, dtype: Any = None) -> DType:
    """Returns the floating-point type that all tensors (and `dtype`) share; float32 if there are none.

    Raises:
        ValueError: If they differ, or are not of a floating-point type.
    """
    found = None if dtype is None else as_dtype(dtype)
    first = None
    for tensor in tensors or ():
        if tensor is None:
            continue
        if found is None:
            found, first = tensor.dtype.base_dtype, tensor
        elif tensor.dtype.base_dtype is not found:
            against = f" as {named(first)}" if first is not None else ""
            raise ValueError(f"{named(tensor)}, type={tensor.dtype!r}, must be of the same type ({found!r}){against}.")
    found = found or dtypes.float32
    if not found.is_floating:
        raise ValueError(f"Expected floating point type, got {found!r}.")
    return found


@export("is_numeric_tensor", "debugging.is_numeric_tensor")
def is_numeric_tensor(tensor: Any) -> bool:
    """Whether a value is a tensor of numbers."""
    if not isinstance(tensor, Tensor):
        return False
    dtype = tensor.dtype
    return dtype.is_floating or dtype.is_integer or dtype.is_complex or dtype.is_quantized


def _compare_neighbours(x: Any, op_type: str, default_name: str, name: str | None) -> Tensor:
    with name_scope(name, default_name, [x]):
        flat = apply_one("Reshape", convert(x, None, "x"), [-1])
        last = apply_one("Sub", apply_one("Size", flat), 1)
        count = apply_one("Maximum", last, 0)
        ahead = apply_one(
            "Slice",
            flat,
            apply_one("Pack", [apply_one("Minimum", 1, apply_one("Size", flat))]),
            apply_one("Pack", [count]),
        )
        behind = apply_one("Slice", flat, [0], apply_one("Pack", [count]))
        return all_true(apply_one(op_type, behind, ahead))


@export("is_strictly_increasing", "math.is_strictly_increasing", "debugging.is_strictly_increasing")
def is_strictly_increasing(x: Any, name: str | None = None) -> Tensor:
    """Whether each element, in row-major order, is greater than the one before."""
    return _compare_neighbours(x, "Less", "is_strictly_increasing", name)


@export("is_non_decreasing", "math.is_non_decreasing", "debugging.is_non_decreasing")
def is_non_decreasing(x: Any, name: str | None = None) -> Tensor:
    """Whether no element, in row-major order, is less than the one before."""
    return _compare_neighbours(x, "LessEqual", "is_non_decreasing", name)
