"""What is special to each kind of queue: shuffling, padding, priorities."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tf
from tests.queues.waiting import InThread, assert_waits


def test_the_order_of_a_shuffle_queue_is_that_of_tensorflow() -> None:
    queue = tf.RandomShuffleQueue(100, 0, tf.int32, shapes=[[]], seed=5)
    tf.set_random_seed(7)
    other = tf.RandomShuffleQueue(100, 0, tf.int32, shapes=[[]], seed=5)
    expected = {
        queue: [11, 19, 6, 5, 8, 4, 1, 9, 15, 13, 12, 17, 14, 18, 10, 2, 16, 3, 0, 7],
        other: [13, 0, 10, 14, 6, 8, 4, 7, 15, 16, 1, 2, 19, 5, 3, 9, 12, 17, 11, 18],
    }
    with tf.Session() as session:
        for each, order in expected.items():
            session.run(each.enqueue_many([np.arange(20, dtype=np.int32)]))
            assert session.run(each.dequeue_many(20)).tolist() == order


def test_a_shuffle_queue_keeps_some_until_it_is_closed() -> None:
    queue = tf.RandomShuffleQueue(20, 3, tf.int32, shapes=[[]])
    with tf.Session() as session:
        session.run(queue.enqueue_many([np.arange(5, dtype=np.int32)]))
        taken = session.run(queue.dequeue_many(2)).tolist()
        assert_waits(session, queue.dequeue())
        assert_waits(session, queue.dequeue_many(2))
        assert session.run(queue.size()) == 3
        waiting = InThread(session.run, queue.dequeue_many(3))
        assert waiting.is_waiting()
        session.run(queue.close())
        taken += waiting.result().tolist()
        assert sorted(taken) == [0, 1, 2, 3, 4]


def test_seeds_without_a_value_differ() -> None:
    orders = set()
    for _ in range(4):
        queue = tf.RandomShuffleQueue(50, 0, tf.int32, shapes=[[]])
        with tf.Session() as session:
            session.run(queue.enqueue_many([np.arange(30, dtype=np.int32)]))
            orders.add(tuple(session.run(queue.dequeue_many(30)).tolist()))
    assert len(orders) > 1


def test_shared_shuffle_queues_must_agree_on_their_seeds() -> None:
    tf.set_random_seed(3)
    one = tf.RandomShuffleQueue(10, 1, tf.int32, shared_name="s")
    same = tf.RandomShuffleQueue(10, 1, tf.int32, shared_name="s")
    assert one.queue_ref.op.get_attr("seed2") == same.queue_ref.op.get_attr("seed2")
    with tf.Session() as session:
        session.run([one.size(), same.size()])
        with pytest.raises(tf.errors.InvalidArgumentError, match="random seeds"):
            session.run(tf.RandomShuffleQueue(10, 1, tf.int32, shared_name="s", seed=8).size())
        with pytest.raises(tf.errors.InvalidArgumentError, match="min_after_dequeue 1 but requested"):
            session.run(tf.RandomShuffleQueue(10, 2, tf.int32, shared_name="s").size())


def test_a_batch_is_padded_to_its_largest_element() -> None:
    queue = tf.PaddingFIFOQueue(10, [tf.int32, tf.string, tf.float32], [[None, 2], [None], []])
    numbers, words = tf.placeholder(tf.int32, [None, 2]), tf.placeholder(tf.string, [None])
    enqueue = queue.enqueue([numbers, words, 1.0])
    elements = [([[1, 2]], ["a", "b"]), ([[3, 4], [5, 6], [7, 8]], []), (np.zeros((0, 2), np.int32), ["c"])]
    with tf.Session() as session:
        for n, w in elements:
            session.run(enqueue, {numbers: n, words: w})
        padded, padded_words, ones = session.run(queue.dequeue_many(3))
        assert padded.tolist() == [
            [[1, 2], [0, 0], [0, 0]],
            [[3, 4], [5, 6], [7, 8]],
            [[0, 0], [0, 0], [0, 0]],
        ]
        assert padded_words.tolist() == [[b"a", b"b"], [b"", b""], [b"c", b""]]
        assert ones.tolist() == [1.0] * 3
        assert session.run(queue.dequeue_many(0))[0].shape == (0, 0, 2)
        session.run(enqueue, {numbers: [[9, 9]], words: ["z"]})
        number, word, _ = session.run(queue.dequeue())
        assert number.tolist() == [[9, 9]]
        assert word.tolist() == [b"z"]


def test_padding_works_in_the_middle_of_a_shape() -> None:
    queue = tf.PaddingFIFOQueue(10, [tf.float32], [[2, None, 2]])
    x = tf.placeholder(tf.float32, [2, None, 2])
    enqueue = queue.enqueue(x)
    small, large = np.arange(4, dtype=np.float32).reshape(2, 1, 2), np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    with tf.Session() as session:
        session.run(enqueue, {x: small})
        session.run(enqueue, {x: large})
        batch = session.run(queue.dequeue_many(2))
    expected = np.zeros((2, 2, 3, 2), np.float32)
    expected[0, :, :1], expected[1] = small, large
    np.testing.assert_array_equal(batch, expected)


def test_a_padding_queue_closes_like_any_other() -> None:
    queue = tf.PaddingFIFOQueue(10, [tf.int32], [[None]])
    with tf.Session() as session:
        session.run(queue.enqueue_many([[[1, 2], [3, 4]]]))
        session.run(queue.close())
        with pytest.raises(tf.errors.OutOfRangeError, match=r"PaddingFIFOQueue .*requested 3, current size 2"):
            session.run(queue.dequeue_many(3))
        assert session.run(queue.dequeue_up_to(3)).tolist() == [[1, 2], [3, 4]]


def test_the_smallest_priority_leaves_first() -> None:
    queue = tf.PriorityQueue(100, [tf.string], shapes=[[]])
    priorities = np.array([3, 1, 2, 1, 3, 1, 1], np.int64)
    with tf.Session() as session:
        session.run(queue.enqueue_many([priorities, list("abcdefg")]))
        session.run(queue.enqueue([np.int64(-5), "z"]))
        order, values = session.run(queue.dequeue_many(8))
        assert order.tolist() == [-5, 1, 1, 1, 1, 2, 3, 3]
        # Equal priorities leave in the order of TensorFlow's heap.
        assert b"".join(values[5:]) == b"cae"
        session.run(queue.enqueue_many([priorities, list("abcdefg")]))
        waiting = InThread(session.run, queue.dequeue_many(9))
        assert waiting.is_waiting()
        session.run(queue.close())
        with pytest.raises(tf.errors.OutOfRangeError, match="PriorityQueue"):
            waiting.result()
        # They are back, and in order again.
        assert session.run(queue.dequeue_many(7))[0].tolist() == [1, 1, 1, 1, 2, 3, 3]


def test_priorities_must_be_scalars() -> None:
    queue = tf.PriorityQueue(10, [tf.int32])
    assert queue.dtypes == [tf.int64, tf.int32]
    p = tf.placeholder(tf.int64)
    enqueue = queue.enqueue([p, 1])
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="scalar"):
            session.run(enqueue, {p: [1, 2]})
        session.run(enqueue, {p: 4})
        assert session.run(queue.dequeue()) == [4, 1]


@pytest.mark.parametrize("dtype", [tf.bool, tf.uint8, tf.float16, tf.bfloat16, tf.int64, tf.complex128, tf.string])
def test_every_type_can_be_an_element(dtype: tf.DType) -> None:
    values = np.array(["ab", "", "c"]) if dtype is tf.string else np.array([1, 0, 1])
    x = tf.constant(values.tolist(), tf.string) if dtype is tf.string else tf.cast(values, dtype)
    queue = tf.FIFOQueue(10, dtype, shapes=[[]])
    with tf.Session() as session:
        expected = session.run(x)
        session.run(queue.enqueue_many([x]))
        np.testing.assert_array_equal(session.run(queue.dequeue_many(3)), expected)
