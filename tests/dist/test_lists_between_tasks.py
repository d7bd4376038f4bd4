"""Lists of tensors that cross tasks: elements of all sizes, in shared memory and over TCP, and what is kept of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import thalweg as tf

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"


@pytest.fixture(params=["grpc", "thalweg+tcp"])
def target(request: pytest.FixtureRequest) -> Iterator[str]:
    """Of a worker, with a PS task."""
    workers, ps = tf.test.create_local_cluster(1, 1, protocol=request.param)
    yield workers[0].target
    for server in (*workers, *ps):
        server.stop()


# Elements of 4 bytes, of just less and just more than 32 KB, and of 2 MB.
@pytest.mark.parametrize("columns", [1, 8191, 8192, 1 << 19])
def test_a_list_arrives_with_all_of_its_elements(target: str, columns: int) -> None:
    x = tf.placeholder(tf.float32, [None, columns])
    with tf.device(PS):
        many = tf.raw_ops.TensorListFromTensor(tensor=x, element_shape=[columns])
    with tf.device(WORKER):
        back = tf.raw_ops.TensorListStack(input_handle=many, element_shape=[columns], element_dtype=tf.float32)
        total = tf.reduce_sum(back * 2.0, axis=0)
    values = np.random.default_rng(1).standard_normal((5, columns)).astype(np.float32)
    with tf.Session(target) as session:
        for rows in (5, 1, 3):
            found, doubled = session.run([back, total], {x: values[:rows]})
            np.testing.assert_array_equal(found, values[:rows])
            np.testing.assert_allclose(doubled, 2.0 * values[:rows].sum(axis=0), rtol=1e-4, atol=1e-4)


def test_a_list_that_is_kept_does_not_change_with_the_senders_memory(target: str) -> None:
    x = tf.placeholder(tf.float32, [2, 100000])
    with tf.device(PS):
        sent = tf.raw_ops.TensorListFromTensor(tensor=x * 1.0, element_shape=[100000])
    with tf.device(WORKER):
        queue = tf.FIFOQueue(10, [tf.variant], shapes=[[]], shared_name="kept")
        put = queue.enqueue(tf.identity(sent))
        stacked = tf.raw_ops.TensorListStack(
            input_handle=queue.dequeue(), element_shape=[100000], element_dtype=tf.float32
        )
    with tf.Session(target) as session:
        for i in range(8):
            session.run(put, {x: np.full((2, 100000), i, np.float32)})
        for i in range(8):
            np.testing.assert_array_equal(session.run(stacked), np.full((2, 100000), i, np.float32))


def test_elements_of_a_list_are_changed_by_their_receiver_only(target: str) -> None:
    with tf.device(PS):
        v = tf.get_variable("v", [3, 50000], initializer=tf.ones_initializer())
        sent = tf.raw_ops.TensorListFromTensor(tensor=v, element_shape=[50000])
    with tf.device(WORKER):
        longer = tf.raw_ops.TensorListPushBack(input_handle=sent, tensor=tf.zeros([50000]))
        changed = tf.raw_ops.TensorListSetItem(input_handle=longer, index=0, item=tf.fill([50000], 7.0))
        total = tf.raw_ops.TensorListStack(input_handle=changed, element_shape=[50000], element_dtype=tf.float32)
    with tf.device(PS):
        there = tf.raw_ops.TensorListStack(input_handle=sent, element_shape=[50000], element_dtype=tf.float32)
    with tf.Session(target) as session:
        session.run(v.initializer)
        for _ in range(3):
            here, unchanged = session.run([total, there])
            np.testing.assert_array_equal(here[:, 0], [7.0, 1.0, 1.0, 0.0])
            np.testing.assert_array_equal(unchanged, np.ones([3, 50000], np.float32))
