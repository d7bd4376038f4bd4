"""Variables, optimizers, layers and checkpoints where ops run at once."""

from __future__ import annotations

import copy
import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg._native import core
from thalweg.graph.default_graph import eager_graph


def test_values_and_updates() -> None:
    v: Any = tf.Variable([1.0, 2.0], name="v")
    assert v.name == "v:0"
    assert v.assign([3.0, 4.0]) is v
    assert v.assign_add([1.0, 1.0]).numpy().tolist() == [4.0, 5.0]
    assert v.assign_sub([2.0, 2.0]).numpy().tolist() == [2.0, 3.0]
    assert (v * 2.0).numpy().tolist() == [4.0, 6.0]
    assert repr(v) == "<tf.Variable 'v:0' shape=(2,) dtype=float32, numpy=array([2., 3.], dtype=float32)>"
    assert np.asarray(v).tolist() == [2.0, 3.0]
    assert int(tf.Variable(3)) == 3
    assert bool(tf.Variable(True))


def test_a_read_is_a_snapshot() -> None:
    v: Any = tf.Variable([1.0, 2.0])
    before = v.value()
    array = before.numpy()
    v.assign_add([10.0, 10.0])
    assert before.numpy().tolist() == array.tolist() == [1.0, 2.0]


def test_sparse_updates() -> None:
    v: Any = tf.Variable(tf.zeros([4, 2]))
    v.scatter_add(tf.IndexedSlices(tf.ones([2, 2]), tf.constant([1, 1])))
    tf.scatter_update(v, [3], [[5.0, 6.0]])
    assert v[0].assign([7.0, 8.0]) is v
    v[2:, 1].assign([1.0, 6.0])
    assert v.numpy()[0].tolist() == [7.0, 8.0]
    assert v.numpy()[2].tolist() == [0.0, 1.0]
    assert v.numpy()[1].tolist() == [2.0, 2.0]
    assert v.numpy()[3].tolist() == [5.0, 6.0]


def test_wrong_assignments_are_refused() -> None:
    v: Any = tf.Variable([1.0, 2.0])
    with pytest.raises(ValueError, match="shape"):
        v.assign([1.0])
    with pytest.raises((TypeError, ValueError)):
        v.assign(["a", "b"])
    assert v.numpy().tolist() == [1.0, 2.0]


def test_a_variable_dies_with_its_last_reference() -> None:
    before = core.allocator_stats()["bytes_in_use"]
    session = eager_graph().executor.context.session  # type: ignore[attr-defined]
    names = session.resource_names("")
    v: Any = tf.Variable(tf.zeros([1 << 20]))
    assert core.allocator_stats()["bytes_in_use"] - before >= 4 << 20
    del v
    gc.collect()
    assert core.allocator_stats()["bytes_in_use"] - before < 1 << 20
    assert session.resource_names("") == names


def test_copies_have_values_of_their_own() -> None:
    v: Any = tf.Variable(1.0)
    w = copy.deepcopy(v)
    v.assign(5.0)
    assert w.numpy() == 1.0


def test_get_variable_makes_new_ones_unless_a_store_keeps_them() -> None:
    a, b = tf.get_variable("w", [2]), tf.get_variable("w", [2])
    assert a is not b
    store = tf.contrib.eager.EagerVariableStore()
    with store.as_default():
        with tf.variable_scope("s"):
            first = tf.get_variable("w", [2])
        with tf.variable_scope("s"):
            assert tf.get_variable("w", [2]) is first
    assert store.trainable_variables() == [first]


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: tf.train.GradientDescentOptimizer(0.1),
        lambda: tf.train.MomentumOptimizer(0.05, 0.9),
        lambda: tf.train.AdamOptimizer(0.3),
        lambda: tf.train.RMSPropOptimizer(0.3),
        lambda: tf.train.AdagradOptimizer(2.0),
        lambda: tf.train.FtrlOptimizer(2.0),
        lambda: tf.train.ProximalGradientDescentOptimizer(0.1),
    ],
)
def test_optimizers_reach_the_minimum(optimizer: Any) -> None:
    made = optimizer()
    v: Any = tf.Variable([5.0, -5.0])
    for _ in range(200):
        made.minimize(lambda: tf.reduce_sum(tf.square(v - 1.0)))
    assert v.numpy() == pytest.approx([1.0, 1.0], abs=0.3)


def test_the_steps_of_an_optimizer_are_those_of_the_graph() -> None:
    start = np.array([[0.5, -0.25], [1.0, 2.0]], np.float32)

    def loss(w: Any) -> Any:
        return tf.reduce_sum(tf.tanh(w) * [[1.0, 2.0], [3.0, 4.0]])

    v: Any = tf.Variable(start)
    eager = tf.train.AdamOptimizer(0.1)
    for _ in range(5):
        with tf.GradientTape() as tape:
            value = loss(v)
        eager.apply_gradients([(tape.gradient(value, v), v)])
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.Variable(start)
        step = tf.train.AdamOptimizer(0.1).minimize(loss(w))
        session.run(tf.global_variables_initializer())
        for _ in range(5):
            session.run(step)
        expected = session.run(w)
    np.testing.assert_array_equal(expected, v.numpy())


def test_slots_belong_to_variables_and_not_to_names() -> None:
    a: Any = tf.Variable([1.0], name="same")
    b: Any = tf.Variable([1.0, 2.0], name="same")
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
    optimizer.minimize(lambda: tf.reduce_sum(a * a) + tf.reduce_sum(b * b))
    assert optimizer.get_slot(a, "momentum").shape.as_list() == [1]
    assert optimizer.get_slot(b, "momentum").shape.as_list() == [2]


def test_minimize_needs_a_function() -> None:
    v: Any = tf.Variable(1.0)
    with pytest.raises(RuntimeError, match="should be a function when eager execution is enabled"):
        tf.train.GradientDescentOptimizer(0.1).minimize(v * v)


def test_layers_as_objects() -> None:
    layer = tf.layers.Dense(3, activation=tf.nn.relu)
    x = tf.ones([2, 4])
    first, second = layer(x), layer(x)
    np.testing.assert_array_equal(first.numpy(), second.numpy())
    assert [v.shape.as_list() for v in layer.trainable_variables] == [[4, 3], [3]]
    other = tf.layers.Dense(3)
    other(x)
    assert other.variables[0] is not layer.variables[0]


def test_batch_normalization_keeps_its_averages() -> None:
    layer = tf.layers.BatchNormalization(momentum=0.5)
    x = tf.random_normal([64, 2], mean=3.0, seed=1)
    for _ in range(10):
        layer(x, training=True)
    assert layer.moving_mean.numpy() == pytest.approx(x.numpy().mean(0), abs=0.1)
    assert abs(layer(x, training=False).numpy().mean()) < 0.1


def test_keras_layers() -> None:
    layer = tf.keras.layers.Dense(2, kernel_initializer="ones")
    assert layer(tf.ones([1, 3])).numpy().tolist() == [[3.0, 3.0]]
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(layer(tf.ones([1, 3])))
    assert [g.shape.as_list() for g in tape.gradient(y, layer.trainable_variables)] == [[3, 2], [2]]


def test_modules() -> None:
    class Line(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = tf.Variable(2.0, name="w")

        def __call__(self, x: Any) -> Any:
            return x * self.w

    line = Line()
    assert line(3.0).numpy() == 6.0
    assert line.trainable_variables == (line.w,)


def test_checkpoints_go_both_ways(tmp_path: Path) -> None:
    v: Any = tf.Variable([1.0, 2.0], name="any")
    layer = tf.layers.Dense(2)
    layer(tf.ones([1, 3]))
    optimizer = tf.train.AdamOptimizer(0.1)
    optimizer.minimize(lambda: tf.reduce_sum(v * v) + tf.reduce_sum(layer(tf.ones([1, 3]))))
    checkpoint = tf.train.Checkpoint(v=v, layer=layer, optimizer=optimizer)
    path = checkpoint.save(str(tmp_path / "ckpt"))
    assert path.endswith("ckpt-1")
    saved = [value.numpy() for value in (v, *layer.variables, optimizer.get_slot(v, "m"))]
    for value in (v, *layer.variables, optimizer.get_slot(v, "m")):
        value.assign(tf.zeros_like(value))
    checkpoint.restore(path).assert_consumed()
    for value, before in zip((v, *layer.variables, optimizer.get_slot(v, "m")), saved, strict=True):
        np.testing.assert_array_equal(value.numpy(), before)
    with tf.Graph().as_default(), tf.Session() as session:  # A graph program reads what the eager one has written.
        w = tf.Variable([0.0, 0.0])
        tf.train.Checkpoint(v=w).restore(path).expect_partial().run_restore_ops(session)
        assert session.run(w).tolist() == saved[0].tolist()


def test_the_saver_of_contrib_eager(tmp_path: Path) -> None:
    v: Any = tf.Variable(3.0, name="v")
    saver = tf.contrib.eager.Saver([v])
    path = saver.save(str(tmp_path / "x"), global_step=4)
    v.assign(0.0)
    saver.restore(path)
    assert v.numpy() == 3.0
    with tf.contrib.eager.restore_variables_on_create(path):
        assert tf.Variable(1.0, name="v").numpy() == 3.0


def test_the_global_step() -> None:
    step = tf.train.get_or_create_global_step()
    assert tf.train.get_global_step() is step
    before = int(step)
    v: Any = tf.Variable(1.0)
    tf.train.GradientDescentOptimizer(0.1).minimize(lambda: v * v, global_step=step)
    assert int(step) == before + 1


class _Late(tf.Module):
    """Makes its variables when it is called first."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[Any] = []
        self.dense: Any = None

    def __call__(self, x: Any) -> Any:
        if not self.parts:
            self.parts.append(tf.Variable(1.0))
            self.dense = tf.layers.Dense(2, kernel_initializer=tf.ones_initializer())
        return self.dense(x) * self.parts[0]


def _trained(model: Any, optimizer: Any, steps: int) -> list[float]:
    x = tf.constant([[1.0, 2.0]])
    losses = []
    for _ in range(steps):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(model(x) - 1.0))
        variables = tape.watched_variables()
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        losses.append(float(loss))
    return losses


def test_variables_and_slots_that_are_made_after_restore_get_their_values(tmp_path: Path) -> None:
    model, optimizer = _Late(), tf.train.AdamOptimizer(0.1)
    _trained(model, optimizer, 3)
    path = tf.train.Checkpoint(model=model, optimizer=optimizer).save(str(tmp_path / "late"))
    expected = _trained(model, optimizer, 3)

    again, its_optimizer = _Late(), tf.train.AdamOptimizer(0.1)
    status = tf.train.Checkpoint(model=again, optimizer=its_optimizer).restore(path)
    with pytest.raises(AssertionError, match="Unresolved"):
        status.assert_consumed()
    np.testing.assert_allclose(_trained(again, its_optimizer, 3), expected)
    status.assert_consumed()
    np.testing.assert_allclose(_trained(again, its_optimizer, 2), _trained(model, optimizer, 2))
    assert type(again.parts[0]) is tf.Variable


def test_a_later_value_is_not_overwritten_by_what_was_restored(tmp_path: Path) -> None:
    class Holder(tf.Module):
        pass

    saved = Holder()
    saved.v, saved.w = tf.Variable(5.0), tf.Variable(6.0)
    path = tf.train.Checkpoint(root=saved).write(str(tmp_path / "one"))
    other = Holder()
    other.v = tf.Variable(0.0)
    tf.train.Checkpoint(root=other).restore(path)
    assert other.v.assign_add(1.0).numpy() == 6.0
    stranger = tf.Variable(2.0)
    assert stranger.numpy() == 2.0
    other.w = tf.Variable(0.0)
    other.w.assign(8.0)
    assert (other.v.numpy(), other.w.numpy(), stranger.numpy()) == (6.0, 8.0, 2.0)
