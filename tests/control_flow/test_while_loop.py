"""tf.while_loop: values, structures, names, control dependencies, shapes and errors."""

from __future__ import annotations

import collections
from typing import Any

import pytest

import thalweg as tf


def run(fetch: Any, feeds: Any = None) -> Any:
    with tf.Session() as s:
        s.run(tf.global_variables_initializer())
        return s.run(fetch, feeds)


def test_nodes_have_tensorflows_names() -> None:
    x = tf.placeholder(tf.float32, [], name="x")
    tf.while_loop(lambda i, y: tf.less(i, 10), lambda i, y: [i + 1, y * x], [tf.constant(0), x])
    graph = tf.get_default_graph()
    names = {op.name: [t.name for t in op.inputs] for op in graph.get_operations()}
    assert names["while/Merge_1"] == ["while/Enter_1:0", "while/NextIteration_1:0"]
    assert names["while/Switch"] == ["while/Merge:0", "while/LoopCond:0"]
    assert names["while/mul"] == ["while/Identity_1:0", "while/mul/Enter:0"]
    assert names["while/Exit_1"] == ["while/Switch_1:0"]
    enter = graph.get_operation_by_name("while/mul/Enter")
    assert enter.get_attr("frame_name") == b"while/while_context"
    assert enter.get_attr("is_constant")
    assert [op.name for op in graph.get_operation_by_name("while/add/y").control_inputs] == ["while/Identity"]
    assert [op.name for op in graph.get_operation_by_name("while/Less/y").control_inputs] == ["while/Merge"]


def test_structures_come_back_in_shape() -> None:
    pair = collections.namedtuple("pair", "a b")
    result = tf.while_loop(
        lambda i, p: i < 3, lambda i, p: (i + 1, pair(p.a + 1, {"c": p.b["c"] * 2})), (0, pair(1, {"c": 1}))
    )
    assert run(result) == (3, pair(4, {"c": 8}))


def test_a_single_variable_leaves_its_list_unless_told() -> None:
    i = tf.constant(0)
    assert isinstance(tf.while_loop(lambda i: i < 3, lambda i: i + 1, [i]), tf.Tensor)
    assert isinstance(tf.while_loop(lambda i: i < 3, lambda i: i + 1, [i], return_same_structure=True), list)


def test_sparse_tensors_and_tensor_arrays_are_variables() -> None:
    sparse = tf.SparseTensor([[0]], [1.0], [4])
    array = tf.TensorArray(tf.float32, size=3)
    _, st, ta = tf.while_loop(
        lambda i, *_: i < 3,
        lambda i, st, ta: (
            i + 1,
            tf.SparseTensor(st.indices, st.values * 2.0, st.dense_shape),
            ta.write(i, st.values[0]),
        ),
        (0, sparse, array),
    )
    got, stacked = run([st, ta.stack()])
    assert got.values.tolist() == [8.0]
    assert stacked.tolist() == [1.0, 2.0, 4.0]


def test_maximum_iterations_end_the_loop() -> None:
    n = tf.placeholder(tf.int32, [])
    i = tf.while_loop(lambda i: i < 100, lambda i: i + 1, [0], maximum_iterations=n)
    assert run(i, {n: 7}) == 7
    assert run(i, {n: 0}) == 0
    assert run(i, {n: 1000}) == 100


def test_ops_without_inputs_run_once_per_iteration() -> None:
    v = tf.Variable(0)

    def body(i: Any) -> Any:
        with tf.control_dependencies([v.assign_add(1)]):
            return i + 1

    i = tf.while_loop(lambda i: i < 5, body, [0], parallel_iterations=1)
    with tf.Session() as s:
        s.run(v.initializer)
        assert s.run(i) == 5
        assert s.run(v) == 5


def test_control_dependencies_outside_come_before_the_loop() -> None:
    v = tf.Variable(1)
    with tf.control_dependencies([v.assign(10)]):
        _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y + v.read_value()), (0, 0))
    assert run(y) == 30


def test_an_op_outside_can_be_a_control_dependency_inside() -> None:
    v = tf.Variable(1)
    outside = v.assign(10, read_value=False)

    def body(i: Any, y: Any) -> Any:
        with tf.control_dependencies([outside]):
            return i + 1, y + v.read_value()

    assert run(tf.while_loop(lambda i, y: i < 3, body, (0, 0))[1]) == 30


def test_loops_nest_and_see_tensors_of_all_levels() -> None:
    x = tf.placeholder(tf.int32, [])

    def body(i: Any, total: Any) -> Any:
        inner = tf.while_loop(lambda j, t: j < i, lambda j, t: (j + 1, t + i * x), (0, 0))[1]
        return i + 1, total + inner

    total = tf.while_loop(lambda i, t: i < 4, body, (0, 0))[1]
    assert run(total, {x: 3}) == sum(i * i * 3 for i in range(4))


def test_loops_and_conditionals_nest_in_each_other() -> None:
    p = tf.placeholder(tf.bool, [])

    def loop() -> Any:
        return tf.while_loop(
            lambda i, t: i < 6, lambda i, t: (i + 1, tf.cond(tf.equal(i % 2, 0), lambda: t + i, lambda: t * 2)), (0, 1)
        )[1]

    result = tf.cond(p, loop, lambda: tf.constant(-1))
    expected = 1
    for i in range(6):
        expected = expected + i if i % 2 == 0 else expected * 2
    assert run(result, {p: True}) == expected
    assert run(result, {p: False}) == -1


def test_a_captured_tensor_enters_once() -> None:
    x = tf.placeholder(tf.float32, [])
    tf.while_loop(lambda y: y < x, lambda y: (y + x) * x, [tf.constant(0.0)])
    enters = [op for op in tf.get_default_graph().get_operations() if op.type == "Enter" and op.inputs[0] is x]
    assert len(enters) == 1


def test_shape_invariants_let_a_variable_grow() -> None:
    _, x = tf.while_loop(
        lambda i, x: i < 3,
        lambda i, x: (i + 1, tf.concat([x, x], 0)),
        (tf.constant(0), tf.ones([1, 2])),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 2])),
    )
    assert x.shape.as_list() == [None, 2]
    assert run(x).shape == (8, 2)


def test_a_variable_that_changes_its_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"enters the loop with shape \(1, 2\), but has shape \(2, 2\)"):
        tf.while_loop(lambda x: True, lambda x: tf.concat([x, x], 0), [tf.ones([1, 2])])
    with pytest.raises(ValueError, match="not compatible with the initial shape"):
        tf.while_loop(lambda x: True, lambda x: x, [tf.ones([1, 2])], shape_invariants=[tf.TensorShape([3, 2])])


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="cond must be callable"):
        tf.while_loop(1, lambda i: i, [0])
    with pytest.raises(TypeError, match="body must be callable"):
        tf.while_loop(lambda i: True, 1, [0])
    with pytest.raises(ValueError, match="No loop variables"):
        tf.while_loop(lambda: True, lambda: None, [])
    with pytest.raises(TypeError, match="must return a bool"):
        tf.while_loop(lambda i: i, lambda i: i, [0])
    with pytest.raises(TypeError, match="positive integer"):
        tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0], parallel_iterations=0)
    with pytest.raises((ValueError, TypeError), match="loop_vars"):
        tf.while_loop(lambda i, j: i < 3, lambda i, j: i + 1, [0, 1])
    with pytest.raises(TypeError, match="float32"):
        tf.while_loop(lambda i: i < 3, lambda i: tf.cast(i, tf.float32), [0])


def test_values_leave_a_loop_as_results_only() -> None:
    inside: list[Any] = []

    def body(i: Any) -> Any:
        inside.append(i + 1)
        return inside[0]

    result = tf.while_loop(lambda i: i < 3, body, [0])
    with pytest.raises(ValueError, match="is in a while loop"):
        tf.identity(inside[0])
    with tf.Session() as s:
        with pytest.raises(ValueError, match="not fetchable"):
            s.run(inside[0])
        with pytest.raises(ValueError, match=r"may not be fed|not feedable|cannot be fed"):
            s.run(result, {inside[0]: 1})


def test_contexts_can_be_written_as_protobufs() -> None:
    x = tf.placeholder(tf.float32, [], name="x")
    tf.while_loop(
        lambda y: y < 3.0, lambda y: tf.cond(y < 1.0, lambda: y * x, lambda: y + x), [tf.constant(0.0)], back_prop=False
    )
    (context,) = tf.get_collection(tf.GraphKeys.WHILE_CONTEXT)
    proto = context.to_proto()
    assert proto.context_name == "while/while_context"
    assert proto.pivot_name == "while/LoopCond:0"
    assert list(proto.loop_exit_names) == ["while/Exit:0"]
    assert proto.values_def.external_values["x:0"].endswith("Enter:0")
    assert not proto.back_prop
    assert sorted(nested.cond_ctxt.branch for nested in proto.nested_contexts) == [0, 1]
