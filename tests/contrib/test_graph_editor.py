"""tf.contrib.graph_editor: walks, copies with other inputs, and rerouted readers."""

from __future__ import annotations

from typing import Any

import pytest

import thalweg as tf

ge = tf.contrib.graph_editor


@pytest.fixture(name="graph")
def _graph() -> Any:
    with tf.Graph().as_default() as graph:
        a = tf.constant(2.0, name="a")
        with tf.name_scope("part"):
            b = tf.square(a, name="b")
            c = tf.add(b, a, name="c")
        tf.negative(c, name="d")
        with graph.control_dependencies([b]):
            tf.no_op(name="after")
        yield graph


def names(ops: Any) -> list[str]:
    return sorted(op.name for op in ops)


def test_walks_follow_data_and_control_edges(graph: Any) -> None:
    op = graph.get_operation_by_name
    assert names(ge.get_forward_walk_ops(op("part/b"))) == ["d", "part/b", "part/c"]
    assert names(ge.get_forward_walk_ops(op("part/b"), inclusive=False)) == ["d", "part/c"]
    assert names(ge.get_forward_walk_ops(op("part/b").outputs[0])) == ["d", "part/c"]
    edges = ge.util.ControlOutputs(graph)
    assert "after" in names(ge.get_forward_walk_ops(op("part/b"), control_outputs=edges))
    assert names(ge.get_backward_walk_ops(op("part/c"))) == ["a", "part/b", "part/c"]
    assert names(ge.get_backward_walk_ops(op("part/c"), stop_at_ts=[op("a").outputs[0]])) == ["part/b", "part/c"]
    assert names(ge.get_backward_walk_ops(op("after"), control_inputs=True)) == ["a", "after", "part/b"]
    within = [op("part/c"), op("d")]
    assert names(ge.get_forward_walk_ops([op("a"), op("part/c")], within_ops=within)) == ["d", "part/c"]
    assert names(ge.get_walks_intersection_ops(op("part/b"), op("part/c"))) == ["part/b", "part/c"]


def test_operations_and_tensors_are_selected(graph: Any) -> None:
    assert names(ge.select_ops("^part/", graph=graph)) == ["part/b", "part/c"]
    assert [t.name for t in ge.filter_ts_from_regex(graph, "/c")] == ["part/c:0"]
    assert [t.name for t in ge.select_ts("d:0", graph.get_operations(), graph=graph)] == ["d:0"]
    assert names(ge.get_name_scope_ops(graph, "part")) == ["part/b", "part/c"]
    assert len(ge.filter_ts(graph.get_operations(), lambda t: t.op.type == "Const")) == 1
    assert names(ge.get_consuming_ops(graph.get_tensor_by_name("a:0"))) == ["part/b", "part/c"]
    view = ge.sgv_scope("part", graph)
    assert [t.name for t in view.inputs] == ["a:0"] and [t.name for t in view.outputs] == ["part/c:0"]
    with pytest.raises(ValueError, match="'graph'"):
        ge.select_ops("part")
    with pytest.raises(TypeError, match=r"Expected a tf\.Operation"):
        ge.make_list_of_op([graph.get_tensor_by_name("a:0")])


def test_a_copy_reads_other_tensors(graph: Any) -> None:
    op = graph.get_operation_by_name
    view = ge.sgv(op("part/b"), op("part/c"), op("after"))
    copied, info = ge.copy_with_input_replacements(view, {op("a").outputs[0]: tf.constant(5.0)}, dst_scope="copy")
    assert names(copied.ops) == ["copy/after", "copy/part/b", "copy/part/c"]
    assert info.transformed(op("part/c")).name == "copy/part/c"
    assert op("part/c")._outputs == op("part/c").outputs and op("part/c")._inputs == op("part/c").inputs
    assert names(op("copy/after").control_inputs) == ["copy/part/b"]
    with tf.Session() as sess:
        assert sess.run([op("part/c").outputs[0], info.transformed(op("part/c").outputs[0])]) == [6.0, 30.0]


def test_tensors_are_computed_anew_from_others(graph: Any) -> None:
    d, a = graph.get_tensor_by_name("d:0"), graph.get_tensor_by_name("a:0")
    other = ge.graph_replace({"d": d}, {a: tf.constant(1.0)}, dst_scope="new")
    again = ge.graph_replace(d, {graph.get_tensor_by_name("part/b:0"): tf.constant(10.0)})
    with tf.Session() as sess:
        assert sess.run([d, other["d"], again]) == [-6.0, -2.0, -12.0]
    with pytest.raises(ValueError, match="not connected"):
        ge.graph_replace(a, {d: a})


def test_a_copy_in_another_graph_reads_placeholders(graph: Any) -> None:
    other = tf.Graph()
    ge.copy(ge.sgv_scope("part", graph), other)
    with tf.Session(graph=other) as sess:
        feeds = [op.outputs[0] for op in other.get_operations() if op.type == "Placeholder"]
        assert sess.run("part/c:0", dict.fromkeys(feeds, 3.0)) == 12.0


def test_readers_are_rerouted_between_steps(graph: Any) -> None:
    op, d = graph.get_operation_by_name, graph.get_tensor_by_name("d:0")
    with tf.Session() as sess:
        assert sess.run(d) == -6.0
        old = graph.get_tensor_by_name("a:0")
        assert ge.reroute_ts([tf.constant(4.0)], [old], cannot_modify=[op("part/b")]) == 1
        assert sess.run(d) == -8.0
        assert ge.reroute_ts([tf.constant(1.0)], [old], can_modify=[op("d")]) == 0
        ge.add_control_inputs(op("d"), op("after"))
        with pytest.raises(ValueError, match="already"):
            ge.add_control_inputs(op("d"), op("after"))
        ge.reroute.remove_control_inputs(op("d"), [op("after")])
        assert op("d").control_inputs == [] and sess.run(d) == -8.0
        with pytest.raises(ValueError, match="not a control_input"):
            ge.remove_control_inputs(op("d"), op("after"))


def test_operations_of_loops_are_not_copied() -> None:
    with tf.Graph().as_default() as graph:
        tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)])
        with pytest.raises(NotImplementedError, match="in a loop"):
            ge.copy(graph)
