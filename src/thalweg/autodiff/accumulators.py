"""Keeping the values that a tensor has in the iterations of a loop, for the backward loop to read."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from thalweg.control_flow.scoping import in_context
from thalweg.control_flow.while_context import WhileContext
from thalweg.graph.apply import apply, apply_one
from thalweg.graph.dtypes import DType, resource
from thalweg.graph.gradient_source import is_repeated
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape


def new_array(
    dtype: DType, size: Tensor | None = None, element_shape: TensorShape | None = None, read_once: bool = True
) -> tuple[Tensor, Tensor]:
    """A TensorArray in the current context; it grows with its writes unless `size` is given."""
    handle, flow = apply(
        "TensorArrayV3",
        np.int32(0) if size is None else size,
        dtype=dtype,
        element_shape=element_shape,
        dynamic_size=size is None,
        clear_after_read=read_once,
        name="accumulator",
    )
    return handle, flow


def accumulate(loop: WhileContext, tensor: Tensor) -> tuple[Tensor, Tensor]:
    """Makes `loop` keep the values of a tensor inside of it.

    Args:
        loop: A finished loop.
        tensor: A tensor of its body.

    Returns:
        Handle and last flow of a TensorArray, outside of the loop, that holds the value of iteration i at index i.
    """
    graph = loop.graph
    counter = loop.counter()
    dtype = tensor.dtype.base_dtype
    # A handle stays on the device of its resource, whatever device function applies to the array.
    place = graph.colocate_with(tensor.op, ignore_existing=True) if dtype is resource else nullcontext()
    with in_context(graph, loop.outer_context), place:
        handle, flow = new_array(dtype, read_once=not is_repeated(tensor))

    def update(before: Tensor) -> Tensor:
        return apply_one("TensorArrayWriteV3", handle, counter.body, tensor, before, name="keep")

    return handle, loop.add_variable(flow, update).exit
