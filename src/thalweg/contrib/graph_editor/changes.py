"""graph_editor.subgraph, transform and reroute: views of parts of a graph, their copies, and readers' other inputs."""

from __future__ import annotations

from typing import Any, Final

from thalweg.contrib.graph_editor.selection import get_backward_walk_ops, make_list_of_op, make_list_of_t
from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export, export_value

_SPACE: Final = "contrib.graph_editor"


@export(f"{_SPACE}.SubGraphView", f"{_SPACE}.subgraph.SubGraphView")
class SubGraphView:
    """Some operations of a graph, with the tensors that they read from outside and those that are read outside.

    Args:
        inside_ops: The operations.
    """

    def __init__(self, inside_ops: Any = ()) -> None:
        """Finds the tensors at the border."""
        self._ops = list(dict.fromkeys(make_list_of_op(inside_ops)))
        inside = set(self._ops)
        self._inputs = list(dict.fromkeys(t for op in self._ops for t in op.inputs if t.op not in inside))
        self._outputs = [
            tensor
            for op in self._ops
            for tensor in op.outputs
            if not tensor.consumers() or any(reader not in inside for reader in tensor.consumers())
        ]

    @property
    def ops(self) -> list[Any]:
        """The operations."""
        return self._ops

    @property
    def inputs(self) -> list[Any]:
        """The tensors from outside."""
        return self._inputs

    @property
    def outputs(self) -> list[Any]:
        """The tensors that are read outside, or nowhere."""
        return self._outputs

    @property
    def graph(self) -> Any:
        """The graph; None of an empty view."""
        return self._ops[0].graph if self._ops else None

    def __len__(self) -> int:
        """The number of operations."""
        return len(self._ops)


@export(f"{_SPACE}.make_view", f"{_SPACE}.subgraph.make_view", f"{_SPACE}.sgv")
def make_view(*args: Any, **kwargs: Any) -> SubGraphView:
    """A view of operations, given one by one, in lists, or by expressions for names (with `graph=`)."""
    return SubGraphView(tf.contrib.graph_editor.select_ops(*args, **kwargs))


@export(f"{_SPACE}.make_view_from_scope", f"{_SPACE}.subgraph.make_view_from_scope", f"{_SPACE}.sgv_scope")
def make_view_from_scope(scope: str, graph: Any) -> SubGraphView:
    """A view of the operations of a name scope."""
    return SubGraphView(tf.contrib.graph_editor.get_name_scope_ops(graph, scope))


class TransformerInfo:
    """Which operation and tensor became which in a copy."""

    def __init__(self, ops: dict[Any, Any], tensors: dict[Any, Any]) -> None:
        """Takes the copies by their originals."""
        self._transformed_ops, self._transformed_ts = ops, tensors

    def transformed(self, original: Any, missing_fn: Any = None) -> Any:
        """The copy of an operation, a tensor, a view, or each of a list."""
        if isinstance(original, (list, tuple)):
            return type(original)(self.transformed(each, missing_fn) for each in original)
        if isinstance(original, SubGraphView):
            return SubGraphView([self.transformed(op, missing_fn) for op in original.ops])
        found = (self._transformed_ops if isinstance(original, tf.Operation) else self._transformed_ts).get(original)
        return missing_fn(original) if found is None and missing_fn is not None else found


def _in_order(ops: list[Any]) -> list[Any]:
    """Operations after those that they read from. A graph's own order is one, as long as no input was replaced."""
    inside, done, ordered = set(ops), set[Any](), list[Any]()
    for first in ops:
        stack = [first]
        while stack:
            op = stack[-1]
            missing = [t.op for t in op.inputs if t.op in inside and t.op not in done and t.op not in stack]
            if missing:
                stack.append(missing[0])
                continue
            stack.pop()
            if op not in done:
                done.add(op)
                ordered.append(op)
    return ordered


def _copy_name(op: Any, src_scope: str, dst_scope: str) -> str:
    name = op.name
    if src_scope:
        if not name.startswith(src_scope + "/"):
            raise ValueError(f"{name} is not in the scope {src_scope}.")
        name = name[len(src_scope) + 1 :]
    return f"{dst_scope}/{name}" if dst_scope else name


@export(f"{_SPACE}.copy_with_input_replacements", f"{_SPACE}.transform.copy_with_input_replacements")
def copy_with_input_replacements(
    sgv: Any, replacement_ts: Any, dst_graph: Any = None, dst_scope: str = "", src_scope: str = "",
    reuse_dst_scope: bool = False,
) -> tuple[SubGraphView, TransformerInfo]:  # fmt: skip
    """Copies operations; the copies read other tensors in place of some.

    Args:
        sgv: A view, or operations.
        replacement_ts: From tensors to what the copies read instead.
        dst_graph: The graph for the copies; that of the operations if None.
        dst_scope: A scope for the copies.
        src_scope: A scope to take off the names.
        reuse_dst_scope: Whether the scope is meant exactly, not to be made unique.

    Returns:
        A view of the copies, and which is a copy of what.

    Raises:
        NotImplementedError: If an operation is in a loop or a branch.
    """
    view = sgv if isinstance(sgv, SubGraphView) else SubGraphView(sgv)
    replaced = dict(replacement_ts)
    source = view.graph
    graph = source if dst_graph is None else dst_graph
    scope = dst_scope.rstrip("/")
    if scope and not reuse_dst_scope:
        scope = graph.unique_name(scope)
    ops: dict[Any, Any] = {}
    tensors: dict[Any, Any] = {}
    with graph.as_default():
        for op in _in_order(view.ops):
            if op._get_control_flow_context() is not None:
                raise NotImplementedError(f"{op.name} is in a loop or a branch: such operations cannot be copied.")
            inputs = [replaced.get(t, tensors.get(t, t)) for t in op.inputs]
            if graph is not source and any(t.graph is not graph for t in inputs):
                inputs = [tf.contrib.graph_editor.make_placeholder_from_tensor(t) if t.graph is not graph else t
                          for t in inputs]  # fmt: skip
            attrs = {name: value for name, value in op.node_def.attr.items() if name != "_class"}
            with tf.device(op.device), tf.control_dependencies(None):
                made = graph.create_op(op.type, inputs, name=_copy_name(op, src_scope.rstrip("/"), scope), attrs=attrs)
            ops[op] = made
            tensors.update(zip(op.outputs, made.outputs, strict=True))
        for op, made in ops.items():
            waits = [ops.get(other, other) for other in op.control_inputs if other in ops or graph is source]
            if waits:
                made._add_control_inputs(waits)
    return SubGraphView(list(ops.values())), TransformerInfo(ops, tensors)


@export(f"{_SPACE}.copy", f"{_SPACE}.transform.copy")
def copy(
    sgv: Any, dst_graph: Any = None, dst_scope: str = "", src_scope: str = "", reuse_dst_scope: bool = False
) -> tuple[SubGraphView, TransformerInfo]:
    """Copies operations; the copies read the same tensors (or, in another graph, placeholders)."""
    return copy_with_input_replacements(sgv, {}, dst_graph, dst_scope, src_scope, reuse_dst_scope)


@export(f"{_SPACE}.graph_replace", f"{_SPACE}.transform.graph_replace")
def graph_replace(
    target_ts: Any, replacement_ts: Any, dst_scope: str = "", src_scope: str = "", reuse_dst_scope: bool = False
) -> Any:
    """Tensors computed anew, from other tensors in place of some.

    Args:
        target_ts: A tensor, or a structure of tensors.
        replacement_ts: From tensors to those that stand for them.
        dst_scope: A scope for the copies.
        src_scope: A scope to take off the names.
        reuse_dst_scope: Whether the scope is meant exactly.

    Raises:
        ValueError: If no target depends on a tensor that is replaced.
    """
    flat = tf.nest.flatten(target_ts)
    replaced = dict(replacement_ts)
    forward = {
        op
        for tensor in replaced
        for op in tf.contrib.graph_editor.get_forward_walk_ops(tensor, inclusive=True)
    }  # fmt: skip
    ops = [op for op in get_backward_walk_ops(flat, stop_at_ts=list(replaced)) if op in forward]
    if not ops:
        raise ValueError("Targets and replacements are not connected!")
    _, info = copy_with_input_replacements(ops, replaced, None, dst_scope, src_scope, reuse_dst_scope)
    results = [info.transformed(t, lambda original: replaced.get(original, original)) for t in flat]
    return tf.nest.pack_sequence_as(target_ts, results)


@export(f"{_SPACE}.reroute_ts", f"{_SPACE}.reroute.reroute_ts")
def reroute_ts(ts0: Any, ts1: Any, can_modify: Any = None, cannot_modify: Any = None) -> int:
    """Makes the readers of the tensors `ts1` read those of `ts0`.

    Args:
        ts0: The tensors to read from now on.
        ts1: Those that are read.
        can_modify: Only these operations are changed.
        cannot_modify: These are not.

    Returns:
        The number of inputs that were changed.
    """
    allowed = None if can_modify is None else set(make_list_of_op(can_modify))
    fixed = set() if cannot_modify is None else set(make_list_of_op(cannot_modify))
    changed = 0
    for new, old in zip(make_list_of_t(ts0), make_list_of_t(ts1), strict=True):
        if new is old:
            continue
        for reader in old.consumers():
            if reader in fixed or (allowed is not None and reader not in allowed):
                continue
            for index, tensor in enumerate(reader.inputs):
                if tensor is old:
                    reader._update_input(index, new)
                    changed += 1
    return changed


@export(f"{_SPACE}.add_control_inputs", f"{_SPACE}.reroute.add_control_inputs")
def add_control_inputs(op: Any, cops: Any) -> None:
    """Makes an operation wait for others.

    Raises:
        ValueError: If it waits for one of them already.
    """
    waits = make_list_of_op(cops)
    for other in waits:
        if other in op.control_inputs:
            raise ValueError(f"{other.name} is already a control_input of {op.name}")
    op._add_control_inputs(waits)


@export(f"{_SPACE}.remove_control_inputs", f"{_SPACE}.reroute.remove_control_inputs")
def remove_control_inputs(op: Any, cops: Any) -> None:
    """Makes an operation wait for others no longer.

    Raises:
        ValueError: If it does not wait for one of them.
    """
    gone = make_list_of_op(cops)
    for other in gone:
        if other not in op.control_inputs:
            raise ValueError(f"{other.name} is not a control_input of {op.name}")
    kept = [other for other in op.control_inputs if other not in gone]
    op._remove_all_control_inputs()
    op._add_control_inputs(kept)


@export(f"{_SPACE}.make_placeholder_from_tensor", f"{_SPACE}.util.make_placeholder_from_tensor")
def make_placeholder_from_tensor(t: Any, scope: str | None = None, prefix: str = "geph") -> Any:
    """A placeholder of a tensor's type and shape."""
    name = f"{prefix}__{t.op.name.rpartition('/')[2]}_{t.value_index}"
    return tf.placeholder(t.dtype, t.shape, name=f"{scope.rstrip('/')}/{name}" if scope else name)


def make_placeholder_from_dtype_and_shape(
    dtype: Any, shape: Any = None, scope: str | None = None, prefix: str = "geph"
) -> Any:
    """A placeholder of a type and shape."""
    return tf.placeholder(dtype, shape, name=f"{scope.rstrip('/')}/{prefix}" if scope else prefix)


export_value(
    make_placeholder_from_dtype_and_shape,
    f"{_SPACE}.make_placeholder_from_dtype_and_shape",
    f"{_SPACE}.util.make_placeholder_from_dtype_and_shape",
    f"{_SPACE}.ph",
)
