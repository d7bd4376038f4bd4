"""Queues: order, waiting, closing and cancelling, as TensorFlow has them; and what is refused."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.queues.waiting import InThread, assert_waits


def fifo(capacity: int = 10, **kwargs: Any) -> Any:
    return tf.FIFOQueue(capacity, tf.float32, shapes=[[]], **kwargs)


def test_elements_leave_in_the_order_of_their_arrival() -> None:
    queue = tf.FIFOQueue(10, [tf.int32, tf.string], shapes=[[], [2]])
    with tf.Session() as session:
        session.run(queue.enqueue([1, ["a", "b"]]))
        session.run(queue.enqueue_many([[2, 3], [["c", "d"], ["e", "f"]]]))
        assert session.run(queue.size()) == 3
        number, words = session.run(queue.dequeue())
        assert (number, words.tolist()) == (1, [b"a", b"b"])
        numbers, words = session.run(queue.dequeue_many(2))
        assert numbers.tolist() == [2, 3]
        assert words.tolist() == [[b"c", b"d"], [b"e", b"f"]]


def test_names_and_shapes_are_those_of_tensorflow() -> None:
    queue = tf.FIFOQueue(10, [tf.float32, tf.int32], [[], [2]], names=["a", "b"], name="q")
    assert queue.enqueue({"a": 1.0, "b": [1, 2]}).name == "q_enqueue"
    assert queue.enqueue_many({"a": [1.0], "b": [[1, 2]]}).name == "q_EnqueueMany"
    taken = queue.dequeue_many(3)
    assert [(t.name, t.shape.as_list()) for t in taken.values()] == [
        ("q_DequeueMany:0", [3]),
        ("q_DequeueMany:1", [3, 2]),
    ]
    assert queue.dequeue_up_to(3)["b"].shape.as_list() == [None, 2]
    assert queue.size().name == "q_Size:0"
    assert queue.close().name == "q_Close"
    assert queue.is_closed().name == "q_Is_Closed:0"
    assert (queue.name, queue.names, queue.dtypes) == ("q", ["a", "b"], [tf.float32, tf.int32])
    with tf.name_scope("outer"):
        inner = fifo()
        assert inner.name == "outer/fifo_queue"
        assert inner.enqueue(1.0).name == "outer/fifo_queue_enqueue"


def test_a_full_queue_makes_enqueues_wait_and_an_empty_one_dequeues() -> None:
    queue = fifo(2)
    with tf.Session() as session:
        session.run(queue.enqueue_many([[1.0, 2.0]]))
        waiting = InThread(session.run, queue.enqueue(3.0))
        assert waiting.is_waiting()
        assert session.run(queue.dequeue()) == 1.0
        waiting.result()
        assert session.run(queue.dequeue_many(2)).tolist() == [2.0, 3.0]
        taker = InThread(session.run, queue.dequeue())
        assert taker.is_waiting()
        session.run(queue.enqueue(4.0))
        assert taker.result() == 4.0


def test_a_large_batch_passes_through_a_small_queue() -> None:
    queue = fifo(2)
    with tf.Session() as session:
        giver = InThread(session.run, queue.enqueue_many([np.arange(20, dtype=np.float32)]))
        assert giver.is_waiting()
        assert session.run(queue.size()) == 2
        assert session.run(queue.dequeue_many(15)).tolist() == list(range(15))
        assert giver.is_waiting()
        assert session.run(queue.dequeue_many(5)).tolist() == list(range(15, 20))
        giver.result()


def test_waiting_dequeues_are_served_in_order_and_take_piece_by_piece() -> None:
    queue = fifo(10)
    with tf.Session() as session:
        many = InThread(session.run, queue.dequeue_many(3))
        assert many.is_waiting()
        one = InThread(session.run, queue.dequeue())
        assert one.is_waiting()
        session.run(queue.enqueue_many([[1.0, 2.0]]))
        # The first in line has taken both, and the second stays behind it.
        assert session.run(queue.size()) == 0
        assert one.is_waiting()
        session.run(queue.enqueue_many([[3.0, 4.0]]))
        assert many.result().tolist() == [1.0, 2.0, 3.0]
        assert one.result() == 4.0


def test_a_closed_queue_gives_what_it_has() -> None:
    queue = fifo(name="closing")
    with tf.Session() as session:
        session.run(queue.enqueue_many([[1.0, 2.0, 3.0]]))
        assert not session.run(queue.is_closed())
        session.run(queue.close())
        assert session.run(queue.is_closed())
        with pytest.raises(tf.errors.CancelledError, match="FIFOQueue 'closing' is closed"):
            session.run(queue.enqueue(4.0))
        with pytest.raises(tf.errors.CancelledError, match="already closed"):
            session.run(queue.close())
        with pytest.raises(
            tf.errors.OutOfRangeError,
            match=r"FIFOQueue 'closing' is closed and has insufficient elements \(requested 4, current size 3\)",
        ):
            session.run(queue.dequeue_many(4))
        # The elements of the incomplete batch are back in the queue.
        assert session.run(queue.size()) == 3
        assert session.run(queue.dequeue()) == 1.0
        assert session.run(queue.dequeue_up_to(5)).tolist() == [2.0, 3.0]
        for take in (queue.dequeue(), queue.dequeue_many(2), queue.dequeue_up_to(2)):
            with pytest.raises(tf.errors.OutOfRangeError, match="insufficient"):
                session.run(take)
        assert session.run(queue.dequeue_many(0)).shape == (0,)
        session.run(queue.close(cancel_pending_enqueues=True))


def test_closing_ends_a_waiting_dequeue_and_restores_its_elements() -> None:
    queue = fifo()
    with tf.Session() as session:
        session.run(queue.enqueue_many([[1.0, 2.0]]))
        many = InThread(session.run, queue.dequeue_many(5))
        assert many.is_waiting()
        assert session.run(queue.size()) == 0
        session.run(queue.close())
        with pytest.raises(tf.errors.OutOfRangeError, match="requested 3, current size 0"):
            many.result()
        assert session.run(queue.dequeue_many(2)).tolist() == [1.0, 2.0]


def test_closing_lets_a_waiting_dequeue_up_to_have_fewer() -> None:
    queue = fifo()
    with tf.Session() as session:
        some = InThread(session.run, queue.dequeue_up_to(5))
        session.run(queue.enqueue_many([[1.0, 2.0]]))
        assert some.is_waiting()
        session.run(queue.close())
        assert some.result().tolist() == [1.0, 2.0]


def test_closing_waits_for_enqueues_before_it() -> None:
    queue = fifo(1)
    with tf.Session() as session:
        session.run(queue.enqueue(1.0))
        giver = InThread(session.run, queue.enqueue(2.0))
        assert giver.is_waiting()
        closing = InThread(session.run, queue.close())
        assert closing.is_waiting()
        late = InThread(session.run, queue.enqueue(3.0))
        assert late.is_waiting()
        assert not session.run(queue.is_closed())
        assert session.run(queue.dequeue()) == 1.0
        giver.result()
        closing.result()
        with pytest.raises(tf.errors.CancelledError, match="is closed"):
            late.result()
        assert session.run(queue.dequeue()) == 2.0


def test_closing_with_cancellation_ends_waiting_enqueues() -> None:
    queue = fifo(4)
    with tf.Session() as session:
        giver = InThread(session.run, queue.enqueue_many([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]))
        assert giver.is_waiting()
        other = InThread(session.run, queue.enqueue(7.0))
        assert other.is_waiting()
        session.run(queue.close(cancel_pending_enqueues=True))
        for waiting in (giver, other):
            with pytest.raises(tf.errors.CancelledError, match="Enqueue operation was cancelled"):
                waiting.result()
        # The admitted elements stay.
        assert session.run(queue.dequeue_up_to(10)).tolist() == [1.0, 2.0, 3.0, 4.0]


def test_a_step_that_times_out_leaves_no_trace() -> None:
    queue = fifo(3)
    with tf.Session() as session:
        session.run(queue.enqueue_many([[1.0, 2.0]]))
        assert_waits(session, queue.dequeue_many(3))
        assert session.run(queue.size()) == 2
        session.run(queue.enqueue(3.0))
        assert_waits(session, queue.enqueue(4.0))
        # The withdrawn enqueue is not served later.
        assert session.run(queue.dequeue_many(3)).tolist() == [1.0, 2.0, 3.0]
        assert session.run(queue.size()) == 0


def test_an_error_elsewhere_in_the_step_ends_a_waiting_dequeue() -> None:
    queue = fifo()
    wrong = tf.Assert(tf.constant(1.0) < tf.random_uniform([], 0, 0.5), ["no"])
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="no"):
            session.run([queue.dequeue(), wrong])
        session.run(queue.enqueue(1.0))
        assert session.run(queue.dequeue()) == 1.0


def test_closing_the_session_ends_waiting_steps() -> None:
    queue = fifo(1)
    session = tf.Session()
    session.run(queue.enqueue(1.0))
    waiting = [InThread(session.run, f) for f in (queue.enqueue(2.0), queue.dequeue_many(5))]
    assert waiting[0].is_waiting() or waiting[1].is_waiting()
    session.close()
    for each in waiting:
        try:
            each.result()
        except (tf.errors.CancelledError, RuntimeError) as e:
            assert "clos" in str(e)


def test_ten_thousand_waiting_operations_hold_no_threads() -> None:
    empty, full = fifo(), fifo(1)
    operations = [empty.dequeue().op for _ in range(5000)] + [full.enqueue(1.0) for _ in range(5000)]

    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    with tf.Session() as session:
        session.run(full.enqueue(1.0))
        assert_waits(session, empty.dequeue())  # The timer's thread has started.
        before = threads()
        step = InThread(session.run, operations)
        assert step.is_waiting(0.3)
        assert threads() <= before + 1
        session.run(empty.enqueue_many([np.zeros(10, np.float32)]))
        assert step.is_waiting()
        session.close()
        with pytest.raises(tf.errors.CancelledError):
            step.result()


def test_a_queue_can_be_shared_by_name_and_must_then_agree() -> None:
    first = tf.FIFOQueue(2, tf.int32, shared_name="shared")
    second = tf.FIFOQueue(2, tf.int32, shared_name="shared")
    with tf.Session() as session:
        session.run(first.enqueue(7))
        assert session.run(second.dequeue()) == 7
        for other, match in (
            (tf.FIFOQueue(3, tf.int32, shared_name="shared"), "has capacity 2 but requested capacity was 3"),
            (tf.FIFOQueue(2, tf.float32, shared_name="shared"), "component types .*int32.*float32"),
            (tf.FIFOQueue(2, tf.int32, [[]], shared_name="shared"), "component shapes"),
            (tf.RandomShuffleQueue(2, 0, tf.int32, shared_name="shared"), "type 'FIFOQueue'.*'RandomShuffleQueue'"),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"Shared queue 'shared' has.*{match}|{match}"):
                session.run(other.size())


def test_sessions_share_a_queue_in_a_named_container() -> None:
    with tf.container("queues of a test"):
        queue = fifo()
    with tf.Session() as one, tf.Session() as two:
        one.run(queue.enqueue(5.0))
        assert two.run(queue.dequeue()) == 5.0
    tf.Session.reset("", ["queues of a test"])
    with tf.Session() as session:
        assert session.run(queue.size()) == 0


def test_a_queue_can_be_chosen_in_the_step() -> None:
    queues = [fifo(), fifo()]
    which = tf.placeholder(tf.int32, [])
    chosen = tf.QueueBase.from_list(which, queues)
    assert chosen.dtypes == [tf.float32]
    assert chosen.shapes[0].as_list() == []
    with tf.Session() as session:
        session.run(chosen.enqueue(1.0), {which: 1})
        assert session.run([q.size() for q in queues]) == [0, 1]
    with pytest.raises(TypeError, match="dtypes"):
        tf.QueueBase.from_list(which, [fifo(), tf.FIFOQueue(1, tf.int32)])
    with pytest.raises(TypeError, match="list of queues"):
        tf.QueueBase.from_list(which, [])


def test_fed_arrays_are_copied() -> None:
    queue = tf.FIFOQueue(10, tf.float32)
    value = np.zeros(100_000, np.float32)
    x = tf.placeholder(tf.float32)
    enqueue = queue.enqueue(x)
    with tf.Session() as session:
        session.run(enqueue, {x: value})
        value[:] = 1
        assert session.run(queue.dequeue()).sum() == 0


def test_a_queue_inside_of_a_loop() -> None:
    queue = tf.FIFOQueue(10, tf.int32, shapes=[[]])

    def body(i: Any, total: Any) -> Any:
        with tf.control_dependencies([queue.enqueue(i)]):
            return i + 1, total + queue.dequeue()

    _, total = tf.while_loop(lambda i, _: i < 1000, body, [0, 0], parallel_iterations=1)
    with tf.Session() as session:
        assert session.run(total) == sum(range(1000))
        assert session.run(queue.size()) == 0


def test_old_graphs_with_references_run() -> None:
    def attr(node: Any, name: str, **value: Any) -> None:
        node.attr[name].CopyFrom(tf.AttrValue(**value))

    graph_def = tf.GraphDef()
    queue = graph_def.node.add(name="q", op="FIFOQueue")
    attr(queue, "component_types", list=tf.AttrValue.ListValue(type=[tf.float32.as_datatype_enum]))
    attr(queue, "capacity", i=5)
    x = graph_def.node.add(name="x", op="Placeholder")
    attr(x, "dtype", type=tf.float32.as_datatype_enum)
    enqueue = graph_def.node.add(name="enqueue", op="QueueEnqueue", input=["q", "x"])
    attr(enqueue, "Tcomponents", list=tf.AttrValue.ListValue(type=[tf.float32.as_datatype_enum]))
    dequeue = graph_def.node.add(name="dequeue", op="QueueDequeue", input=["q"])
    attr(dequeue, "component_types", list=tf.AttrValue.ListValue(type=[tf.float32.as_datatype_enum]))
    graph_def.node.add(name="size", op="QueueSize", input=["q"])
    tf.import_graph_def(graph_def, name="")
    with tf.Session() as session:
        session.run("enqueue", {"x:0": 2.0})
        assert session.run("size:0") == 1
        assert session.run("dequeue:0") == 2.0


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: tf.FIFOQueue(1, []), "component_types"),
        (lambda: tf.FIFOQueue(1, [tf.int32], shapes=[[], []]), "same length as dtypes"),
        (lambda: tf.FIFOQueue(1, [tf.int32], shapes=[[None]]), "fully defined"),
        (lambda: tf.FIFOQueue(1, [tf.int32], names=["a", "b"]), "names"),
        (lambda: tf.PaddingFIFOQueue(1, [tf.int32], [tf.TensorShape(None)]), "defined rank"),
        (lambda: fifo().enqueue([[1.0]]), "incompatible"),
        (lambda: fifo().enqueue([1.0, 2.0]), "1 components, got 2"),
        (lambda: fifo().enqueue({"a": 1.0}), "must have names"),
        (lambda: fifo().enqueue_many(1.0), "rank at least 1"),
        (lambda: tf.FIFOQueue(1, [tf.int32, tf.int32]).enqueue_many([[1, 2], [3]]), "incompatible"),
        (lambda: fifo().dequeue_many([2]), "rank 0"),
        (lambda: fifo().dequeue_many(-1), "must be >= 0"),
        (lambda: tf.FIFOQueue(1, tf.int32, names=["a"]).enqueue(1), "must enqueue a dictionary"),
        (lambda: tf.FIFOQueue(1, tf.int32, names=["a"]).enqueue({"b": 1}), "do not match names"),
    ],
)
def test_bad_arguments_are_refused_when_the_graph_is_built(make: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        make()


def test_bad_values_that_only_a_step_can_see_are_refused_there() -> None:
    x, n = tf.placeholder(tf.float32), tf.placeholder(tf.int32)
    queue, unknown = tf.FIFOQueue(3, tf.float32, shapes=[[2]]), tf.FIFOQueue(3, [tf.float32, tf.float32])
    bad = [
        (queue.enqueue(x), {x: [1.0]}, r"component 0. Expected \[2\], got \[1\]"),
        (queue.enqueue_many([x]), {x: [[1.0]]}, r"Expected \[1,2\], got \[1,1\]"),
        (queue.enqueue_many([x]), {x: 1.0}, "scalar"),
        (unknown.enqueue_many([x, x[1:]]), {x: [1.0, 2.0]}, "Component 1 has 1, and should have 2"),
        (unknown.dequeue_many(1), {}, "require the components to have specified shapes"),
        (queue.dequeue_many(n), {n: -1}, "requested -1 < 0"),
        (queue.dequeue_many(n), {n: [1]}, "scalar"),
        (tf.RandomShuffleQueue(2, 5, tf.int32).size(), {}, "min_after_dequeue 5 must be < capacity 2"),
        (tf.RandomShuffleQueue(2, -5, tf.int32).size(), {}, "min_after_dequeue -5 must be >= 0"),
        (tf.raw_ops.QueueDequeueV2(handle=queue.queue_ref, component_types=[tf.int32]), {}, "Signature mismatch"),
        (tf.raw_ops.QueueEnqueueV2(handle=queue.queue_ref, components=[1]), {}, "Signature mismatch"),
        (tf.raw_ops.PaddingFIFOQueueV2(component_types=[tf.int32], shapes=[]), {}, "Shapes must be provided"),
        (tf.raw_ops.FIFOQueueV2(component_types=[tf.int32], shapes=[[], []]), {}, "as many shapes"),
        (tf.raw_ops.QueueDequeueV2(handle=queue.queue_ref, component_types=[tf.float32], timeout_ms=5), {}, "Timeout"),
    ]
    with tf.Session() as session:
        for fetches, feeds, match in bad:
            with pytest.raises(tf.errors.InvalidArgumentError, match=match):
                session.run(fetches, feeds)
        variable = tf.get_variable("v", initializer=1.0)
        wrong = tf.raw_ops.QueueSizeV2(handle=variable.handle)
        with pytest.raises(tf.errors.InvalidArgumentError, match="refers to"):
            session.run(wrong)
        # A huge request costs nothing while it waits, and a negative capacity means none.
        assert_waits(session, queue.dequeue_many(2**31 - 1))
        assert session.run(tf.FIFOQueue(-5, tf.int32).size()) == 0
        assert_waits(session, tf.FIFOQueue(0, tf.int32).enqueue(1))
