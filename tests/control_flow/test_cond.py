"""tf.cond, tf.case and tf.switch_case: values, structures, names and errors."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tf


def both(pred: object, fetch: object) -> list[object]:
    with tf.Session() as s:
        return [s.run(fetch, {pred: value}) for value in (True, False)]


def test_only_the_branch_taken_runs() -> None:
    pred, counter = tf.placeholder(tf.bool, []), tf.Variable(0)
    result = tf.cond(pred, lambda: counter.assign_add(1), lambda: tf.identity(counter))
    with tf.Session() as s:
        s.run(counter.initializer)
        assert [int(s.run(result, {pred: p})) for p in (True, False, True)] == [1, 1, 2]


def test_nodes_have_tensorflows_names() -> None:
    x, pred = tf.placeholder(tf.float32, [], name="x"), tf.placeholder(tf.bool, [], name="p")
    tf.cond(pred, lambda: [x * 2.0, tf.no_op()], lambda: [tf.constant(3.0), tf.constant(True)])
    names = {op.name: [t.name for t in op.inputs] for op in tf.get_default_graph().get_operations()}
    assert names["cond/Switch"] == ["p:0", "p:0"]
    assert names["cond/mul/Switch"] == ["x:0", "cond/pred_id:0"]
    assert names["cond/mul"] == ["cond/mul/Switch:1", "cond/mul/y:0"]
    assert names["cond/Merge"] == ["cond/Const:0", "cond/mul:0"]
    assert names["cond/Merge_1"] == ["cond/Const_1:0", "cond/control_dependency:0"]
    constant = tf.get_default_graph().get_operation_by_name("cond/Const")
    assert [op.name for op in constant.control_inputs] == ["cond/switch_f"]


def test_nested_structures_come_back_in_shape() -> None:
    pred = tf.placeholder(tf.bool, [])
    result = tf.cond(pred, lambda: {"a": (1, [2.0])}, lambda: {"a": (3, [4.0])})
    assert both(pred, result) == [{"a": (1, [2.0])}, {"a": (3, [4.0])}]


def test_a_single_element_leaves_its_list_unless_strict() -> None:
    pred = tf.placeholder(tf.bool, [])
    assert isinstance(tf.cond(pred, lambda: [1], lambda: [2]), tf.Tensor)
    assert isinstance(tf.cond(pred, lambda: [1], lambda: [2], strict=True), list)


def test_sparse_tensors_and_slices_are_results() -> None:
    pred = tf.placeholder(tf.bool, [])
    sparse = tf.cond(
        pred, lambda: tf.SparseTensor([[0]], [1.0], [3]), lambda: tf.SparseTensor([[1], [2]], [2.0, 3.0], [3])
    )
    assert [list(v.values) for v in both(pred, sparse)] == [[1.0], [2.0, 3.0]]
    slices = tf.cond(
        pred,
        lambda: tf.IndexedSlices(tf.constant([1.0]), tf.constant([0])),
        lambda: tf.IndexedSlices(tf.constant([2.0]), tf.constant([1])),
    )
    assert [list(v.indices) for v in both(pred, slices)] == [[0], [1]]


def test_tensor_arrays_are_results() -> None:
    pred = tf.placeholder(tf.bool, [])
    array = tf.TensorArray(tf.float32, size=1)
    result = tf.cond(pred, lambda: array.write(0, 1.0), lambda: array.write(0, 2.0)).read(0)
    assert both(pred, result) == [1.0, 2.0]


def test_conditionals_nest() -> None:
    p, q = tf.placeholder(tf.bool, []), tf.placeholder(tf.bool, [])
    x = tf.constant(1)
    result = tf.cond(p, lambda: tf.cond(q, lambda: x, lambda: x + 1), lambda: tf.cond(q, lambda: x + 2, lambda: x + 3))
    with tf.Session() as s:
        got = [int(s.run(result, {p: a, q: b})) for a in (True, False) for b in (True, False)]
    assert got == [1, 2, 3, 4]


def test_shapes_that_differ_are_unknown_where_they_differ() -> None:
    pred = tf.placeholder(tf.bool, [])
    result = tf.cond(pred, lambda: tf.zeros([2, 3]), lambda: tf.zeros([4, 3]))
    assert result.shape.as_list() == [None, 3]


def test_control_dependencies_around_a_conditional_are_kept() -> None:
    pred, v = tf.placeholder(tf.bool, []), tf.Variable(1)
    with tf.control_dependencies([v.assign(5)]):
        result = tf.cond(pred, lambda: v.read_value(), lambda: tf.constant(0))
    with tf.Session() as s:
        s.run(v.initializer)
        assert s.run(result, {pred: True}) == 5


def test_old_argument_names_work() -> None:
    pred = tf.placeholder(tf.bool, [])
    assert both(pred, tf.cond(pred, fn1=lambda: 1, fn2=lambda: 2)) == [1, 2]


def test_wrong_arguments_are_refused() -> None:
    pred = tf.placeholder(tf.bool, [])
    with pytest.raises(TypeError, match="true_fn must be callable"):
        tf.cond(pred, 1, lambda: 2)
    with pytest.raises(TypeError, match="false_fn argument required"):
        tf.cond(pred, lambda: 1)
    with pytest.raises(TypeError, match="simultaneously"):
        tf.cond(pred, lambda: 1, lambda: 1, fn1=lambda: 1)
    with pytest.raises(TypeError, match="Python bool"):
        tf.cond(True, lambda: 1, lambda: 1)
    with pytest.raises(TypeError, match="bool"):
        tf.cond(tf.constant(1), lambda: 1, lambda: 1)
    with pytest.raises(ValueError, match="must have a return value"):
        tf.cond(pred, lambda: None, lambda: 1)
    with pytest.raises(ValueError, match="same type: int32, float32"):
        tf.cond(pred, lambda: 1, lambda: 1.0)
    with pytest.raises(ValueError, match="Incompatible return values"):
        tf.cond(pred, lambda: (1, 2), lambda: (1, 2, 3))
    with pytest.raises(TypeError, match="Incompatible return types"):
        tf.cond(pred, lambda: (1, 2), lambda: [1, 2])


def test_a_branch_that_raises_leaves_no_context_behind() -> None:
    with pytest.raises(ZeroDivisionError):
        tf.cond(tf.placeholder(tf.bool, []), lambda: 1 / 0, lambda: 1)
    assert tf.get_default_graph()._get_control_flow_context() is None


def test_tensors_of_a_branch_cannot_be_fetched_or_fed() -> None:
    pred, inside = tf.placeholder(tf.bool, []), []
    result = tf.cond(pred, lambda: inside.append(tf.constant(1.0) + 1.0) or inside[0], lambda: tf.constant(0.0))
    with tf.Session() as s:
        with pytest.raises(ValueError, match="not fetchable"):
            s.run(inside[0], {pred: True})
        with pytest.raises(ValueError, match=r"may not be fed|not feedable|cannot be fed"):
            s.run(result, {pred: True, inside[0]: 1.0})


def test_case_takes_the_first_true_predicate() -> None:
    x = tf.placeholder(tf.int32, [])
    result = tf.case([(x < 0, lambda: 0), (x < 10, lambda: 1), (x < 20, lambda: 2)], default=lambda: 3)
    with tf.Session() as s:
        assert [int(s.run(result, {x: v})) for v in (-5, 5, 15, 25)] == [0, 1, 2, 3]


def test_case_refuses_wrong_arguments() -> None:
    yes = tf.constant(True)
    with pytest.raises(TypeError, match="list, tuple, or dict"):
        tf.case(3, default=lambda: 1)
    with pytest.raises(TypeError, match="2-tuple"):
        tf.case([yes], default=lambda: 1)
    with pytest.raises(TypeError, match="must be callable"):
        tf.case([(yes, 1)], default=lambda: 1)
    with pytest.raises(TypeError, match="default must be callable"):
        tf.case([(yes, lambda: 1)], default=1)
    with pytest.raises(TypeError, match="bool"):
        tf.case([(tf.constant(1), lambda: 1)], default=lambda: 1)


def test_switch_case_picks_by_number() -> None:
    i = tf.placeholder(tf.int32, [])
    plain = tf.switch_case(i, [lambda: 10, lambda: 11, lambda: 12])
    numbered = tf.switch_case(i, {3: lambda: 30, 1: lambda: 10}, default=lambda: -1)
    with tf.Session() as s:
        got = np.array([s.run([plain, numbered], {i: k}) for k in range(4)])
    assert got.tolist() == [[10, -1], [11, 10], [12, -1], [12, 30]]


def test_case_without_default_needs_a_true_predicate() -> None:
    x = tf.placeholder(tf.int32, [])
    result = tf.case([(x < 0, lambda: 0), (x < 10, lambda: 1)])
    with tf.Session() as s:
        assert [int(s.run(result, {x: v})) for v in (-5, 5)] == [0, 1]
        with pytest.raises(tf.errors.InvalidArgumentError, match="None of the conditions"):
            s.run(result, {x: 11})


def test_exclusive_case_refuses_two_true_predicates() -> None:
    x = tf.placeholder(tf.int32, [])
    result = tf.case([(x < 0, lambda: 0), (x < 10, lambda: 1)], default=lambda: 2, exclusive=True)
    with tf.Session() as s:
        assert [int(s.run(result, {x: v})) for v in (5, 15)] == [1, 2]
        with pytest.raises(tf.errors.InvalidArgumentError, match="More than one condition"):
            s.run(result, {x: -1})
