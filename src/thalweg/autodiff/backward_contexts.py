"""The contexts of backward code: where it asks for a tensor of the forward branch or loop, they provide its value.

A backward branch runs under the same predicate as the forward branch that it mirrors: the forward conditional gets a
further result for each tensor that the backward branch needs. A backward loop runs its iterations in reverse, so
forward tensors must have been kept: the forward loop gets a TensorArray per tensor needed, written in each iteration,
and the backward loop reads it at its own position. Both only add nodes to the forward side, and are differentiable.
"""

from __future__ import annotations

from typing import Any

from thalweg.autodiff.accumulators import accumulate
from thalweg.control_flow.cond_context import CondContext
from thalweg.control_flow.scoping import in_context
from thalweg.control_flow.while_context import WhileContext
from thalweg.graph.apply import apply_one
from thalweg.graph.op_effects import Flow
from thalweg.graph.tensor import Tensor

_FLOW_WRITERS = ("TensorArrayWriteV3", "TensorArrayScatterV3", "TensorArraySplitV3")


class BackwardBranch(CondContext):
    """A branch of the gradient of a conditional."""

    def __init__(self, pred: Tensor, pivot: Tensor, branch: int, name: str, mirrored: CondContext) -> None:
        """Mirrors a forward branch."""
        super().__init__(pred, pivot, branch, name)
        self.mirrored = mirrored
        self._values: dict[Tensor, Tensor] = {}

    def capture(self, tensor: Tensor) -> Tensor:
        """Provides forward tensors of the mirrored branch; captures others."""
        if tensor in self.captures or self.contains(tensor) or not self.mirrored.contains(tensor):
            return super().capture(tensor)
        found = self._values.get(tensor)
        if found is None:
            found = self._values[tensor] = self._forward_value(tensor)
        return found

    def _forward_value(self, tensor: Tensor) -> Tensor:
        op = tensor.op
        if op.type == "Const":
            return self.capture(_constant(tensor))
        if op.op_def.flow is Flow.SWITCH and self.mirrored.captures.get(op.inputs[0]) is tensor:
            return self.capture(op.inputs[0])
        assert self.mirrored.conditional is not None
        value = super().capture(self.mirrored.conditional.export(tensor))
        value._shape = tensor.shape  # The placeholder value of the other branch is dead here.
        return value


class BackwardLoop(WhileContext):
    """The gradient of a loop."""

    def __init__(self, graph: Any, name: str, mirrored: WhileContext) -> None:
        """Mirrors a forward loop."""
        super().__init__(graph, name, mirrored.parallel_iterations, mirrored.back_prop, mirrored.swap_memory)
        self.mirrored = mirrored
        self.position: Tensor  # The number of the forward iteration, in the body.
        self._values: dict[Tensor, Tensor] = {}

    def capture(self, tensor: Tensor) -> Tensor:
        """Provides forward tensors of the mirrored loop; captures others."""
        if tensor in self.captures or self.contains(tensor) or not self.mirrored.contains(tensor):
            return super().capture(tensor)
        found = self._values.get(tensor)
        if found is None:
            found = self._values[tensor] = self._forward_value(tensor)
        return found

    def _forward_value(self, tensor: Tensor) -> Tensor:
        op = tensor.op
        mirrored = self.mirrored
        if op.type == "Const":
            return self.capture(_constant(tensor))
        if op.op_def.flow is Flow.ENTER and op.attrs["is_constant"]:
            return self.capture(op.inputs[0])
        if mirrored._counter is not None and tensor is mirrored._counter.body:
            return self.position
        flow = _final_flow(tensor, mirrored)
        if flow is not None:
            return self.capture(flow)
        handle, flow = accumulate(self.mirrored, tensor)
        with in_context(self.graph, self):
            value = apply_one(
                "TensorArrayReadV3", handle, self.position, flow, dtype=tensor.dtype.base_dtype, name="kept"
            )
        value.set_shape(tensor.shape)
        value._handle_data = tensor._handle_data
        return value


def _constant(tensor: Tensor) -> Tensor:
    """The same constant outside of all contexts."""
    with in_context(tensor.graph, None):
        constant = apply_one("Const", value=tensor.op.attrs["value"], dtype=tensor.dtype)
    return constant


def _final_flow(tensor: Tensor, loop: WhileContext) -> Tensor | None:
    """For the flow of a TensorArray that a loop variable carries: its value after the loop.

    Flows only order operations, and backward code runs after the whole forward loop: no need to keep one flow per
    iteration.
    """
    while tensor.op._control_flow_context is loop:
        op = tensor.op
        if op.type in _FLOW_WRITERS:
            tensor = op.inputs[-1]
        elif op.op_def.flow is Flow.ENTER and op.attrs["is_constant"]:
            return op.inputs[0] if _is_flow(tensor) else None
        else:
            for variable in loop.variables:
                if variable.body is tensor:
                    return variable.exit if _is_flow(variable.initial) else None
            if op.type != "Identity":
                return None
            tensor = op.inputs[0]
    return None


def _is_flow(tensor: Tensor) -> bool:
    """Whether a tensor is the flow of a TensorArray."""
    while True:
        op = tensor.op
        if op.type in ("TensorArrayV3", "TensorArrayGradV3"):
            return tensor.value_index == 1
        if op.type in _FLOW_WRITERS:
            return True
        if not op.op_def.flow.passes_input:
            return False
        tensor = op.inputs[0]
