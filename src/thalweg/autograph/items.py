"""Indexing in converted code: elements of tensors, TensorArrays and lists, read and replaced."""

from __future__ import annotations

from typing import Any

from thalweg.autograph.values import StagedTypeError, as_symbolic, place
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.tensor import Tensor
from thalweg.ops.state.tensor_array import TensorArray


def get_item(target: Any, key: Any) -> Any:
    """`target[key]`."""
    if isinstance(target, TensorArray):
        return target.read(_from_end(key, target.size()))
    if isinstance(target, (list, tuple)) and not isinstance(key, (int, slice)):
        index = as_symbolic(key)
        if index is not None:
            return convert_to_tensor(list(target))[index]
    return target[key]


def _from_end(key: Any, size: Any) -> Any:
    return apply_one("AddV2", size, key) if isinstance(key, int) and key < 0 else key


def set_item(value: Any, target: Any, key: Any) -> Any:
    """`target[key] = value`: returns the target, or, for a tensor, another one with that value."""
    if isinstance(target, TensorArray):
        return target.write(_from_end(key, target.size()), value)
    tensor = as_symbolic(target) if isinstance(target, Tensor) else None
    if tensor is not None:
        return _with_item(tensor, key, value)
    if isinstance(target, list) and as_symbolic(key) is not None:
        raise StagedTypeError(
            "A tensor cannot say which element of a Python list to replace: use a tensor or a TensorArray in the "
            f"place of the list.{place()}"
        )
    target[key] = value
    return target


def _with_item(tensor: Tensor, key: Any, value: Any) -> Tensor:
    piece = tensor[key]
    if piece.op.type != "StridedSlice":
        raise StagedTypeError(
            f"Elements of a tensor are replaced by numbers and slices, not by {type(key).__name__}: use "
            f"tf.tensor_scatter_nd_update or tf.where.{place()}"
        )
    source, begin, end, strides = piece.op.inputs
    masks = {name: piece.op.attrs[name] for name in piece.op.attrs if name.endswith("_mask")}
    new = convert_to_tensor(value, tensor.dtype.base_dtype)
    if new.shape.ndims is None or new.shape.dims_tuple != piece.shape.dims_tuple:
        new = apply_one("BroadcastTo", new, apply_one("Shape", piece))
    result = apply_one("TensorStridedSliceUpdate", source, begin, end, strides, new, **masks)
    result.set_shape(tensor.shape)
    return result


def set_attribute_item(value: Any, owner: Any, name: str, key: Any) -> None:
    """`owner.name[key] = value`."""
    target = getattr(owner, name)
    changed = set_item(value, target, key)
    if changed is not target:
        setattr(owner, name, changed)


def change_item(value: Any, target: Any, key: Any) -> None:
    """`target[key] = value` where the target cannot be replaced by another tensor.

    Raises:
        StagedTypeError: If it would have to be.
    """
    if set_item(value, target, key) is not target:
        raise StagedTypeError(
            "A tensor's elements are replaced by binding its name to another tensor, which needs a variable of this "
            f"function, or an attribute: declare the name nonlocal, or assign the tensor to a local name.{place()}"
        )
