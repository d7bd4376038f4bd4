"""Parts of a tensor: slice, strided_slice, and NumPy-style indexing `x[1:, ..., tf.newaxis]`."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor, is_tensor_like
from thalweg.graph.default_graph import executing_eagerly, name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions import work as works
from thalweg.graph.definitions.op_registry import define, export, export_value, gradient, work
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.eager_tensor import EagerTensor
from thalweg.graph.immediate import immediate
from thalweg.graph.operation import Operation
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import Dimension, TensorShape
from thalweg.ops.array.gather import boolean_mask
from thalweg.ops.array.joining import stack
from thalweg.ops.array.shapes_of_tensors import sizes_of
from thalweg.ops.math.math_gradients import reduce_to_shape

export_value(None, "newaxis")


def _slice_shape(c: ShapeContext) -> TensorShape:
    dims = c.dims(0)
    lengths = shapes.merge(shapes.with_rank(c.input(1), 1), shapes.with_rank(c.input(2), 1)).dims_tuple
    assert lengths is not None
    rank = shapes.merge_dims(None if dims is None else len(dims), lengths[0])
    if rank is None:
        return shapes.UNKNOWN
    begin, size = c.constant(1, partial=True), c.constant(2, partial=True)
    result: list[int | None] = []
    for i in range(rank):
        whole = None if dims is None else dims[i]
        start = None if begin is None else begin[i]
        length = None if size is None else size[i]
        if start is not None and (start < 0 or (whole is not None and start > whole)):
            raise ValueError(f"Expected begin[{i}] in [0, {whole}], but got {start}")
        if length == -1:
            length = None if whole is None or start is None else whole - int(start)
        elif length is not None and (
            length < 0 or (whole is not None and int(length) + int(start if start is not None else 0) > whole)
        ):
            raise ValueError(f"Expected size[{i}] in [0, {whole}] from begin[{i}] = {start}, but got {length}")
        result.append(None if length is None else int(length))
    return TensorShape._of(tuple(result))


define(
    "Slice", "input: T, begin: Index, size: Index -> output: T", "T: type, Index: {int32, int64}", shape=_slice_shape
)


@export("slice")
def slice_(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """Returns the box of a tensor that begins at `begin` and has the shape `size`.

    Args:
        input_: A Tensor.
        begin: A vector with the first index along each dimension.
        size: A vector with the number of elements along each; -1 takes all that are left.
        name: The node's name.

    Returns:
        A Tensor.
    """
    return apply_one("Slice", input_, begin, size, name=name)


work(works.picking, "Slice")


@gradient("Slice")
def _slice_grad(op: Operation, grad: Tensor) -> Any:
    x, begin = op.inputs[0], op.inputs[1]
    before = constant_value(begin)
    if before is not None and x.shape.is_fully_defined() and grad.shape.is_fully_defined():
        after = np.array(x.shape.as_list()) - np.array(grad.shape.as_list()) - before
        return apply_one("Pad", grad, np.stack([before, after], 1).astype(before.dtype)), None, None
    rest = apply_one(
        "Sub", apply_one("Sub", sizes_of(x, begin.dtype), apply_one("Shape", grad, out_type=begin.dtype)), begin
    )
    padded = apply_one("Pad", grad, apply_one("Pack", [begin, rest], axis=1))
    padded.set_shape(x.shape)
    return padded, None, None


_MASKS = (
    "begin_mask: int = 0, end_mask: int = 0, ellipsis_mask: int = 0, new_axis_mask: int = 0, shrink_axis_mask: int = 0"
)
_MASK_NAMES = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


def _strided_slice_shape(c: ShapeContext) -> TensorShape:
    bounds = [shapes.with_rank(c.input(i), 1) for i in (1, 2, 3)]
    length = shapes.merge_shapes(bounds).dims_tuple
    assert length is not None
    if length[0] is None or c.dims(0) is None:
        return shapes.UNKNOWN
    values = [c.constant(i, partial=True) for i in (1, 2, 3)]
    begin, end, strides = ([None] * length[0] if v is None else list(v) for v in values)
    masks = {name: c.attr(name) for name in _MASK_NAMES}
    return TensorShape._of(strided_dims(c.dims(0) or (), begin, end, strides, masks))


def strided_dims(
    dims: tuple[int | None, ...], begin: list[Any], end: list[Any], strides: list[Any], masks: dict[str, int]
) -> tuple[int | None, ...]:
    """The static shape of a strided slice; bounds that are not constant are None."""
    count, rank = len(begin), len(dims)
    ellipsis, new_axis, shrink = masks["ellipsis_mask"], masks["new_axis_mask"], masks["shrink_axis_mask"]
    if ellipsis & (ellipsis - 1):
        raise ValueError("Multiple ellipses in slice spec not allowed")
    ellipsis &= (1 << count) - 1  # Bits beyond the last entry mean nothing.
    taken = sum(1 for i in range(count) if not (ellipsis | new_axis) >> i & 1)
    if taken > rank:
        raise ValueError(f"Index out of range using input dim {rank}; input has only {rank} dims")
    result: list[int | None] = []
    axis = 0
    for i in range(count):
        bit = 1 << i
        if ellipsis & bit:
            result.extend(dims[axis : axis + rank - taken])
            axis += rank - taken
            continue
        if new_axis & bit:
            result.append(1)
            continue
        size, stride = dims[axis], strides[i]
        if stride == 0:
            raise ValueError(f"strides[{i}] must be non-zero")
        if shrink & bit:
            index = begin[i]
            if stride is not None and stride < 0:
                raise ValueError("only stride 1 allowed on non-range indexing.")
            if index is not None and size is not None and not -size <= index < size:
                raise ValueError(f"slice index {index} of dimension {axis} out of bounds.")
        else:
            start: Any = None if masks["begin_mask"] & bit else begin[i]
            stop: Any = None if masks["end_mask"] & bit else end[i]
            known_start = bool(masks["begin_mask"] & bit) or start is not None
            known_stop = bool(masks["end_mask"] & bit) or stop is not None
            result.append(_interval(size, start, stop, stride, known_start and known_stop))
        axis += 1
    if not ellipsis:
        result.extend(dims[axis:])
    return tuple(result)


def _interval(size: int | None, start: Any, stop: Any, stride: Any, known: bool) -> int | None:
    if not known or stride is None:
        return 0 if size == 0 else None
    start, stop, stride = (None if n is None else int(n) for n in (start, stop, stride))
    if size is not None:
        return len(range(*slice(start, stop, stride).indices(size)))
    if start is not None and stop is not None and (start < 0) == (stop < 0) and (stop - start) * stride <= 0:
        return 0  # Empty, however long the dimension is.
    return None


_STRIDED = "begin: Index, end: Index, strides: Index"
define(
    "StridedSlice",
    f"input: T, {_STRIDED} -> output: T",
    f"T: type, Index: {{int16, int32, int64}}, {_MASKS}",
    shape=_strided_slice_shape,
)
define(
    "StridedSliceGrad",
    f"shape: Index, {_STRIDED}, dy: T -> output: T",
    f"T: type, Index: {{int32, int64}}, {_MASKS}",
    shape=lambda c: c.constant_as_shape(0),
)
define(
    "TensorStridedSliceUpdate",
    f"input: T, {_STRIDED}, value: T -> output: T",
    f"T: type, Index: {{int32, int64}}, {_MASKS}",
    shape=shapes.unchanged,
    doc="A copy of the input in which a slice is replaced.",
)


@export("strided_slice")
def strided_slice(
    input_: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: str | None = None,
) -> Tensor:
    """Returns the elements `begin`, `begin + strides`, ... before `end`, along each dimension.

    Args:
        input_: A Tensor.
        begin: A vector with the first index along each dimension.
        end: A vector with the index that is no longer taken.
        strides: A vector with the steps, 1 if None; negative ones run backwards.
        begin_mask: Bit i: `begin[i]` is ignored, and the slice begins at the edge.
        end_mask: Bit i: `end[i]` is ignored, and the slice ends at the edge.
        ellipsis_mask: Bit i: entry i stands for as many whole dimensions as are left; at most one bit.
        new_axis_mask: Bit i: entry i inserts a dimension of size 1.
        shrink_axis_mask: Bit i: entry i is a single index, and its dimension disappears.
        var: The variable whose value `input_` is; the result then has an `assign` method.
        name: The node's name.

    Returns:
        A Tensor.
    """
    if strides is None:
        begin = convert_to_tensor(begin)
        strides = apply_one("OnesLike", begin) if not begin.shape.is_fully_defined() else _ones(begin)
    masks = {
        "begin_mask": begin_mask,
        "end_mask": end_mask,
        "ellipsis_mask": ellipsis_mask,
        "new_axis_mask": new_axis_mask,
        "shrink_axis_mask": shrink_axis_mask,
    }
    result = apply_one("StridedSlice", input_, begin, end, strides, name=name, **masks)
    if var is None:
        return result
    if type(result) is EagerTensor:
        var._as_eager_slice(result, (begin, end, strides), masks)
        return result
    part: Tensor = var._as_slice(result)
    return part


def _ones(begin: Tensor) -> Any:
    return np.ones(begin.shape.as_list(), begin.dtype.as_numpy_dtype)


work(works.picking, "StridedSlice")


@gradient("StridedSlice")
def _strided_slice_grad(op: Operation, grad: Tensor) -> Any:
    x, begin, end, strides = op.inputs
    if begin.dtype not in (dtypes.int32, dtypes.int64):
        begin, end, strides = (apply_one("Cast", t, DstT=dtypes.int32) for t in (begin, end, strides))
    masks = {name: op.attrs[name] for name in _MASK_NAMES}
    sizes = sizes_of(x, begin.dtype)
    spread = apply_one("StridedSliceGrad", sizes, begin, end, strides, grad, **masks)
    spread.set_shape(x.shape)
    return spread, None, None, None


@gradient("StridedSliceGrad")
def _strided_slice_grad_grad(op: Operation, grad: Tensor) -> Any:
    masks = {name: op.attrs[name] for name in _MASK_NAMES}
    return None, None, None, None, apply_one("StridedSlice", grad, *op.inputs[1:4], **masks)


@gradient("TensorStridedSliceUpdate")
def _strided_slice_update_grad(op: Operation, grad: Tensor) -> Any:
    bounds, value = op.inputs[1:4], op.inputs[4]
    masks = {name: op.attrs[name] for name in _MASK_NAMES}
    part = apply_one("StridedSlice", grad, *bounds, **masks)
    rest = apply_one("TensorStridedSliceUpdate", grad, *bounds, apply_one("ZerosLike", value), **masks)
    return rest, None, None, None, reduce_to_shape(part, value)


class _Index:
    """An index expression, entry by entry, on its way to begin, end, strides and masks."""

    def __init__(self) -> None:
        self.begin: list[Any] = []
        self.end: list[Any] = []
        self.strides: list[Any] = []
        self.masks: dict[str, Any] = dict.fromkeys(_MASK_NAMES, 0)

    def _mark(self, mask: str) -> None:
        self.masks[mask] |= 1 << len(self.begin)

    def _append(self, begin: Any, end: Any, stride: Any) -> None:
        self.begin.append(begin)
        self.end.append(end)
        self.strides.append(stride)

    def add(self, item: Any) -> None:
        """Takes one entry of `x[..., ..., ...]`."""
        if isinstance(item, slice):
            self._add_slice(item)
        elif item is Ellipsis:
            self._mark("ellipsis_mask")
            self._append(0, 0, 1)
        elif item is None:
            self._mark("new_axis_mask")
            self._append(0, 0, 1)
        else:
            item = _checked_index(item)
            self._mark("shrink_axis_mask")
            self._append(item, item + 1, 1)

    def _add_slice(self, item: slice) -> None:
        for bound, mask in ((item.start, "begin_mask"), (item.stop, "end_mask")):
            if bound is None:
                self._mark(mask)
        start, stop, step = (None if n is None else _checked_index(n) for n in (item.start, item.stop, item.step))
        self._append(0 if start is None else start, 0 if stop is None else stop, 1 if step is None else step)


def _checked_index(item: Any) -> Any:
    """An entry that must be a whole number or a scalar tensor of whole numbers."""
    if isinstance(item, Dimension):
        item = item.value
    if isinstance(item, (int, np.integer)) and not isinstance(item, (bool, np.bool_)):
        return int(item)
    if isinstance(item, np.ndarray) and item.ndim == 0 and item.dtype.kind in "iu":
        return int(item)
    if is_tensor_like(item):
        tensor = convert_to_tensor(item)
        if tensor.dtype.base_dtype in (dtypes.int16, dtypes.int32, dtypes.int64) and tensor.shape.ndims in (0, None):
            return tensor
    raise TypeError(
        "Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 tensors are "
        f"valid indices, got {item!r}"
    )


def _is_mask(item: Any) -> bool:
    if isinstance(item, (bool, np.bool_)):
        return True
    if isinstance(item, np.ndarray):
        return bool(item.dtype == np.bool_)
    return isinstance(item, Tensor) and item.dtype.base_dtype is dtypes.bool


def index_tensor(tensor: Any, item: Any, var: Any = None) -> Tensor:
    """`tensor[item]`, with NumPy's rules for whole numbers, slices, `...`, `tf.newaxis` and boolean masks.

    Args:
        tensor: A Tensor.
        item: What stands between the brackets.
        var: The variable whose value `tensor` is, for `v[1:].assign(x)`.

    Returns:
        A Tensor.

    Raises:
        TypeError: For an index of any other kind.
    """
    if type(tensor) is EagerTensor and var is None:
        made = immediate.run("__getitem__", (tensor, item), {})
        if made is not NotImplemented:
            return made  # type: ignore[no-any-return]
        key = _plain_key(item) if executing_eagerly() else None
        if key is not None:
            bounds, masks = _known_indices.get(key) or _kept_index(key, item)
            result = apply_one("StridedSlice", tensor, *bounds, **masks)
            immediate.keep_form("__getitem__", (tensor, item), "StridedSlice", (tensor, *bounds), masks)
            return result
    if _is_mask(item):
        return boolean_mask(tensor, item)
    index = _Index()
    for entry in item if isinstance(item, (list, tuple)) else (item,):
        index.add(entry)
    with name_scope("strided_slice") as scope:
        begin, end, strides = (_packed(values) for values in _in_one_dtype(index))
        return strided_slice(tensor, begin, end, strides, var=var, name=scope, **index.masks)


# Where operations run at once: begin, end and strides of indices of Python's own numbers, as tensors, and the masks.
_known_indices: dict[Any, tuple[list[Tensor], dict[str, Any]]] = {}
_MOST_INDICES = 4096


def _plain_key(item: Any) -> Any:
    """A hashable form of an index that has Python's own numbers only; None for any other."""
    key = []
    for entry in item if type(item) is tuple else (item,):
        if type(entry) is slice:
            entry = (entry.start, entry.stop, entry.step)
            if not all(n is None or type(n) is int for n in entry):
                return None
        elif type(entry) is not int and entry is not None and entry is not Ellipsis:
            return None
        key.append(entry)
    return tuple(key)


def _kept_index(key: Any, item: Any) -> tuple[list[Tensor], dict[str, Any]]:
    index = _Index()
    for entry in item if type(item) is tuple else (item,):
        index.add(entry)
    if len(_known_indices) >= _MOST_INDICES:
        _known_indices.clear()
    found = _known_indices[key] = ([convert_to_tensor(values) for values in _in_one_dtype(index)], index.masks)
    return found


def _in_one_dtype(index: _Index) -> list[list[Any]]:
    """begin, end and strides in int64 if any of them holds an int64 tensor, or a number beyond int32."""
    lists = [index.begin, index.end, index.strides]
    every = [n for values in lists for n in values]
    if any(not -(2**63) <= n < 2**63 for n in every if isinstance(n, int)):
        raise ValueError(f"Can't index a tensor with integers out of the range of int64: {every}")
    tensors = [n for n in every if isinstance(n, Tensor)]
    wide = any(t.dtype.base_dtype is dtypes.int64 for t in tensors)
    wide = wide or any(not -(2**31) <= n < 2**31 for n in every if isinstance(n, int))
    if not tensors:
        return [np.array(values, np.int64 if wide else np.int32) for values in lists]  # type: ignore[misc]
    dtype = dtypes.int64 if wide else dtypes.int32
    return [[_as_type(n, dtype) for n in values] for values in lists]


def _as_type(n: Any, dtype: dtypes.DType) -> Any:
    if not isinstance(n, Tensor):
        return np.array(n, dtype.as_numpy_dtype)
    return n if n.dtype.base_dtype is dtype else apply_one("Cast", n, DstT=dtype)


def _packed(values: Any) -> Tensor:
    if isinstance(values, list) and any(isinstance(n, Tensor) for n in values):
        return stack(values)
    return convert_to_tensor(np.asarray(values), name="stack")


Tensor.override_operator("__getitem__", index_tensor)
