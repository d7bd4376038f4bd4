"""Python's built-in functions where their arguments are tensors: `len`, `range`, `print`, `int`, `max` and others."""

from __future__ import annotations

import builtins
import functools
import sys
from collections.abc import Callable
from typing import Any, Final

from thalweg.autograph.iteration import Joined, Mapped, Numbers, Source, length_of, source_of
from thalweg.autograph.staged_list import StagedList
from thalweg.autograph.values import StagedTypeError, as_symbolic, place
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.sorting import sort
from thalweg.ops.flow.printing import print as tensor_print
from thalweg.ops.state.tensor_array import TensorArray


def _staged(value: Any) -> Tensor | None:
    if isinstance(value, StagedList):
        return value.stack()
    return as_symbolic(value)


def _len(value: Any) -> Any:
    if isinstance(value, StagedList):
        return value.length
    if isinstance(value, TensorArray):
        return value.size()
    tensor = as_symbolic(value)
    if tensor is None:
        return len(value)
    if tensor.shape.ndims == 0:
        raise StagedTypeError(f"len of a scalar tensor ('{tensor.name}'){place()}.")
    return length_of(tensor)


def _range(*args: Any) -> Any:
    if not any(as_symbolic(each) is not None for each in args) or not 1 <= len(args) <= 3:
        return range(*args)
    first, limit, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    dtype = next(t.dtype.base_dtype for each in args if (t := as_symbolic(each)) is not None)
    first, limit, step = (convert_to_tensor(each, dtype) for each in (first, limit, step))
    # Python's range is empty where the limit is on the other side.
    known = constant_value(step)
    above, below = (apply_one(kind, first, limit) for kind in ("Maximum", "Minimum"))
    if known is None:
        limit = apply_one("SelectV2", apply_one("Greater", step, convert_to_tensor(0, dtype)), above, below)
    else:
        limit = above if known > 0 else below
    return apply_one("Range", first, limit, step)


def _enumerate(iterable: Any, start: Any = 0) -> Any:
    source = source_of(iterable)
    return enumerate(iterable, start) if source is None else Joined([Numbers(start), source])


def _zip(*iterables: Any, strict: bool = False) -> Any:
    sources = [source_of(each) for each in iterables]
    if all(source is None for source in sources):
        return zip(*iterables, strict=strict)
    made = [source or _constants(each) for source, each in builtins.zip(sources, iterables, strict=True)]
    return Joined(made)


def _constants(values: Any) -> Source:
    """The elements of a Python sequence, as those of a tensor."""
    source = source_of(convert_to_tensor(list(values)))
    assert source is not None
    return source


def _map(function: Callable[..., Any], *iterables: Any) -> Any:
    sources = [source_of(each) for each in iterables]
    if all(source is None for source in sources):
        return map(function, *iterables)
    if len(iterables) == 1 and sources[0] is not None:
        return Mapped(function, sources[0], spread=False)
    return Mapped(function, _zip(*iterables), spread=True)


def _print(*args: Any, **kwargs: Any) -> Any:
    staged = any(_staged(each) is not None for each in _atoms([*args]))
    if not staged and get_default_graph()._get_control_flow_context() is None:
        return print(*args, **kwargs)
    stream = kwargs.pop("file", None) or sys.stdout
    kwargs.pop("flush", None)
    kwargs = {key: value for key, value in kwargs.items() if value is not None}
    shown = [each.stack() if isinstance(each, StagedList) else each for each in args]
    tensor_print(*shown, output_stream=stream, **kwargs)
    return None


def _atoms(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    return [atom for each in value for atom in _atoms(each)] if isinstance(value, (list, tuple)) else [value]


def _number(kind: type, dtype: Any) -> Callable[..., Any]:
    def converted(*args: Any, **kwargs: Any) -> Any:
        tensor = _staged(args[0]) if args else None
        if tensor is None:
            return kind(*args, **kwargs)
        if tensor.dtype.base_dtype is dtypes.string:
            if kind is bool:
                return apply_one("NotEqual", tensor, b"")
            return apply_one("StringToNumber", tensor, out_type=dtype)
        if kind is bool:
            return apply_one("NotEqual", tensor, convert_to_tensor(0, tensor.dtype.base_dtype)) if (
                tensor.dtype.base_dtype is not dtypes.bool) else tensor  # fmt: skip
        return apply_one("Cast", tensor, DstT=dtype)

    return converted


def _abs(value: Any) -> Any:
    return abs(value)


def _best(python: Callable[..., Any], pairwise: str, reduction: str) -> Callable[..., Any]:
    def chosen(*args: Any, **kwargs: Any) -> Any:
        if not any(_staged(each) is not None for each in args):
            if len(args) == 1 and isinstance(args[0], (list, tuple)) and _has_tensor(args[0]) and not kwargs:
                return chosen(*args[0]) if len(args[0]) > 1 else args[0][0]
            return python(*args, **kwargs)
        if kwargs.get("key") is not None:
            raise StagedTypeError(f"`{python.__name__}` of tensors takes no key{place()}.")
        if len(args) == 1:
            tensor = _staged(args[0])
            assert tensor is not None
            if tensor.shape.ndims not in (None, 1):
                raise StagedTypeError(
                    f"`{python.__name__}` of a tensor needs a vector, got shape {tensor.shape}: use "
                    f"tf.reduce_{python.__name__}.{place()}"
                )
            return apply_one(reduction, tensor, [0])
        dtype = next(t.dtype.base_dtype for each in args if (t := _staged(each)) is not None)
        return functools.reduce(lambda a, b: apply_one(pairwise, a, b), [_as(each, dtype) for each in args])

    return chosen


def _as(value: Any, dtype: Any) -> Any:
    tensor = _staged(value)
    return convert_to_tensor(value, dtype) if tensor is None else tensor


def _has_tensor(values: Any) -> bool:
    return any(_staged(each) is not None for each in values)


def _sum(values: Any, start: Any = 0) -> Any:
    tensor = _staged(values)
    if tensor is None:
        return sum(values, start)
    total = apply_one("Sum", tensor, [0])
    return total if isinstance(start, int) and start == 0 else total + start


def _quantified(python: Callable[..., Any], reduction: str, pairwise: str) -> Callable[..., Any]:
    def found(values: Any) -> Any:
        tensor = _staged(values)
        if tensor is not None:
            return apply_one(reduction, apply_one("Cast", tensor, DstT=dtypes.bool), [0])
        if isinstance(values, (list, tuple)) and _has_tensor(values):
            tests = [apply_one("Cast", convert_to_tensor(each), DstT=dtypes.bool) for each in values]
            return functools.reduce(lambda a, b: apply_one(pairwise, a, b), tests)
        return python(values)

    return found


def _sorted(values: Any, *, key: Any = None, reverse: Any = False) -> Any:
    tensor = _staged(values)
    if tensor is None:
        return sorted(values, key=key, reverse=reverse)
    if key is None:
        return sort(tensor, axis=0, direction="DESCENDING" if reverse else "ASCENDING")
    raise StagedTypeError(f"`sorted` of a tensor takes no key: use tf.argsort and tf.gather.{place()}")


def _reversed(values: Any) -> Any:
    tensor = _staged(values)
    return reversed(values) if tensor is None else apply_one("ReverseV2", tensor, [0])


BUILTINS: Final[dict[Any, Callable[..., Any]]] = {
    abs: _abs,
    all: _quantified(all, "All", "LogicalAnd"),
    any: _quantified(any, "Any", "LogicalOr"),
    bool: _number(bool, dtypes.bool),
    enumerate: _enumerate,
    float: _number(float, dtypes.float32),
    int: _number(int, dtypes.int32),
    len: _len,
    map: _map,
    max: _best(max, "Maximum", "Max"),
    min: _best(min, "Minimum", "Min"),
    print: _print,
    range: _range,
    reversed: _reversed,
    sorted: _sorted,
    sum: _sum,
    zip: _zip,
}
"""What stands for Python's functions in converted code."""
