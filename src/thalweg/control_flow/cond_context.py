"""CondContext: one branch of a conditional; Conditional: the two branches and the Merges that join them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thalweg.control_flow.context_proto import cond_to_proto
from thalweg.control_flow.scoping import hide, in_context, local_control_inputs
from thalweg.graph import dtypes
from thalweg.graph.apply import apply, apply_one
from thalweg.graph.collections import GraphKeys
from thalweg.graph.control_flow_context import ControlFlowContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor


class CondContext(ControlFlowContext):
    """The ops of one branch. A tensor from outside comes in through a Switch, so that it is dead if not taken.

    Attributes:
        pred: The condition, in the context around the conditional.
        pivot: A tensor that is alive exactly if the branch is taken.
        branch: 1 for the branch that is taken if `pred` is true, 0 for the other.
        captures: From tensors outside to the Switch outputs by which the branch sees them.
        conditional: The conditional that it is a branch of.
    """

    def __init__(self, pred: Tensor, pivot: Tensor, branch: int, name: str, graph: Any = None) -> None:
        """Creates a branch in the current context."""
        super().__init__(graph or pred.graph)
        self.pred = pred
        self.pivot = pivot
        self.branch = branch
        self.name = name
        self.captures: dict[Tensor, Tensor] = {}
        self.conditional: Conditional | None = None
        pivot.op._control_flow_context = self

    def is_cond_context(self) -> bool:
        """True."""
        return True

    def back_prop_enabled(self) -> bool:
        """As the contexts around it say."""
        return self.outer_context is None or self.outer_context.back_prop_enabled()

    @property
    def sibling(self) -> CondContext:
        """The other branch."""
        assert self.conditional is not None
        return self.conditional.branches[1 - self.branch]

    def capture(self, tensor: Tensor) -> Tensor:
        """Sends a tensor from outside through a Switch."""
        found = self.captures.get(tensor)
        if found is not None:
            return found
        if self.contains(tensor):
            return tensor
        outer = self.outer_context
        value = tensor if outer is None else outer.capture(tensor)
        found = self.captures.get(value)
        if found is None:
            with in_context(self.graph, outer):
                switch = apply("RefSwitch" if value.dtype._is_ref_dtype else "Switch", value, self.pred, name="Switch")
            op = switch[0].op
            op._control_flow_context = self
            hide(op)
            found = self.captures[value] = switch[self.branch]
        return found

    def control_inputs(self, control_inputs: list[Operation], inputs: Sequence[Tensor]) -> list[Operation]:
        """Ties ops without inputs to the branch."""
        result = local_control_inputs(self, control_inputs)
        if not inputs and not any(self.contains(op) for op in result):
            result.append(self.pivot.op)
        return result

    def op_added(self, op: Operation) -> None:
        """Hides the op from feeds and fetches."""
        hide(op)

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The CondContextDef of this branch."""
        return cond_to_proto(self, export_scope)


class Conditional:
    """One cond, which autodiff treats as a single operation.

    Attributes:
        pred: The condition.
        branches: The contexts, the false one first.
        outputs: The Merge outputs.
        values: For each of them, the value of either branch.
    """

    def __init__(self, if_false: CondContext, if_true: CondContext) -> None:
        """Joins two branches."""
        self.pred = if_true.pred
        self.branches = (if_false, if_true)
        if_false.conditional = if_true.conditional = self
        self.outputs: list[Tensor] = []
        self.values: list[tuple[Tensor, Tensor]] = []
        self._exported: dict[Tensor, Tensor] = {}
        if if_true.outer_context is None:
            for context in (if_true, if_false):
                context.graph.add_to_collection(GraphKeys.COND_CONTEXT, context)

    @property
    def outer_context(self) -> ControlFlowContext | None:
        """The context that the conditional stands in."""
        return self.branches[0].outer_context

    def inputs(self) -> list[Tensor]:
        """The tensors outside that either branch uses, each once."""
        return list(dict.fromkeys((*self.branches[0].captures, *self.branches[1].captures)))

    def add_output(self, if_false: Tensor, if_true: Tensor) -> Tensor:
        """Merges a value of each branch into a result; possible at any time."""
        with in_context(self.branches[0].graph, self.outer_context):
            output: Tensor = apply("Merge", [if_false, if_true], name="Merge")[0]
        self.record(output, if_false, if_true)
        return output

    def export(self, tensor: Tensor) -> Tensor:
        """Makes a tensor of one branch a result; the other branch gives a dummy of the same type, never used."""
        found = self._exported.get(tensor)
        if found is None:
            branch = next(context for context in self.branches if context.contains(tensor))
            with in_context(branch.graph, branch.sibling):
                other = _dummy(tensor)
            values = (other, tensor) if branch.branch == 1 else (tensor, other)
            found = self._exported[tensor] = self.add_output(*values)
            found._handle_data = tensor._handle_data
        return found

    def record(self, output: Tensor, if_false: Tensor, if_true: Tensor) -> None:
        """Records that the Merge of `output` joins these two values."""
        output.op._python_data = self
        self.outputs.append(output)
        self.values.append((if_false, if_true))


def _dummy(tensor: Tensor) -> Tensor:
    dtype = tensor.dtype.base_dtype
    if dtype is dtypes.resource:
        result: Tensor = apply("TensorArrayV3", np.int32(0), dtype=dtypes.float32)[0]
        return result
    value = np.array(b"", object) if dtype is dtypes.string else np.zeros((), dtype.as_numpy_dtype)
    return apply_one("Const", value=value, dtype=dtype)


def conditional_of(op: Operation) -> Conditional | None:
    """The conditional that an op is a Merge of, if it is one."""
    return op._python_data if op.type == "Merge" and isinstance(op._python_data, Conditional) else None
