"""Copies of operations and variables of one graph in another one."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


def _placed(name: str, scope: str) -> str:
    return f"{scope}/{name}" if scope else name


@export("contrib.copy_graph.copy_variable_to_graph")
def copy_variable_to_graph(org_instance: Any, to_graph: Any, scope: str = "") -> Any:
    """A variable of another graph, with the value that the first one has in the default session, or its initial one.

    Raises:
        TypeError: If it is no variable.
    """
    if not isinstance(org_instance, tf.Variable):
        raise TypeError(f"{org_instance} is not a Variable")
    session = tf.get_default_session()
    source = org_instance if session is not None else org_instance.initial_value
    if session is None:
        with tf.Session(graph=org_instance.graph) as own:
            value = own.run(source)
    else:
        value = session.run(source)
    collections = [
        name
        for name in org_instance.graph.get_all_collection_keys()
        if org_instance in org_instance.graph.get_collection(name)
    ]
    with to_graph.as_default():
        return tf.Variable(
            value, trainable=org_instance in org_instance.graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES),
            name=_placed(org_instance.op.name, scope), collections=collections,
        )  # fmt: skip


@export("contrib.copy_graph.get_copied_op")
def get_copied_op(org_instance: Any, graph: Any, scope: str = "") -> Any:
    """The copy that an operation, tensor or variable has in a graph."""
    if isinstance(org_instance, tf.Variable):
        wanted = _placed(org_instance.name, scope)
        return next(v for v in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES) if v.name == wanted)
    return graph.as_graph_element(_placed(org_instance.name, scope), allow_tensor=True, allow_operation=True)


@export("contrib.copy_graph.copy_op_to_graph")
def copy_op_to_graph(org_instance: Any, to_graph: Any, variables: Any, scope: str = "") -> Any:
    """Copies an operation or tensor, with all that it is computed from, to another graph.

    Args:
        org_instance: The operation, tensor or variable.
        to_graph: The graph to copy to.
        variables: Variables that were copied before: their reads are those of the copies.
        scope: A prefix of the copies' names.

    Raises:
        TypeError: If it is none of these.
    """
    copied = {v.name: get_copied_op(v, to_graph, scope) for v in variables}
    if isinstance(org_instance, tf.Variable):
        known = copied.get(org_instance.name)
        return known if known is not None else copy_variable_to_graph(org_instance, to_graph, scope)
    if not isinstance(org_instance, (tf.Tensor, tf.Operation)):
        raise TypeError(f"{org_instance} is not a Tensor, an Operation or a Variable")
    root = org_instance.op if isinstance(org_instance, tf.Tensor) else org_instance
    _Copier(to_graph, copied, scope).copy(root)
    return get_copied_op(org_instance, to_graph, scope)


class _Copier:
    """Copies operations after those that they need."""

    def __init__(self, to_graph: Any, variables: dict[str, Any], scope: str) -> None:
        self._graph = to_graph
        self._variables = variables
        self._scope = scope

    def copy(self, root: Any) -> None:
        """Copies an operation and its ancestors, but for those that the graph has already."""
        waiting, seen = [root], set()
        order: list[Any] = []
        while waiting:
            op = waiting.pop()
            if op in seen or self._exists(op):
                continue
            seen.add(op)
            order.append(op)
            waiting += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
        definition = tf.GraphDef()
        known: dict[str, Any] = {}
        chosen = {op.name for op in order}
        for op in order:
            definition.node.add().CopyFrom(op.node_def)
            for tensor in op.inputs:
                if tensor.op.name not in chosen:
                    # By its operation: the name of a variable's handle means the variable's value.
                    copy = get_copied_op(tensor.op, self._graph, self._scope)
                    known[tensor.name] = copy.outputs[tensor.value_index]
            for control in op.control_inputs:
                if control.name not in chosen:
                    known["^" + control.name] = get_copied_op(control, self._graph, self._scope)
        if order:
            with self._graph.as_default():
                tf.import_graph_def(definition, input_map=known, name=self._scope)

    def _exists(self, op: Any) -> bool:
        try:
            self._graph.get_operation_by_name(_placed(op.name, self._scope))
        except KeyError:
            return False
        return True
