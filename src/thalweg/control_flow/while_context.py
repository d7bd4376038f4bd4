"""WhileContext: the condition and body of one loop, its variables, and the tensors that it uses from outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from thalweg.control_flow.context_proto import while_to_proto
from thalweg.control_flow.scoping import hide, in_context, local_control_inputs
from thalweg.graph import dtypes
from thalweg.graph.apply import apply, apply_one
from thalweg.graph.collections import GraphKeys
from thalweg.graph.control_flow_context import ControlFlowContext
from thalweg.graph.op_effects import Flow
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape


class LoopVariable:
    """The nodes of one loop variable.

    Attributes:
        enter: Its value before the loop, inside the frame; `enter.op.inputs[0]` is the one outside.
        merge: Its value at the start of each iteration, which the condition reads.
        body: Its value in an iteration that is run, which the body reads.
        next: Its value for the next iteration, inside the body.
        exit: Its value after the loop.
    """

    __slots__ = ("body", "enter", "exit", "merge", "next")

    def __init__(self, enter: Tensor, merge: Tensor) -> None:
        """A variable that has entered the frame."""
        self.enter = enter
        self.merge = merge
        self.body: Tensor
        self.next: Tensor
        self.exit: Tensor

    @property
    def initial(self) -> Tensor:
        """The value before the loop."""
        return self.enter.op.inputs[0]


class WhileContext(ControlFlowContext):
    """The ops of one loop. A tensor from outside comes in through a constant Enter, once.

    Attributes:
        name: The frame's name, unique in the graph.
        variables: The loop variables. More can be added when the loop is finished (autodiff does).
        captures: From tensors outside to the constant Enters by which the loop sees them.
        pivot: The LoopCond.
        pivot_for_pred: The tensor that ops of the condition without inputs wait for.
        pivot_for_body: The same for the body; None as long as the condition is under construction.
    """

    def __init__(
        self,
        graph: Any,
        name: str,
        parallel_iterations: int = 10,
        back_prop: bool = True,
        swap_memory: bool = False,
        maximum_iterations: Any = None,
    ) -> None:
        """Creates a loop without variables in the current context."""
        super().__init__(graph)
        self.name = name
        self.frame_name = name  # Differs in imported graphs.
        self.parallel_iterations = parallel_iterations
        self.back_prop = back_prop
        self.swap_memory = swap_memory
        self.maximum_iterations = maximum_iterations
        self.variables: list[LoopVariable] = []
        self.captures: dict[Tensor, Tensor] = {}
        self.pivot: Tensor | None = None
        self.pivot_for_pred: Tensor | None = None
        self.pivot_for_body: Tensor | None = None
        self._gates: dict[Operation, Operation] = {}
        self._counter: LoopVariable | None = None

    def is_while_context(self) -> bool:
        """True."""
        return True

    def back_prop_enabled(self) -> bool:
        """Whether the loop was built with back_prop."""
        return self.back_prop

    # Called by the graph.

    def capture(self, tensor: Tensor) -> Tensor:
        """Brings a tensor from outside in through a constant Enter."""
        found = self.captures.get(tensor)
        if found is not None:
            return found
        if self.contains(tensor):
            return tensor
        value = tensor if self.outer_context is None else self.outer_context.capture(tensor)
        found = self.captures.get(value)
        if found is None:
            found = self.captures[value] = self._enter(value, constant=True)
        return found

    def _enter(self, value: Tensor, constant: bool) -> Tensor:
        with in_context(self.graph, self.outer_context):
            return self._enter_here(value, constant)

    def _enter_here(self, value: Tensor, constant: bool) -> Tensor:
        enter = apply_one(
            "RefEnter" if value.dtype._is_ref_dtype else "Enter",
            value,
            frame_name=self.frame_name,
            is_constant=constant,
            parallel_iterations=self.parallel_iterations,
            name="Enter",
        )
        enter.op._control_flow_context = self
        hide(enter.op)
        return enter

    def control_inputs(self, control_inputs: list[Operation], inputs: Sequence[Tensor]) -> list[Operation]:
        """Ties ops that only read constants to the pivot: once per iteration, but not in the unfinished last one."""
        result = local_control_inputs(self, control_inputs)
        if not result and all(self._is_invariant(tensor) for tensor in inputs):
            pivot = self.pivot_for_body if self.pivot_for_body is not None else self.pivot_for_pred
            assert pivot is not None
            result.append(pivot.op)
        return result

    def _is_invariant(self, tensor: Tensor) -> bool:
        op = tensor.op
        return op._control_flow_context is self and op.op_def.flow is Flow.ENTER and bool(op.attrs["is_constant"])

    def op_added(self, op: Operation) -> None:
        """Hides the op from feeds and fetches."""
        if op.op_def.flow is not Flow.EXIT:
            hide(op)

    def gate(self, op: Operation) -> Operation:
        """An op inside the loop that waits for `op`, which is outside: control edges cannot cross by themselves."""
        found = self._gates.get(op)
        if found is None:
            if op.outputs and op.op_def.flow not in (Flow.SWITCH, Flow.MERGE):
                value = op.outputs[0]
            else:
                with in_context(self.graph, self.outer_context, [op]):
                    value = apply_one("Const", value=_true(), dtype=dtypes.bool)
            with in_context(self.graph, self):
                found = apply_one("Identity", value).op
            self._gates[op] = found
        return found

    # Building.

    def add_initial(self, values: Sequence[Tensor], invariants: Sequence[TensorShape | None]) -> None:
        """Makes the Enters and Merges of the loop's variables; they wait for the control dependencies around."""
        self._enter_variables(values, invariants)
        self.pivot_for_pred = self.variables[0].merge

    def _enter_variables(self, values: Sequence[Tensor], invariants: Sequence[TensorShape | None]) -> None:
        enters = [self._enter_here(value, constant=False) for value in values]
        for enter, shape in zip(enters, invariants, strict=True):
            if shape is not None:
                enter._shape = shape
        for enter in enters:
            with in_context(self.graph, self):
                merge = apply("RefMerge" if enter.dtype._is_ref_dtype else "Merge", [enter, enter], name="Merge")[0]
            self.variables.append(LoopVariable(enter, merge))

    def set_condition(self, condition: Tensor) -> None:
        """Ends the condition, and gives every variable its value for the body."""
        with in_context(self.graph, self):
            self.pivot = apply_one("LoopCond", condition, name="LoopCond")
            switches = [self._switch(variable) for variable in self.variables]
            for variable, switch in zip(self.variables, switches, strict=True):
                variable.body = apply_one("Identity", switch[1])
        self.pivot_for_body = self.variables[0].body

    def _switch(self, variable: LoopVariable) -> Any:
        kind = "RefSwitch" if variable.merge.dtype._is_ref_dtype else "Switch"
        return apply(kind, variable.merge, self.pivot, name="Switch")

    def close(self, values: Sequence[Tensor]) -> list[Tensor]:
        """Ends the body: leads the new values back to the Merges, and the last ones out; returns the Exits."""
        with in_context(self.graph, self):
            nexts = [apply_one("NextIteration", value, name="NextIteration") for value in values]
        for variable, value, back in zip(self.variables, values, nexts, strict=True):
            variable.next = value if self.contains(value) else self.capture(value)
            variable.merge.op._update_input(1, back)
        exits = [self._exit(variable) for variable in self.variables]
        if self.outer_context is None:
            self.graph.add_to_collection(GraphKeys.WHILE_CONTEXT, self)
        return exits

    def _exit(self, variable: LoopVariable) -> Tensor:
        switch = variable.body.op.inputs[0].op
        with in_context(self.graph, self):
            leaving = apply_one("Exit", switch.outputs[0], name="Exit")
        leaving.op._control_flow_context = self.outer_context
        leaving.op._python_data = self
        if self.outer_context is not None:
            self.outer_context.op_added(leaving.op)
        variable.exit = leaving
        return leaving

    def add_variable(
        self, initial: Tensor, update: Callable[[Tensor], Tensor], shape: TensorShape | None = None
    ) -> LoopVariable:
        """Adds a variable to a finished loop: only adds nodes, and changes no existing one.

        Args:
            initial: Its value before the loop, outside.
            update: From its value in the body to the next one; runs in the body.
            shape: Its static shape; that of `initial` if None.

        Returns:
            The variable, with its Exit.
        """
        with in_context(self.graph, self.outer_context):
            initial = initial if self.outer_context is None else self.outer_context.capture(initial)
            self._enter_variables([initial], [shape])
        variable = self.variables[-1]
        with in_context(self.graph, self):
            variable.body = apply_one("Identity", self._switch(variable)[1])
            variable.next = self.capture(update(variable.body))
            back = apply_one("NextIteration", variable.next, name="NextIteration")
        variable.merge.op._update_input(1, back)
        self._exit(variable)
        return variable

    def counter(self) -> LoopVariable:
        """A variable that counts the iterations; its exit is the trip count."""
        if self._counter is None:
            with in_context(self.graph, self.outer_context):
                zero = apply_one("Const", value=_int32(0), dtype=dtypes.int32, name="f_count")
            self._counter = self.add_variable(zero, lambda i: apply_one("AddV2", i, _int32(1)))
        return self._counter

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The WhileContextDef of this loop."""
        return while_to_proto(self, export_scope)


def loop_of(op: Operation) -> WhileContext | None:
    """The loop that an op is an Exit of, if it is one."""
    return op._python_data if op.op_def.flow is Flow.EXIT and isinstance(op._python_data, WhileContext) else None


def _int32(value: int) -> Any:
    import numpy as np

    return np.array(value, np.int32)


def _true() -> Any:
    import numpy as np

    return np.array(True)
