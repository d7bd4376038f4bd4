"""Eager tensors: their values, what Python and NumPy can do with them, and what they refuse."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import numpy as np
import pytest

import thalweg as tf


def test_they_are_tensors_with_values() -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    assert isinstance(x, tf.Tensor)
    assert x.dtype is tf.float32
    assert x.shape.as_list() == [2, 2]
    assert x.get_shape() == x.shape
    np.testing.assert_array_equal(x.numpy(), [[1.0, 2.0], [3.0, 4.0]])
    assert np.asarray(x, np.float64).dtype == np.float64
    assert tf.executing_eagerly()


def test_numpy_shares_memory_and_cannot_write() -> None:
    x = tf.ones([100, 100])
    first, second = x.numpy(), x.numpy()
    assert np.shares_memory(first, second)
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 5.0
    del x
    assert second.sum() == 10_000


def test_a_read_only_array_comes_back_without_a_copy_and_a_writable_one_is_copied() -> None:
    x = tf.ones([2000]).numpy()
    assert np.shares_memory(tf.from_dlpack(x).numpy(), x)
    assert np.shares_memory(tf.convert_to_tensor(x).numpy(), x)
    assert np.shares_memory(tf.constant(x, tf.float32).numpy(), x)
    assert tf.constant(x, tf.float64).dtype == tf.float64
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(tf.constant(x) + 1.0).sum() == 4000.0
    frozen = np.ones(2000, np.float32)
    frozen.setflags(write=False)  # Its owner may still change it.
    assert not np.shares_memory(tf.constant(frozen).numpy(), frozen)
    mine = np.ones(2000, np.float32)
    y = tf.constant(mine)
    mine[0] = 7.0
    assert y.numpy()[0] == 1.0


def test_dlpack_shares_memory() -> None:
    x: Any = tf.range(10_000)
    array = np.from_dlpack(x)
    assert np.shares_memory(array, x.numpy())
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="DLPack has no element type"):
        tf.constant("text").__dlpack__()


def test_scalars_are_python_numbers() -> None:
    assert bool(tf.constant(True))
    assert int(tf.constant(3)) == 3
    assert float(tf.constant(1.5)) == 1.5
    assert [10, 20, 30][tf.constant(1)] == 20
    assert f"{tf.constant(1.25):.1f}" == "1.2"
    with pytest.raises(ValueError, match="ambiguous"):
        bool(tf.constant([True, False]))


def test_iteration_length_and_indexing() -> None:
    x = tf.constant([[1, 2], [3, 4], [5, 6]])
    assert len(x) == 3
    assert [row.numpy().tolist() for row in x] == [[1, 2], [3, 4], [5, 6]]
    assert x[1, 0].numpy() == 3
    assert x[:, 1].numpy().tolist() == [2, 4, 6]
    _, _, c = x
    assert c.numpy().tolist() == [5, 6]
    with pytest.raises(TypeError, match=r"[Ss]calar"):
        len(tf.constant(1))
    with pytest.raises(TypeError, match=r"[Ss]calar"):
        list(tf.constant(1))


def test_text_shows_the_value() -> None:
    x = tf.constant([1, 2])
    assert repr(x) == "<tf.Tensor: shape=(2,), dtype=int32, numpy=array([1, 2], dtype=int32)>"
    assert str(x) == "tf.Tensor([1 2], shape=(2,), dtype=int32)"
    assert "unprintable" in repr(tf.Variable(1.0).handle)
    assert str(tf.constant(b"abc")) == "tf.Tensor(b'abc', shape=(), dtype=string)"


def test_they_are_compared_and_hashed_by_identity() -> None:
    a, b = tf.constant(1.0), tf.constant(1.0)
    assert a != b
    assert a == a
    assert len({a, b}) == 2
    assert tf.equal(a, b).numpy()


@pytest.mark.parametrize(
    "item",
    [
        0,
        -1,
        (0, 1),
        (slice(None), 1),
        (..., 2),
        (None, 0),
        slice(None, None, -1),
        (1, ..., None),
        slice(5, 9),
        (0, -1, -1),
    ],
    ids=repr,
)
def test_indices_are_those_of_numpy_also_when_they_are_known(item: Any) -> None:
    values = np.arange(24).reshape(2, 3, 4)
    x = tf.constant(values)
    for _ in range(2):
        np.testing.assert_array_equal(x[item], values[item])
    y = tf.constant(values.astype(np.float32))
    with tf.GradientTape() as tape:
        tape.watch(y)
        part = y[item]
    expected = np.zeros(values.shape)
    expected[item] = 1.0
    grad = tape.gradient(part, y)
    np.testing.assert_array_equal(expected if grad is None else grad, expected)


def test_indices_that_are_refused_stay_so() -> None:
    x = tf.zeros([2, 3])
    for _ in range(2):
        for wrong in (5, (0, 0, 0), slice(None, None, 0), 1 << 40):
            with pytest.raises(tf.errors.InvalidArgumentError):
                x[wrong]
        for other in (1.5, "a", (slice(0, 1.5),)):
            with pytest.raises(TypeError, match="valid indices"):
                x[other]


def test_places_in_a_graph_are_meaningless() -> None:
    x = tf.constant(1.0)
    for name in ("op", "name", "graph", "value_index"):
        with pytest.raises(AttributeError, match=f"Tensor.{name} is meaningless when eager execution is enabled"):
            getattr(x, name)
    with pytest.raises(NotImplementedError, match="eval is not supported"):
        x.eval()
    with pytest.raises(NotImplementedError):
        x.consumers()


def test_copies_and_pickles() -> None:
    x = tf.constant([1.0, 2.0])
    assert copy.copy(x) is x
    assert copy.deepcopy(x) is x
    assert pickle.loads(pickle.dumps(x)).numpy().tolist() == [1.0, 2.0]


def test_devices() -> None:
    x = tf.constant(1.0)
    assert x.device.endswith("/device:CPU:0")
    assert x.cpu() is x
    with pytest.raises(tf.errors.InvalidArgumentError, match="no device '/device:GPU:3'"), tf.device("/gpu:3"):
        tf.constant(1.0) + 1.0
    with tf.device("/cpu:0"):
        assert (x + 1.0).numpy() == 2.0


def test_a_graph_inside_takes_values_as_constants() -> None:
    x = tf.constant([1.0, 2.0])
    with tf.Graph().as_default():
        assert not tf.executing_eagerly()
        y = tf.placeholder(tf.float32, [2]) * x
        assert y.op.inputs[1].op.type == "Const"
        with tf.Session() as session:
            assert session.run(y, {y.op.inputs[0]: [3.0, 4.0]}).tolist() == [3.0, 8.0]
        with tf.init_scope():
            assert not tf.executing_eagerly()
    assert tf.executing_eagerly()


def test_a_graph_tensor_used_eagerly_is_refused_by_name() -> None:
    with tf.Graph().as_default():
        symbolic = tf.placeholder(tf.float32, [2], name="fed")
    with pytest.raises(TypeError, match=r"fed.*is a tensor of a graph"):
        tf.constant([1.0, 2.0]) + symbolic
    with pytest.raises(RuntimeError, match=r"tf\.placeholder\(\) is not compatible"):
        tf.placeholder(tf.float32)


def test_an_eager_variable_used_in_a_graph_is_refused() -> None:
    v: Any = tf.Variable(1.0)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="belongs to what runs eagerly"):
        v + 1.0


def test_errors_come_from_the_call() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="Matrix size-incompatible"):
        tf.matmul(tf.ones([2, 3]), tf.ones([2, 3]))
    with pytest.raises((TypeError, ValueError)):
        tf.constant(1.0) + tf.constant(1)
    with pytest.raises((TypeError, ValueError)):
        tf.matmul(tf.constant([[True]]), tf.constant([[True]]))


def test_threads_run_ops_at_the_same_time() -> None:
    x = tf.random_normal([64, 64])
    expected = tf.matmul(x, x).numpy()
    found: list[bool] = []

    def work() -> None:
        with tf.eager():
            found.extend(np.array_equal(tf.matmul(x, x).numpy(), expected) for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 200


def test_a_waiting_queue_lets_another_thread_run() -> None:
    queue = tf.FIFOQueue(2, tf.float32, shapes=[[]])

    def fill() -> None:
        with tf.eager():
            queue.enqueue(5.0)

    thread = threading.Timer(0.05, fill)
    thread.start()
    taken: Any = queue.dequeue()
    assert taken.numpy() == 5.0
    thread.join()
    queue.close()
    with pytest.raises(tf.errors.OutOfRangeError):
        queue.dequeue()


def test_seeds_are_tensorflows() -> None:
    def draws() -> list[list[float]]:
        tf.set_random_seed(7)
        return [tf.random_uniform([3]).numpy().tolist() for _ in range(2)] + [
            tf.random_uniform([3], seed=1).numpy().tolist() for _ in range(2)
        ]

    first, second = draws(), draws()
    assert first == second
    assert len({tuple(each) for each in first}) == 4
