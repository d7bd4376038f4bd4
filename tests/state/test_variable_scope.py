"""variable_scope and get_variable: names, sharing, defaults, getters, partitions, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def get(name, shape=(2,), **kwargs):
    return tf.get_variable(name, list(shape), initializer=tf.zeros_initializer(), **kwargs)


def op_name():
    return tf.constant(1.0, name="o").op.name


def test_names_nest_with_scopes():
    with tf.variable_scope("a"), tf.variable_scope("b") as scope:
        assert get("v").name == "a/b/v:0"
        assert op_name() == "a/b/o"
    assert (scope.name, scope.original_name_scope) == ("a/b", "a/b/")


def test_name_scopes_do_not_change_variable_names():
    with tf.name_scope("n"), tf.variable_scope("a") as scope:
        v = get("v")
        assert (v.name, v.initializer.name, op_name(), scope.original_name_scope) == (
            "a/v:0",
            "a/v/Assign",
            "n/a/o",
            "n/a/",
        )
    with tf.variable_scope("b"), tf.name_scope("n"):
        assert (get("v").name, op_name(), tf.Variable(1.0, name="w").name) == ("b/v:0", "b/n/o", "b/n/w:0")


def test_opening_a_scope_again_gives_a_new_name_scope():
    with tf.variable_scope("a"):
        get("v")
    with tf.variable_scope("a"):
        assert op_name() == "a_1/o"
        with tf.variable_scope("s"):
            assert (get("w").name, op_name()) == ("a/s/w:0", "a_1/s/o")


def test_a_scope_object_is_absolute():
    with tf.variable_scope("a") as a:
        pass
    with tf.variable_scope("b"), tf.variable_scope(a) as again:
        assert (get("v").name, op_name(), again.name) == ("a/v:0", "b/a/o", "a")
        assert again.original_name_scope == "a/"


def test_reuse():
    with tf.variable_scope("a") as scope:
        v = get("v")
        scope.reuse_variables()
        assert get("v") is v
    with tf.variable_scope("a", reuse=True):
        assert get("v") is v
        with tf.variable_scope("b", reuse=False) as inner:
            assert inner.reuse is True
    with tf.variable_scope("c", reuse=tf.AUTO_REUSE):
        assert get("v") is get("v")


def test_refusals_of_sharing():
    with tf.variable_scope("a"):
        get("v")
        with pytest.raises(
            ValueError, match=r"(?s)a/v already exists.*AUTO_REUSE.*Originally defined at.*test_variable_scope"
        ):
            get("v")
    with tf.variable_scope("a", reuse=True):
        with pytest.raises(ValueError, match="a/w does not exist"):
            get("w")
        with pytest.raises(ValueError, match=r"specified shape \(3,\) and found shape \(2,\)"):
            get("v", (3,))
        with pytest.raises(ValueError, match="specified dtype float64 and found dtype float32"):
            get("v", dtype=tf.float64)


def test_refusals_of_arguments():
    with pytest.raises(ValueError, match="fully defined"):
        tf.get_variable("v")
    with pytest.raises(ValueError, match="fully defined"):
        get("v", (None, 2))
    with pytest.raises(ValueError, match="do not specify shape"):
        tf.get_variable("v", [2], initializer=[1.0, 2.0])
    with pytest.raises(ValueError, match="don't match"):
        tf.get_variable("v", initializer=[1.0, 2.0], dtype=tf.int32)
    with pytest.raises(TypeError, match="name_or_scope"):
        tf.variable_scope(None)
    with pytest.raises(TypeError, match="string or VariableScope"), tf.variable_scope(3):
        pass
    with pytest.raises(ValueError, match="reuse"), tf.variable_scope(None, "d", reuse=True):
        pass
    with pytest.raises(ValueError, match="constraint"):
        get("v", constraint=3)


def test_default_names_are_unique():
    names = []
    for _ in range(2):
        with tf.variable_scope(None, "d"):
            names.append(get("v").name)
            with tf.variable_scope(None, "e"):
                names.append(get("v").name)
    assert names == ["d/v:0", "d/e/v:0", "d_1/v:0", "d_1/e/v:0"]


def test_defaults_are_inherited():
    with tf.variable_scope("a", initializer=tf.constant_initializer(3.0), dtype=tf.float64):
        with tf.variable_scope("b"):
            v = tf.get_variable("v", [2])
        scope = tf.get_variable_scope()
        scope.set_dtype(tf.float16)
        assert tf.get_variable("u", [1]).dtype == tf.float16
    assert v.dtype == tf.float64
    with tf.Session() as sess:
        sess.run(v.initializer)
        assert sess.run(v).tolist() == [3.0, 3.0]


def test_default_initializers():
    f, i, b = tf.get_variable("f", [200, 100]), tf.get_variable("i", [2], tf.int32), tf.get_variable("b", [2], tf.bool)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        values = sess.run(f)
        limit = np.sqrt(6.0 / 300)
        assert 0.9 * limit < values.max() <= limit
        assert sess.run(i).tolist() == [0, 0]
        assert sess.run(b).tolist() == [False, False]
    with pytest.raises(ValueError, match="required"):
        tf.get_variable("c", [2], tf.complex64)


def test_initializers_may_be_values_functions_and_classes():
    a = tf.get_variable("a", initializer=[1, 2])
    b = tf.get_variable("b", initializer=lambda: tf.zeros([3]))
    c = tf.get_variable("c", [2], initializer=tf.zeros_initializer)
    d = tf.get_variable("d", initializer=tf.constant([1.0], tf.float64))
    assert [v.dtype.name for v in (a, b, c, d)] == ["int32", "float32", "float32", "float64"]
    assert b.shape.as_list() == [3]


def test_collections():
    get("x"), get("y", trainable=False), get("z", collections=["mine"])
    local = tf.get_local_variable("l", [2], initializer=tf.zeros_initializer())
    assert [v.name for v in tf.global_variables()] == ["x:0", "y:0"]
    assert [v.name for v in tf.trainable_variables()] == ["x:0", "z:0"]
    assert tf.local_variables() == [local]
    with tf.variable_scope("s") as scope:
        get("x")
        assert [v.name for v in scope.global_variables()] == ["s/x:0"]
        assert [v.name for v in scope.trainable_variables()] == ["s/x:0"]


def test_custom_getters_nest_innermost_first():
    log = []

    def outer(getter, name, *args, **kwargs):
        log.append(("outer", name))
        return getter(name, *args, **kwargs)

    def inner(getter, name, *args, **kwargs):
        log.append(("inner", name, kwargs["dtype"].name, kwargs["reuse"]))
        return getter(name + "_x", *args, **kwargs)

    with tf.variable_scope("a", custom_getter=outer), tf.variable_scope("b", custom_getter=inner):
        assert get("v").name == "a/b/v_x:0"
    assert log == [("inner", "a/b/v", "float32", False), ("outer", "a/b/v_x")]


def test_regularizers_add_losses_once():
    with tf.variable_scope("a", regularizer=tf.reduce_sum):
        get("v")
        get("w", regularizer=tf.no_regularizer)
    with tf.variable_scope("a", regularizer=tf.reduce_sum, reuse=True):
        get("v")
    assert [t.op.name for t in tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)] == ["a/v/Regularizer/Sum"]


def test_partitioned_variables():
    with tf.variable_scope("a", partitioner=tf.fixed_size_partitioner(3), reuse=tf.AUTO_REUSE):
        v = tf.get_variable("v", initializer=np.arange(10.0, dtype=np.float32).reshape(5, 2))
        assert tf.get_variable("v", [5, 2]) is v
        assert isinstance(tf.get_variable("scalar", []), tf.Variable)
    assert [p.name for p in v] == ["a/v/part_0:0", "a/v/part_1:0", "a/v/part_2:0"]
    assert [p._get_save_slice_info().spec for p in v] == ["5 2 0,2:0,2", "5 2 2,2:0,2", "5 2 4,1:0,2"]
    assert (v.name, v.shape.as_list(), len(v)) == ("a/v", [5, 2], 3)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        whole = np.arange(10.0).reshape(5, 2)
        np.testing.assert_array_equal(sess.run(v.as_tensor()), whole)
        np.testing.assert_array_equal(sess.run(tf.square(v)), whole**2)
        sess.run([p.op for p in v.assign_add(tf.ones([5, 2]))])
        np.testing.assert_array_equal(sess.run(v.as_tensor()), whole + 1)


def test_partitioned_and_whole_variables_do_not_mix():
    with tf.variable_scope("a", reuse=tf.AUTO_REUSE):
        get("v", (4, 2), partitioner=tf.fixed_size_partitioner(2))
        with pytest.raises(ValueError, match="No partitioner"):
            get("v", (4, 2))
        get("w", (4, 2))
        with pytest.raises(ValueError, match="unpartitioned version"):
            get("w", (4, 2), partitioner=tf.fixed_size_partitioner(2))
        with pytest.raises(ValueError, match="partitions"):
            get("v", (4, 2), partitioner=tf.fixed_size_partitioner(4))
    with pytest.raises(ValueError, match="callable"):
        get("x", partitioner=3)


def test_partitioners():
    f32 = {"dtype": tf.float32}
    axis = tf.variable_axis_size_partitioner(64)
    assert axis(shape=tf.TensorShape([16, 4]), **f32) == [4, 1]
    assert axis(shape=tf.TensorShape([128]), **f32) == [8]
    least = tf.min_max_variable_partitioner(max_partitions=4, min_slice_size=64)
    assert least(shape=tf.TensorShape([16, 4]), **f32) == [4, 1]
    assert least(shape=tf.TensorShape([2, 4]), **f32) == [1, 1]
    assert tf.fixed_size_partitioner(2, axis=1)(shape=tf.TensorShape([4, 4]), **f32) == [1, 2]
    parts = tf.create_partitioned_variables([4, 2], [2, 1], tf.zeros_initializer(), name="p")
    assert [p.name for p in parts] == ["p/part_0:0", "p/part_1:0"]


def test_without_auxiliary_name_scope():
    with tf.variable_scope("a", auxiliary_name_scope=False) as scope:
        assert (op_name(), get("v").name, scope.original_name_scope) == ("o", "a/v:0", "")


def test_scope_as_decorator_and_old_spelling():
    @tf.variable_scope("d", reuse=tf.AUTO_REUSE)
    def model():
        return get("v")

    assert model() is model()
    with tf.variable_op_scope([], "a", "default"):
        assert get("v").name == "a/v:0"


def test_templates_share_their_variables():
    def double(x, factor):
        return x * factor * get("w", ())

    one = tf.make_template("t", double, factor=2.0)
    one(1.0), one(2.0)
    assert [v.name for v in one.variables] == ["t/w:0"]
    two = tf.make_template("t", double, factor=2.0)
    two(1.0)
    assert [v.name for v in two.trainable_variables] == ["t_1/w:0"]
    early = tf.make_template("e", double, create_scope_now_=True, factor=1.0)
    assert early.variable_scope_name == "e"
    names = iter("ab")
    greedy = tf.make_template("g", lambda: get(next(names)))
    greedy()
    with pytest.raises(ValueError, match="g/b does not exist"):
        greedy()
