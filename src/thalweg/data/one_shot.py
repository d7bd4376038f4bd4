"""The function that a one-shot iterator makes its dataset with: the nodes that the dataset depends on, by value."""

from __future__ import annotations

from typing import Any, Final

from thalweg.functions.graph_function import trace, unique_function_name
from thalweg.graph import dtypes
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.definitions.op_signature import NameAttrList
from thalweg.graph.graph import Graph
from thalweg.graph.op_effects import Effect
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor

_HINT: Final = (
    "A likely cause of this error is that the dataset for which you are calling `make_one_shot_iterator()` captures a "
    "stateful object, such as a `tf.Variable` or `tf.lookup.StaticHashTable`, which is not supported. Use "
    "`make_initializable_iterator()` instead."
)


def dataset_factory(dataset: Any) -> NameAttrList:
    """A graph function without arguments that returns the dataset.

    Raises:
        ValueError: If the dataset depends on a placeholder or on state.
    """
    graph = get_default_graph()
    function = trace(
        lambda: _copied_tensor(dataset._variant_tensor, get_default_graph()),
        name=unique_function_name(graph, "_make_dataset"),
    )
    return function.as_attr()


def _copied_tensor(tensor: Tensor, body: Graph) -> Tensor:
    """A tensor of the outer graph, computed inside the body."""
    made: dict[Operation, Operation] = {}
    stack = [tensor.op]
    while stack:
        op = stack[-1]
        if op in made:
            stack.pop()
            continue
        missing = [source for source in _sources(op) if source not in made]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        made[op] = _copy(op, made, body)
    return made[tensor.op].outputs[tensor.value_index]


def _sources(op: Operation) -> list[Operation]:
    return [*(tensor.op for tensor in op.inputs), *op.control_inputs]


def _copy(op: Operation, made: dict[Operation, Operation], body: Graph) -> Operation:
    if op.type in ("Placeholder", "PlaceholderV2"):
        raise ValueError(f"Cannot capture a placeholder (name:{op.name}, type:{op.type}) by value.")
    is_dataset = any(output.dtype is dtypes.variant for output in op.outputs)
    # External effects (files, prints, Python code) keep no state in the session: the copy does what the node does.
    if op.op_def.stateful and not is_dataset and op.op_def.effect is not Effect.EXTERNAL:
        raise ValueError(f"Cannot capture a stateful node (name:{op.name}, type:{op.type}) by value. {_HINT}")
    with body.control_dependencies([made[source] for source in op.control_inputs]):
        return body.add_operation(
            op.op_def, [made[t.op].outputs[t.value_index] for t in op.inputs], dict(op.attrs),
            body.unique_name(op.name.rpartition("/")[2]), [output.dtype for output in op.outputs],
            shapes=[output.shape for output in op.outputs],
        )  # fmt: skip
