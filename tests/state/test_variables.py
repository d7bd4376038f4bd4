"""tf.Variable: construction, reading, updating, collections, errors."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tf
from thalweg.graph.apply import apply_one


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def run(*fetches, feed=None, init=True):
    with tf.Session() as sess:
        if init:
            sess.run(tf.global_variables_initializer())
        out = [sess.run(f, feed) for f in fetches]
    return out[0] if len(out) == 1 else out


def test_nodes_have_the_names_of_resource_variables(graph):
    v = tf.Variable(1.0, name="w")
    assert [op.name for op in graph.get_operations()] == [
        "w/Initializer/initial_value", "w", "w/IsInitialized/VarIsInitializedOp", "w/Assign", "w/Read/ReadVariableOp",
    ]  # fmt: skip
    assert v.name == "w:0"
    assert v.op.name == "w"
    assert v.initializer.name == "w/Assign"
    assert repr(v) == "<tf.Variable 'w:0' shape=() dtype=float32>"
    assert v.op.get_attr("_class") == [b"loc:@w"]
    assert v.handle.dtype == tf.resource


def test_names_are_made_unique():
    assert [tf.Variable(1.0).name, tf.Variable(1.0).name] == ["Variable:0", "Variable_1:0"]


def test_callable_initial_value_is_called_in_the_initializer_scope():
    v = tf.Variable(lambda: tf.constant([1.0, 2.0]), name="w")
    assert v.initial_value.op.name == "w/Initializer/Const"


def test_dtype_converts_the_initial_value():
    v = tf.Variable([1, 2], dtype=tf.float64)
    assert v.dtype == tf.float64
    np.testing.assert_array_equal(run(v), [1.0, 2.0])


def test_collections():
    a, b = tf.Variable(1.0), tf.Variable(1.0, trainable=False)
    c = tf.Variable(1.0, collections=[tf.GraphKeys.LOCAL_VARIABLES], trainable=False)
    assert tf.global_variables() == [a, b]
    assert tf.trainable_variables() == [a]
    assert tf.local_variables() == [c]
    assert tf.all_variables() == [a, b]


def test_reading_before_initialization_names_the_variable():
    v = tf.Variable(1.0, name="weights")
    with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value weights"):
        run(v, init=False)
    with pytest.raises(tf.errors.FailedPreconditionError, match="weights"):
        run(v.assign_add(1.0), init=False)


def test_assign_returns_the_variable_after_the_update():
    v = tf.Variable([1.0, 2.0])
    assert run(v.assign([3.0, 4.0])).tolist() == [3.0, 4.0]
    assert run(v.assign_add([1.0, 1.0])).tolist() == [2.0, 3.0]
    assert run(v.assign_sub([1.0, 1.0]) + 10.0).tolist() == [10.0, 11.0]
    op = v.assign([0.0, 0.0], read_value=False)
    assert isinstance(op, tf.Operation)
    assert isinstance(v.assign([0.0, 0.0]), tf.Variable)
    assert run(tf.assign(v, [5.0, 6.0]), v)[1].tolist() == [5.0, 6.0]
    assert run(tf.assign_add(v, [5.0, 6.0])).tolist() == [6.0, 8.0]
    assert run(tf.assign_sub(v, [5.0, 6.0])).tolist() == [-4.0, -4.0]


def test_reads_under_control_dependencies_see_the_assignment():
    v = tf.Variable(1.0)
    with tf.control_dependencies([v.assign(5.0)]):
        after = v.read_value()
        plus = v + 1.0
    assert run([after, plus]) == [5.0, 6.0]


def test_a_snapshot_does_not_change_with_the_variable():
    v = tf.Variable(np.zeros(5000, np.float32))
    before = v.read_value()
    with tf.control_dependencies([before]):
        add = v.assign_add(tf.ones([5000]) if hasattr(tf, "ones") else tf.constant(1.0, shape=[5000]))
    old, new = run([before, add])
    assert old.max() == 0.0
    assert new.min() == 1.0


def test_a_fetched_value_is_the_callers_own():
    v = tf.Variable(np.zeros(5000, np.float32))
    with tf.Session() as sess:
        sess.run(v.initializer)
        sess.run(v)[:] = 7.0
        assert sess.run(v).max() == 0.0


def test_an_assigned_array_may_change_afterwards():
    v = tf.Variable(np.zeros(5000, np.float32))
    x = tf.placeholder(tf.float32, [5000])
    array = np.ones(5000, np.float32)
    assign = v.assign(x)
    with tf.Session() as sess:
        sess.run(assign.op, {x: array})
        array[:] = 9.0
        assert sess.run(v).max() == 1.0


def test_wrong_values_are_refused():
    v = tf.Variable([1.0, 2.0], name="w")
    with pytest.raises(ValueError, match=r"w:0.*\(2,\).*\(3,\)"):
        v.assign([1.0, 2.0, 3.0])
    with pytest.raises((TypeError, ValueError)):
        v.assign(["a", "b"])
    x = tf.placeholder(tf.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[2\].*\[3\]"):
        run(v.assign(x), feed={x: [1.0, 2.0, 3.0]})
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[2\].*\[3\]"):
        run(v.assign_add(x), feed={x: [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match="initial_value"):
        tf.Variable()
    with pytest.raises(ValueError, match="shape"):
        tf.Variable(x)
    with pytest.raises(ValueError, match="collections"):
        tf.Variable(1.0, collections="x")


def test_without_validation_the_shape_may_change():
    v = tf.Variable([1.0, 2.0], validate_shape=False)
    assert v.shape.ndims is None
    assert run(tf.assign(v, [[1.0]], validate_shape=False)).tolist() == [[1.0]]
    w = tf.Variable([1.0, 2.0])
    assert run(tf.assign(w, [1.0, 2.0, 3.0], validate_shape=False).op, w)[1].tolist() == [1.0, 2.0, 3.0]


def test_load_and_eval():
    v = tf.Variable([1.0, 2.0])
    with tf.Session() as sess:
        v.load([3.0, 4.0], sess)
        assert v.eval().tolist() == [3.0, 4.0]


def test_operators():
    v = tf.Variable([1.0, 2.0])
    assert run(v + 1.0).tolist() == [2.0, 3.0]
    assert run(1.0 - v).tolist() == [0.0, -1.0]
    assert run(v * v).tolist() == [1.0, 4.0]
    assert run(-v).tolist() == [-1.0, -2.0]
    assert run(np.array([1.0, 1.0], np.float32) + v).tolist() == [2.0, 3.0]
    with pytest.raises(TypeError):
        iter(v)


def test_a_variable_of_a_graph_is_true_whatever_its_value():
    # Programs for TensorFlow 1 write `step = step or tf.train.get_global_step()`.
    v = tf.Variable(0)
    assert v
    assert (v or 3) is v
    with pytest.raises(TypeError, match="bool"):
        bool(v > 0)


def test_is_initialized():
    v = tf.Variable([1.0, 2.0])
    assert not run(tf.is_variable_initialized(v), init=False)
    assert run(tf.is_variable_initialized(v))


def test_gradients_reach_the_variable():
    v = tf.Variable([1.0, 2.0])
    (grad,) = tf.gradients(tf.square(v), v)
    assert run(grad).tolist() == [2.0, 4.0]


def test_count_up_to():
    v = tf.Variable(0)
    count = v.count_up_to(2)
    with tf.Session() as sess:
        sess.run(v.initializer)
        assert [sess.run(count), sess.run(count)] == [0, 1]
        with pytest.raises(tf.errors.OutOfRangeError, match="2"):
            sess.run(count)


def test_a_claimed_count_stops_at_the_limit_without_an_error():
    v = tf.Variable(0, dtype=tf.int64)
    claimed = apply_one("_ResourceClaimCount", v.handle, limit=2, T=tf.int64)
    with tf.Session() as sess:
        sess.run(v.initializer)
        assert [bool(sess.run(claimed)) for _ in range(4)] == [True, True, False, False]
        assert sess.run(v) == 2


def test_proto_round_trip():
    from tensorboard.compat.proto.variable_pb2 import VariableDef

    v = tf.Variable([1.0, 2.0], name="w")
    proto = v.to_proto()
    assert isinstance(proto, VariableDef)
    assert (proto.variable_name, proto.initializer_name, proto.snapshot_name, proto.is_resource) == (
        "w:0", "w/Assign", "w/Read/ReadVariableOp:0", True,
    )  # fmt: skip
    again = tf.Variable.from_proto(proto)
    assert again.handle is v.handle
    assert again.initializer is v.initializer
    assert run(again).tolist() == [1.0, 2.0]
    assert v.to_proto(export_scope="other") is None


def test_variable_creator_scope():
    seen = []

    def creator(next_creator, **kwargs):
        seen.append(kwargs["name"])
        kwargs["trainable"] = False
        return next_creator(**kwargs)

    with tf.variable_creator_scope(creator):
        v = tf.Variable(1.0, name="w")
    assert seen == ["w"]
    assert not v.trainable
    assert tf.trainable_variables() == []


def test_caching_device_reads_once():
    v = tf.Variable(1.0, caching_device="/cpu:0")
    assert v.value() is v.value()
    assert run(v + 1.0) == 2.0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "int32", "int64", "complex64"])
def test_element_types(dtype):
    v = tf.Variable(tf.constant([1, 2], dtype=dtype))
    assert run(v.assign_add(tf.constant([1, 1], dtype=dtype))).astype(complex).tolist() == [2, 3]


def test_strings():
    v = tf.Variable(["a", "bc"])
    assert run(v.assign(["x" * 100, "y"])).tolist() == [b"x" * 100, b"y"]


def test_sessions_have_their_own_values():
    v = tf.Variable(1.0)
    with tf.Session() as a, tf.Session() as b:
        a.run(v.initializer)
        b.run(v.initializer)
        a.run(v.assign(5.0))
        assert b.run(v) == 1.0


def test_containers_are_shared_between_graphs_and_sessions_until_reset():
    def build():
        with tf.Graph().as_default() as g, g.container("shared-test"):
            v = tf.Variable(1.0, name="w")
            return g, v, v.assign_add(1.0)

    g1, v1, _ = build()
    g2, _, add2 = build()
    with tf.Session(graph=g1) as s1, tf.Session(graph=g2) as s2:
        s1.run(v1.initializer)
        assert s2.run(add2) == 2.0
        assert s1.run(v1) == 2.0
        tf.Session.reset("", ["shared-test"])
        with pytest.raises(tf.errors.FailedPreconditionError):
            s1.run(v1)


def test_a_handle_of_another_kind_is_refused(graph):
    v = tf.Variable(1.0)
    x = tf.placeholder(tf.resource, [])
    read = tf.raw_ops.ReadVariableOp(resource=x, dtype=tf.int32)
    with tf.Session() as sess:
        sess.run(v.initializer)
        handle = sess.run(v.handle)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"float32.*int32"):
            sess.run(read, {x: handle})


def test_destroy():
    v = tf.Variable(1.0)
    destroy = tf.raw_ops.DestroyResourceOp(resource=v.handle)
    with tf.Session() as sess:
        sess.run(v.initializer)
        sess.run(destroy)
        assert not sess.run(tf.is_variable_initialized(v))
        sess.run(v.initializer)
        assert sess.run(v) == 1.0


def test_slices_can_be_assigned():
    v = tf.Variable(np.arange(12.0, dtype=np.float32).reshape(3, 4))
    want = np.arange(12.0).reshape(3, 4)
    part = v[1:3, ::2]
    assert run(part).tolist() == [[4.0, 6.0], [8.0, 10.0]]
    updated = run(part.assign([[1.0, 2.0], [3.0, 4.0]]))
    want[1:3, ::2] = [[1.0, 2.0], [3.0, 4.0]]
    np.testing.assert_array_equal(updated, want)
    assert run(v[0].assign([9.0, 9.0, 9.0, 9.0]))[0].tolist() == [9.0] * 4
    assert run(tf.square(v[2, 3])) == 121.0
    x = tf.placeholder(tf.float32)
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
        run(v[0].assign(x), feed={x: [1.0, 2.0, 3.0]})


def test_gradients_flow_through_slices():
    v = tf.Variable([1.0, 2.0, 3.0])
    (grad,) = tf.gradients(tf.square(v[1:]), v)
    assert run(grad).tolist() == [0.0, 4.0, 6.0]


SCATTERS = {
    "update": lambda a, b: b,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": np.minimum,
    "max": np.maximum,
}


@pytest.mark.parametrize("kind", SCATTERS)
def test_scatter(kind):
    start = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)
    v = tf.Variable(start)
    rows = np.array([[4.0, 8.0], [2.0, 2.0]], np.float32)
    want = start.copy()
    for index, row in zip([2, 0], rows, strict=True):
        want[index] = SCATTERS[kind](want[index], row)
    slices = tf.IndexedSlices(tf.constant(rows), tf.constant([2, 0]))
    np.testing.assert_array_equal(run(getattr(v, f"scatter_{kind}")(slices)), want)
    np.testing.assert_array_equal(run(getattr(tf, f"scatter_{kind}")(v, [2, 0], rows)), want)
    np.testing.assert_array_equal(
        run(getattr(tf, f"scatter_{kind}")(v, np.array([2, 0], np.int64), 2.0)),
        np.stack([SCATTERS[kind](r, np.float32(2)) * np.ones(2) if i != 1 else r for i, r in enumerate(start)]),
    )


def test_scatter_adds_up_duplicates_in_large_variables():
    rng = np.random.default_rng(0)
    start, updates = rng.normal(size=(300, 64)), rng.normal(size=(2000, 64))
    indices = rng.integers(0, 300, 2000)
    v = tf.Variable(start)
    np.add.at(start, indices, updates)
    np.testing.assert_allclose(run(tf.scatter_add(v, indices, updates)), start, 1e-10)


def test_scatter_nd():
    v = tf.Variable(np.zeros((2, 3), np.float32))
    assert run(tf.scatter_nd_update(v, [[0, 1], [1, 2]], [5.0, 6.0])).tolist() == [[0, 5, 0], [0, 0, 6]]
    assert run(tf.scatter_nd_add(v, [[1], [1]], [[1.0, 2.0, 3.0]] * 2)).tolist() == [[0, 0, 0], [2, 4, 6]]
    assert run(v.scatter_nd_sub([[1, 1]], [1.0])).tolist() == [[0, 0, 0], [0, -1, 0]]
    assert run(v.scatter_nd_max([[1, 1]], [1.0])).tolist() == [[0, 0, 0], [0, 1, 0]]
    assert run(tf.batch_scatter_update(v, [[0, 1], [2, 0]], [[1.0, 2.0], [3.0, 4.0]])).tolist() == [
        [1, 2, 0],
        [4, 0, 3],
    ]


@pytest.mark.parametrize(
    ("indices", "updates", "match"),
    [
        ([3], [1.0], r"indices\[0\] = 3 is not in \[0, 3\)"),
        ([0, -1], [1.0, 1.0], r"indices\[1\] = -1"),
        ([0, 1], [1.0, 2.0, 3.0], r"updates.shape \[3\], indices.shape \[2\]"),
        ([0], [[1.0]], r"updates.shape \[1,1\]"),
    ],
)
def test_bad_scatters_are_refused_and_change_nothing(indices, updates, match):
    v = tf.Variable([1.0, 2.0, 3.0])
    i, u = tf.placeholder(tf.int32), tf.placeholder(tf.float32)
    add = tf.scatter_add(v, i, u).op
    with tf.Session() as sess:
        sess.run(v.initializer)
        with pytest.raises(tf.errors.InvalidArgumentError, match=match):
            sess.run(add, {i: indices, u: updates})
        assert sess.run(v).tolist() == [1.0, 2.0, 3.0]
    n = tf.Variable([1, 2])
    with pytest.raises(tf.errors.InvalidArgumentError, match="division by zero"):
        run(tf.scatter_div(n, [0], [0]))


def test_gather_and_its_sparse_gradient():
    v = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    rows = v.sparse_read([2, 0, 2])
    assert run(rows).tolist() == [[5, 6], [1, 2], [5, 6]]
    (grad,) = tf.gradients(rows, v)
    assert isinstance(grad, tf.IndexedSlices)
    assert run(tf.convert_to_tensor(grad)).tolist() == [[1, 1], [0, 0], [2, 2]]
    assert run(v.gather_nd([[0, 1], [2, 0]])).tolist() == [2.0, 5.0]
    (grad,) = tf.gradients(v.gather_nd([[0, 1], [2, 0]]), v)
    assert run(grad).tolist() == [[0, 1], [0, 0], [1, 0]]
    i = tf.placeholder(tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="not in"):
        run(v.sparse_read(i), feed={i: [7]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="not in"):
        run(v.gather_nd(i), feed={i: [[0, 2]]})


def test_gradient_descent_and_shape():
    v = tf.Variable([1.0, 2.0])
    step = tf.raw_ops.ResourceApplyGradientDescent(var=v.handle, alpha=0.5, delta=[2.0, 4.0])
    shape = tf.raw_ops.VariableShape(input=v.handle)
    with tf.Session() as sess:
        sess.run(v.initializer)
        sess.run(step)
        assert sess.run(v).tolist() == [0.0, 0.0]
        assert sess.run(shape).tolist() == [2]


def test_initial_values_may_depend_on_other_variables():
    a = tf.Variable(tf.random_uniform([3]))
    b = tf.Variable(a * 2.0)
    c = tf.Variable(b.initialized_value() + 1.0)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        x, y, z = sess.run([a, b, c])
    assert x.shape == y.shape == z.shape


def test_reports_of_uninitialized_variables():
    a, b = tf.Variable(1.0, name="a"), tf.Variable(2.0, name="b")
    missing = tf.report_uninitialized_variables()
    check = tf.assert_variables_initialized()
    with tf.Session() as sess:
        assert sess.run(missing).tolist() == [b"a", b"b"]
        sess.run(a.initializer)
        assert sess.run(missing).tolist() == [b"b"]
        with pytest.raises(tf.errors.FailedPreconditionError, match="b"):
            sess.run(check)
        sess.run(b.initializer)
        sess.run(check)


def test_variables_in_a_branch_and_a_loop():
    v = tf.Variable(1.0)
    x = tf.placeholder(tf.bool, [])
    branch = tf.cond(x, lambda: v.assign_add(10.0).read_value(), lambda: v.read_value())
    n = tf.Variable(0)

    def body(i):
        with tf.control_dependencies([n.assign_add(i)]):
            return i + 1

    loop = tf.while_loop(lambda i: i < 5, body, [0])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(branch, {x: False}) == 1.0
        assert sess.run(branch, {x: True}) == 11.0
        sess.run(loop)
        assert sess.run(n) == 10


def test_a_variable_can_be_fetched_by_name():
    tf.Variable([1.0, 2.0], name="w")
    assert run("w:0").tolist() == [1.0, 2.0]


def test_updates_of_an_updated_variable_come_after_the_update():
    v = tf.Variable([1.0, 2.0])
    chained = v.assign([5.0, 6.0]).assign_add([1.0, 1.0])
    chained = chained.scatter_sub(tf.IndexedSlices(tf.constant([2.0]), tf.constant([0])))
    assert run(chained).tolist() == [4.0, 7.0]
    assert run(tf.assign_add(tf.assign(v, [5.0, 6.0]), [1.0, 1.0])).tolist() == [6.0, 7.0]
    assert run(v.assign([5.0, 6.0]).sparse_read([1])).tolist() == [6.0]
