"""train.Optimizer: minimize, gradients, slots, gating, constraints, subclasses, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf

OPTIMIZERS = {
    "descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.05, 0.5),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.5),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(1.0, epsilon=0.1),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.05),
    "centered": lambda: tf.train.RMSPropOptimizer(0.05, epsilon=1e-2, centered=True),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.5),
    "proximal": lambda: tf.train.ProximalGradientDescentOptimizer(0.1),
    "proximal_adagrad": lambda: tf.train.ProximalAdagradOptimizer(0.5),
    "adagrad_da": lambda: tf.train.AdagradDAOptimizer(0.5, tf.train.get_or_create_global_step()),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_minimize_makes_a_loss_smaller(name: str, sess: Any) -> None:
    w = tf.get_variable("w", initializer=[1.0, -2.0])
    e = tf.get_variable("e", initializer=np.ones((4, 2), np.float32))
    loss = tf.reduce_sum(tf.square(w - 0.5)) + tf.reduce_sum(tf.square(tf.gather(e, [0, 2, 2])))
    step = tf.train.get_or_create_global_step()
    train = OPTIMIZERS[name]().minimize(loss, step)
    sess.run(tf.global_variables_initializer())
    before = sess.run(loss)
    for _ in range(20):
        sess.run(train)
    assert sess.run(loss) < 0.8 * before
    assert sess.run(step) == 20
    np.testing.assert_array_equal(sess.run(e)[[1, 3]] if name != "adagrad_da" else np.ones((2, 2)), np.ones((2, 2)))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_works_on_a_variable_of_unknown_shape(name: str, sess: Any) -> None:
    w = tf.Variable(tf.placeholder_with_default([1.0, 2.0], None), validate_shape=False, name="w")
    optimizer = OPTIMIZERS[name]()
    train = optimizer.apply_gradients([(tf.constant([1.0, 1.0]), w)])
    sess.run(tf.global_variables_initializer())
    sess.run(train)
    assert np.all(np.isfinite(sess.run(w)))


def test_the_train_operation_has_the_name_of_the_optimizer_and_is_collected() -> None:
    w = tf.Variable(1.0)
    train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(w * w)
    assert train.name == "Momentum"
    named = tf.train.AdamOptimizer().minimize(w * w, tf.train.create_global_step(), name="go")
    assert (named.name, named.type) == ("go", "AssignAddVariableOp")
    assert tf.get_collection(tf.GraphKeys.TRAIN_OP) == [train, named]


def test_slots_have_names_and_live_beside_their_variables() -> None:
    with tf.variable_scope("layer"):
        w = tf.get_variable("w", [2])
    optimizer = tf.train.AdamOptimizer()
    optimizer.minimize(tf.reduce_sum(w * w))
    assert optimizer.get_slot_names() == ["m", "v"]
    assert optimizer.get_slot(w, "v").name == "layer/w/Adam_1:0"
    assert optimizer.get_slot(w, "u") is None
    assert [v.name for v in optimizer.variables()] == [
        "beta1_power:0", "beta2_power:0", "layer/w/Adam:0", "layer/w/Adam_1:0",
    ]  # fmt: skip
    assert optimizer.get_slot(w, "m").op.colocation_groups() == [b"loc:@layer/w"]
    assert [v.name for v in tf.trainable_variables()] == ["layer/w:0"]
    assert optimizer.get_name() == "Adam"


def test_applying_twice_creates_slots_once() -> None:
    w = tf.get_variable("w", [2])
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
    optimizer.minimize(tf.reduce_sum(w * w))
    optimizer.minimize(tf.reduce_sum(w))
    assert [v.name for v in tf.global_variables()] == ["w:0", "w/Momentum:0"]
    tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_sum(w))
    assert tf.global_variables()[-1].name == "w/Momentum_1:0"


def test_slots_of_a_partitioned_variable_are_saved_as_its_parts() -> None:
    with tf.variable_scope("s", partitioner=tf.fixed_size_partitioner(2)):
        w = tf.get_variable("w", [4, 2])
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
    optimizer.minimize(tf.reduce_sum(tf.convert_to_tensor(w)))
    parts = list(w)
    infos = [optimizer.get_slot(part, "momentum")._get_save_slice_info() for part in parts]
    assert [i.full_name for i in infos] == ["s/w/Momentum"] * 2
    assert [i.var_offset for i in infos] == [[0, 0], [2, 0]]


@pytest.mark.parametrize("gate", [0, 1, 2])
def test_gates_do_not_change_gradients(gate: int, sess: Any) -> None:
    w, u = tf.Variable(3.0), tf.Variable(2.0)
    unused = tf.Variable(1.0)
    pairs = tf.train.GradientDescentOptimizer(1.0).compute_gradients(w * u, [w, u, unused], gate_gradients=gate)
    sess.run(tf.global_variables_initializer())
    assert pairs[2] == (None, unused)
    assert sess.run([g for g, _ in pairs[:2]]) == [2.0, 3.0]


def test_a_gradient_to_start_from_scales_the_gradients(sess: Any) -> None:
    w = tf.Variable(3.0)
    ((grad, _),) = tf.train.GradientDescentOptimizer(1.0).compute_gradients(w * w, grad_loss=tf.constant(10.0))
    sess.run(tf.global_variables_initializer())
    assert sess.run(grad) == 60.0


def test_a_loss_can_be_a_function_and_a_rate_too(sess: Any) -> None:
    w = tf.Variable(3.0)
    train = tf.train.GradientDescentOptimizer(lambda: 0.5).minimize(lambda: w * w)
    sess.run(tf.global_variables_initializer())
    sess.run(train)
    assert sess.run(w) == 0.0


def test_gradients_can_be_clipped_between(sess: Any) -> None:
    w = tf.Variable(3.0)
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    pairs = [(tf.clip_by_value(g, -1.0, 1.0), v) for g, v in optimizer.compute_gradients(w * w)]
    train = optimizer.apply_gradients(pairs)
    sess.run(tf.global_variables_initializer())
    sess.run(train)
    assert sess.run(w) == 2.0


def test_a_constraint_holds_after_every_update(sess: Any) -> None:
    w = tf.get_variable("w", initializer=[1.0, -1.0], constraint=lambda v: tf.clip_by_value(v, -0.5, 0.5))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(w))
    sess.run(tf.global_variables_initializer())
    sess.run(train)
    np.testing.assert_allclose(sess.run(w), [0.5, -0.5])
    slices = tf.IndexedSlices(tf.constant([1.0]), tf.constant([0]), tf.constant([2]))
    with pytest.raises(RuntimeError, match="constraint"):
        tf.train.GradientDescentOptimizer(0.1).apply_gradients([(slices, w)])


def test_minimizing_within_a_branch_trains_only_there(sess: Any) -> None:
    w = tf.Variable(3.0)
    go = tf.placeholder(tf.bool, [])
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9)

    def train() -> Any:
        with tf.control_dependencies([optimizer.minimize(w * w)]):
            return tf.constant(1.0)

    out = tf.cond(go, train, lambda: tf.constant(0.0))
    sess.run(tf.global_variables_initializer())
    assert sess.run(out, {go: False}) == 0.0
    assert sess.run(w) == 3.0
    assert sess.run(out, {go: True}) == 1.0
    assert sess.run(w) == pytest.approx(2.4)


class _Sign(tf.train.Optimizer):
    """Written for resource variables."""

    def __init__(self, rate: float) -> None:
        super().__init__(False, "Sign")
        self._rate = rate

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        return handle.assign_sub(self._rate * tf.sign(grad))

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        return self._resource_scatter_add(handle, indices, -self._rate * tf.sign(grad))


class _OldSign(tf.train.Optimizer):
    """Written for reference variables, with a slot that counts."""

    def __init__(self, rate: float) -> None:
        super().__init__(False, "OldSign")
        self._rate = rate

    def _create_slots(self, var_list: Any) -> None:
        for v in var_list:
            self._zeros_slot(v, "seen", self._name)

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        seen = self.get_slot(var, "seen")
        return tf.group(tf.assign_sub(var, self._rate * tf.sign(grad)), tf.assign_add(seen, tf.abs(grad)))

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return tf.scatter_sub(var, grad.indices, self._rate * tf.sign(grad.values))


@pytest.mark.parametrize("cls", [_Sign, _OldSign])
def test_a_user_writes_an_optimizer(cls: Any, sess: Any) -> None:
    w = tf.Variable([1.0, 2.0])
    e = tf.Variable(np.zeros((3, 1), np.float32))
    slices = tf.IndexedSlices(tf.constant([[3.0], [-2.0], [-4.0]]), tf.constant([0, 2, 2]), tf.constant([3, 1]))
    optimizer = cls(0.5)
    train = optimizer.apply_gradients([(tf.constant([5.0, -5.0]), w), (slices, e)])
    sess.run(tf.global_variables_initializer())
    sess.run(train)
    np.testing.assert_allclose(sess.run(w), [0.5, 2.5])
    np.testing.assert_allclose(sess.run(e), [[-0.5], [0.0], [0.5]])
    if cls is _OldSign:
        np.testing.assert_allclose(sess.run(optimizer.get_slot(w, "seen")), [5.0, 5.0])


def test_a_subclass_of_adam_written_for_references_is_called(sess: Any) -> None:
    class Decaying(tf.train.AdamOptimizer):
        def _apply_dense(self, grad: Any, var: Any) -> Any:
            with tf.control_dependencies([super()._apply_dense(grad, var)]):
                return var.assign(tf.zeros_like(var), read_value=False)

    w = tf.Variable([1.0, 2.0])
    train = Decaying(0.1).minimize(tf.reduce_sum(w))
    sess.run(tf.global_variables_initializer())
    sess.run(train)
    np.testing.assert_array_equal(sess.run(w), [0.0, 0.0])


class TestRefusals:
    def test_no_variables_no_gradients(self) -> None:
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        constant = tf.constant(1.0)
        with pytest.raises(ValueError, match="No variables to optimize"):
            optimizer.minimize(constant)
        w = tf.Variable(1.0, name="weight")
        with pytest.raises(ValueError, match=r"No gradients provided for any variable, check your graph.*weight"):
            optimizer.minimize(constant)
        with pytest.raises(ValueError, match="No gradients provided for any variable"):
            optimizer.apply_gradients([(None, w)])
        with pytest.raises(ValueError, match="No variables provided"):
            optimizer.apply_gradients([])

    def test_a_gradient_that_is_none_leaves_its_variable_alone(self, sess: Any) -> None:
        w, u = tf.Variable(1.0), tf.Variable(2.0)
        train = tf.train.GradientDescentOptimizer(0.5).apply_gradients([(tf.constant(1.0), w), (None, u)])
        sess.run(tf.global_variables_initializer())
        sess.run(train)
        assert sess.run([w, u]) == [0.5, 2.0]

    def test_arguments_of_the_wrong_kind(self) -> None:
        w = tf.Variable(1.0)
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        with pytest.raises(ValueError, match="gate_gradients must be one of"):
            optimizer.compute_gradients(w * w, gate_gradients=7)
        with pytest.raises(ValueError, match="Invalid type int32"):
            optimizer.minimize(tf.constant(1))
        with pytest.raises(NotImplementedError, match="unsupported type"):
            optimizer.compute_gradients(w * w, ["w"])
        with pytest.raises(TypeError, match="Gradient must be"):
            optimizer.apply_gradients([(object(), w)])
        with pytest.raises(ValueError, match="optimizer name"):
            tf.train.GradientDescentOptimizer(0.1, name="")
        with pytest.raises(NotImplementedError, match="update a Tensor"):
            optimizer.apply_gradients([(tf.constant(1.0), tf.constant(1.0))])
        with pytest.raises(TypeError, match="global_step must be a variable"):
            optimizer.minimize(w * w, global_step=3)

    def test_shapes_and_types_that_cannot_fit_are_refused_while_building(self) -> None:
        w = tf.Variable([1.0, 2.0])
        grad = tf.constant([1.0, 2.0])
        for rate in ([0.1, 0.2], tf.constant([0.1])):
            with pytest.raises(ValueError, match="rank 0"):
                tf.train.MomentumOptimizer(rate, 0.9).apply_gradients([(grad, w)])
        with pytest.raises(ValueError, match=r"ApplyGradientDescent.*\[3\]"):
            tf.train.GradientDescentOptimizer(0.1).apply_gradients([(tf.constant([1.0, 2.0, 3.0]), w)])
        with pytest.raises(ValueError, match="dtype"):
            tf.train.GradientDescentOptimizer(0.1).apply_gradients([(tf.constant([1.0, 2.0], tf.float64), w)])

    @pytest.mark.parametrize("name", OPTIMIZERS)
    def test_a_wrong_shape_met_only_when_running_changes_nothing(self, name: str, sess: Any) -> None:
        w = tf.Variable([1.0, 2.0], name="w")
        grad = tf.placeholder(tf.float32)
        train = OPTIMIZERS[name]().apply_gradients([(grad, w)])
        sess.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[2\].*\[3\]"):
            sess.run(train, {grad: np.ones(3)})
        np.testing.assert_array_equal(sess.run(w), [1.0, 2.0])

    @pytest.mark.parametrize("name", OPTIMIZERS)
    @pytest.mark.parametrize("row", [-1, 4, 2**31 - 1])
    def test_rows_out_of_range_change_nothing(self, name: str, row: int, sess: Any) -> None:
        e = tf.Variable(np.ones((4, 2), np.float32), name="e")
        rows = tf.placeholder(tf.int32, [None])
        slices = tf.IndexedSlices(tf.ones([2, 2]), rows, tf.constant([4, 2]))
        train = OPTIMIZERS[name]().apply_gradients([(slices, e)])
        sess.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match=str(row)):
            sess.run(train, {rows: [0, row]})
        np.testing.assert_array_equal(sess.run(e), np.ones((4, 2)))

    def test_an_uninitialized_slot_is_named(self, sess: Any) -> None:
        w = tf.Variable([1.0, 2.0], name="w")
        train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_sum(w))
        sess.run(w.initializer)
        with pytest.raises(tf.errors.FailedPreconditionError, match="w/Momentum"):
            sess.run(train)

    def test_numbers_of_the_wrong_sign(self) -> None:
        for build in (
            lambda: tf.train.AdagradOptimizer(0.1, 0.0),
            lambda: tf.train.ProximalAdagradOptimizer(0.1, -1.0),
            lambda: tf.train.AdagradDAOptimizer(0.1, 0, 0.0),
            lambda: tf.train.FtrlOptimizer(0.1, learning_rate_power=0.5),
            lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=-1.0),
        ):
            with pytest.raises(ValueError):
                build()

    def test_ftrl_refuses_a_rate_of_zero_when_it_runs(self, sess: Any) -> None:
        w = tf.Variable([1.0])
        train = tf.train.FtrlOptimizer(0.0).minimize(tf.reduce_sum(w))
        sess.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="lr"):
            sess.run(train)


def test_nan_gradients_reach_the_variable_and_nothing_else(sess: Any) -> None:
    w, u = tf.Variable([1.0, 2.0]), tf.Variable([3.0])
    pairs = [(tf.constant([np.nan, 1.0]), w), (tf.constant([1.0]), u)]
    train = tf.train.AdamOptimizer(0.1).apply_gradients(pairs)
    sess.run(tf.global_variables_initializer())
    sess.run(train)
    assert np.isnan(sess.run(w)[0]) and np.isfinite(sess.run(w)[1])
    assert np.isfinite(sess.run(u)[0])


def test_empty_variables_and_gradients(sess: Any) -> None:
    w = tf.Variable(np.zeros((0, 3), np.float32))
    e = tf.Variable(np.ones((2, 3), np.float32))
    none = tf.IndexedSlices(tf.zeros([0, 3]), tf.zeros([0], tf.int64), tf.constant([2, 3]))
    train = tf.train.AdagradOptimizer(0.1).apply_gradients([(tf.zeros([0, 3]), w), (none, e)])
    sess.run(tf.global_variables_initializer())
    sess.run(train)
    np.testing.assert_array_equal(sess.run(e), np.ones((2, 3)))


def test_an_update_leaves_snapshots_alone(sess: Any) -> None:
    w = tf.Variable(np.ones(5, np.float32))
    before = w.read_value()
    with tf.control_dependencies([before]):
        train = tf.train.AdamOptimizer(0.5).apply_gradients([(tf.ones(5), w)])
    with tf.control_dependencies([train]):
        both = [before + 0.0, w.read_value()]
    sess.run(tf.global_variables_initializer())
    old, new = sess.run(both)
    np.testing.assert_array_equal(old, np.ones(5))
    np.testing.assert_allclose(new, np.full(5, 0.5), 1e-5)


def test_a_large_update_is_the_same_as_its_parts(sess: Any) -> None:
    rng = np.random.default_rng(0)
    n = 100_003
    w = tf.Variable(rng.normal(size=n).astype(np.float32))
    parts = [tf.Variable(w.initialized_value()[i::4]) for i in range(4)]
    grad = rng.normal(size=n).astype(np.float32)
    optimizer = tf.train.AdamOptimizer(0.1)
    train = optimizer.apply_gradients([(tf.constant(grad), w)])
    train_parts = optimizer.apply_gradients([(tf.constant(grad[i::4].copy()), p) for i, p in enumerate(parts)])
    sess.run(tf.global_variables_initializer())
    sess.run(train)
    sess.run([p.assign(p) for p in optimizer._non_slot_variables()])
    for power, start in zip(optimizer._get_beta_accumulators(), (0.9, 0.999), strict=True):
        power.load(start, sess)
    sess.run(train_parts)
    whole = sess.run(w)
    for i, part in enumerate(parts):
        np.testing.assert_array_equal(sess.run(part), whole[i::4])


def test_sparse_updates_of_many_rows_are_the_same_as_of_few(sess: Any) -> None:
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 500, 3000).astype(np.int32)
    for width in (16, 300):
        values = rng.normal(size=(3000, width)).astype(np.float32)
        w = tf.Variable(np.zeros((500, width), np.float32))
        u = tf.Variable(np.zeros((500, width), np.float32))
        handles = [(v, tf.Variable(np.full((500, width), 0.1, np.float32))) for v in (w, u)]
        grad, indices = tf.placeholder(tf.float32, [None, width]), tf.placeholder(tf.int32, [None])
        ops = [
            tf.raw_ops.ResourceSparseApplyAdagrad(var=v.handle, accum=a.handle, lr=0.1, grad=grad, indices=indices)
            for v, a in handles
        ]
        sess.run(tf.global_variables_initializer())
        sess.run(ops[0], {grad: values, indices: rows})
        for start in range(0, 3000, 100):
            sess.run(ops[1], {grad: values[start : start + 100], indices: rows[start : start + 100]})
        np.testing.assert_array_equal(sess.run(w), sess.run(u))


def test_one_variable_as_two_is_refused(sess: Any) -> None:
    w = tf.Variable([1.0], name="w")
    op = tf.raw_ops.ResourceApplyMomentum(var=w.handle, accum=w.handle, lr=0.1, grad=[1.0], momentum=0.9)
    sess.run(tf.global_variables_initializer())
    with pytest.raises(tf.errors.InvalidArgumentError, match="'w' is given twice"):
        sess.run(op)
