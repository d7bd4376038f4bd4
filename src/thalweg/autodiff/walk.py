"""The backward walk: from gradients of some tensors to gradients of the tensors that they depend on.

Each node between the two (see `nodes`) is visited once, when the gradients of all its outputs have come in; the work is
linear in the number of operations, and nothing recurses except into branches and loop bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from thalweg.autodiff import nodes
from thalweg.autodiff.aggregate import aggregate
from thalweg.autodiff.nodes import Level, Node
from thalweg.autodiff.zeros import zeros_for
from thalweg.control_flow.cond_context import CondContext, Conditional
from thalweg.control_flow.while_context import WhileContext
from thalweg.graph import dtypes
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.default_graph import colocate_with, get_default_graph, name_scope
from thalweg.graph.definitions.op_registry import ZERO_GRADIENT, gradient_function
from thalweg.graph.marks import GATES
from thalweg.graph.op_effects import Flow
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.constants import tuple as gated

Pairs = list[tuple[Tensor, Any]]


class Options(NamedTuple):
    """The options of gradients(), for all levels of the walk."""

    colocate: bool = False
    method: int | None = None
    gate: bool = False


# The gradient of a whole conditional or loop: takes the node, the gradients of its outputs, which inputs need one.
ConstructRule = Callable[[Any, dict[Tensor, Any], Callable[[Tensor], bool], Options], Pairs]
_construct_rules: dict[type, ConstructRule] = {}


def construct_gradient(kind: type) -> Callable[[ConstructRule], ConstructRule]:
    """Registers the gradient of conditionals or loops: those walk through their bodies, so they are above this file."""

    def register(rule: ConstructRule) -> ConstructRule:
        _construct_rules[kind] = rule
        return rule

    return register


class Walk:
    """One walk at one level."""

    def __init__(self, level: Level, options: Options, stops: frozenset[Tensor] = frozenset()) -> None:
        """Prepares a walk that does not go beyond `stops`."""
        self._level = level
        self._options = options
        self._stops = stops
        self._collected: dict[Tensor, list[Any]] = {}
        self._pending: dict[Node, int] = {}
        self._inputs: dict[Node, list[Tensor]] = {}

    def run(self, ys: Sequence[Tensor], seeds: Sequence[Any], xs: Sequence[Tensor]) -> dict[Tensor, Any]:
        """Returns the gradients of `xs`, given those of `ys`; tensors that no gradient reaches are left out."""
        self._find_between(ys, xs)
        for y, seed in zip(ys, seeds, strict=True):
            if seed is not None:
                self._collected.setdefault(y, []).append(seed)
        wanted = set(xs)
        results: dict[Tensor, Any] = {}
        ready = [node for node, count in self._pending.items() if count == 0]
        made = get_default_graph()._operations
        while ready:
            node = ready.pop()
            first = len(made)
            grads: dict[Tensor, Any] = {}
            for output in nodes.outputs(node):
                total = self._total(output)
                if total is None:
                    continue
                if output in wanted:
                    results[output] = zeros_for(output) if total is ZERO_GRADIENT else total
                if output not in self._stops:
                    grads[output] = total
            if grads:
                for tensor, grad in self._input_grads(node, grads):
                    if grad is not None and self._level.node(tensor.op) in self._pending:
                        self._collected.setdefault(tensor, []).append(grad)
            _set_original(made[first:], node)
            for tensor in self._inputs[node]:
                source = self._level.node(tensor.op)
                if source in self._pending:
                    self._pending[source] -= 1
                    if self._pending[source] == 0:
                        ready.append(source)
        return results

    def _total(self, output: Tensor) -> Any:
        """The sum of the gradients that have reached a tensor: None if there are none."""
        found = self._collected.pop(output, ())
        present = [grad for grad in found if grad is not ZERO_GRADIENT]
        total = aggregate(present, self._options.method, self._options.colocate)
        return ZERO_GRADIENT if total is None and found else total

    def _find_between(self, ys: Sequence[Tensor], xs: Sequence[Tensor]) -> None:
        """Finds the nodes on paths from xs to ys, and how many of their outputs' uses are on such paths too."""
        node = self._level.node
        reached = self._level.reached_from(xs)
        ends = {node(x.op) for x in xs}
        pending, node_inputs = self._pending, self._inputs
        stack = list(dict.fromkeys(n for n in (node(y.op) for y in ys) if n in reached or n in ends))
        for start in stack:
            pending[start] = 0
        while stack:
            current = stack.pop()
            # The inputs of an x matter only if another x precedes it.
            found = nodes.inputs(current) if current in reached else []
            node_inputs[current] = found
            for tensor in found:
                source = node(tensor.op)
                if source in pending:
                    pending[source] += 1
                elif source in reached or source in ends:
                    pending[source] = 1
                    stack.append(source)

    def _needed(self, tensor: Tensor) -> bool:
        return nodes.backpropagates(tensor) and self._level.node(tensor.op) in self._pending

    def _input_grads(self, node: Node, grads: dict[Tensor, Any]) -> Pairs:
        """The gradients of a node's inputs."""
        if not self._inputs[node]:
            return []
        if all(grad is ZERO_GRADIENT for grad in grads.values()):
            return self._zero_grads(node)
        grads = {output: grad for output, grad in grads.items() if grad is not ZERO_GRADIENT}
        if isinstance(node, Operation):
            return self._operation_grads(node, grads)
        rule = _construct_rules[Conditional if isinstance(node, Conditional) else WhileContext]
        with name_scope(f"{nodes.name_of(node)}_grad"):
            return rule(node, grads, self._needed, self._options)

    def _zero_grads(self, node: Node) -> Pairs:
        if isinstance(node, Operation) and _gradient_function(node) is None:
            return []
        return [(tensor, ZERO_GRADIENT) for tensor in self._inputs[node] if self._needed(tensor)]

    def _operation_grads(self, op: Operation, grads: dict[Tensor, Any]) -> Pairs:
        passed = self._through_boundary(op, grads)
        if passed is not None:
            return passed
        function = _gradient_function(op)
        if function is None:
            return []
        with name_scope(f"{op.name}_grad"):
            if self._options.colocate:
                with colocate_with(op):
                    found = self._call(op, function, grads)
            else:
                found = self._call(op, function, grads)
            if self._options.gate:
                # Only gradients that lead to an x: that of a network's images would be dead code.
                found = [g if self._needed(t) else None for t, g in zip(op.inputs, found, strict=True)]
                tensors = [None if grad is ZERO_GRADIENT else grad for grad in found]
                if sum(grad is not None for grad in tensors) > 1:
                    with op.graph._attr_scope({GATES: True}):
                        tensors = gated(tensors)
                found = [g if t is None else t for t, g in zip(tensors, found, strict=True)]
        for i, (tensor, grad) in enumerate(zip(op.inputs, found, strict=True)):
            if type(grad) is Tensor and tensor.dtype.base_dtype is not dtypes.resource:
                _check_shape(op, i, tensor, grad)
        return list(zip(op.inputs, found, strict=True))

    def _through_boundary(self, op: Operation, grads: dict[Tensor, Any]) -> Pairs | None:
        """The gradient of a node through which a visible context sees a tensor from outside; None for other nodes."""
        context = op._control_flow_context
        flow = op.op_def.flow
        if context is None or flow not in (Flow.ENTER, Flow.SWITCH, Flow.MERGE):
            return None
        if isinstance(context, WhileContext):
            if flow is Flow.ENTER:
                return [(op.inputs[0], grads.get(op.outputs[0]))]
            if flow is Flow.MERGE and any(v.merge is op.outputs[0] for v in context.variables):
                initial = op.inputs[0].op.inputs[0].op.name
                raise ValueError(
                    f"Cannot compute gradient inside while loop with respect to op '{initial}'. "
                    "A gradient that is taken inside of a loop cannot go through the initial value of a loop variable."
                )
        if isinstance(context, CondContext) and flow is Flow.SWITCH:
            inside = op.outputs[context.branch]
            if context.captures.get(op.inputs[0]) is inside:
                return [(op.inputs[0], grads.get(inside))]
        return None

    @staticmethod
    def _call(op: Operation, function: Callable[..., Any], grads: dict[Tensor, Any]) -> list[Any]:
        given = []
        for output in op.outputs:
            grad = grads.get(output)
            if grad is None and (output.dtype.is_floating or output.dtype.is_complex):
                grad = zeros_for(output)
            given.append(grad)
        found = function(op, *given)
        result = list(found) if isinstance(found, (list, tuple)) else [found]
        if len(result) != len(op.inputs):
            raise ValueError(
                f"Num gradients {len(result)} generated for op '{op.name}' ({op.type}) do not match num inputs "
                f"{len(op.inputs)}."
            )
        return result


def gradient_of_operation(op: Operation, grads: dict[Tensor, Any]) -> list[Any]:
    """The gradients of the inputs of one operation, for a walk over operations that are in no graph.

    Args:
        op: The operation.
        grads: The gradients of its outputs, as far as there are any.
    """
    function = _gradient_function(op)
    return [None] * len(op.inputs) if function is None else Walk._call(op, function, grads)


def _set_original(made: Sequence[Operation], node: Node) -> None:
    """Notes the node whose gradient new operations are part of: profiles count them for its line of the program."""
    if not made:
        return
    original = node if isinstance(node, Operation) else nodes.outputs(node)[0].op
    for op in made:
        if op._original_op is None:  # Else it is part of the gradient of a node within this conditional or loop.
            op._original_op = original


def _gradient_function(op: Operation) -> Callable[..., Any] | None:
    override = op.attrs.get("_gradient_op_type")
    if override is None and op.type in op.graph._functions:
        override = b"PartitionedCall"
    return gradient_function(override.decode() if override else op.type)


def _check_shape(op: Operation, index: int, tensor: Tensor, grad: Tensor) -> None:
    try:
        grad.set_shape(tensor.shape)
    except ValueError:
        raise ValueError(
            f"Incompatible shapes between op input and calculated input gradient. Forward operation: {op.name}. Input "
            f"index: {index}. Original input shape: {tensor.shape}. Calculated input gradient shape: {grad.shape}"
        ) from None


def walk(
    context: Any, ys: Sequence[Tensor], seeds: Sequence[Any], xs: Sequence[Tensor], options: Options,
    stops: frozenset[Tensor] = frozenset(),
) -> dict[Tensor, Any]:  # fmt: skip
    """Runs one walk at the level of a context."""
    return Walk(Level(context), options, stops).run(ys, seeds, xs)


__all__ = ["IndexedSlices", "Options", "Pairs", "gradient_of_operation", "walk"]
