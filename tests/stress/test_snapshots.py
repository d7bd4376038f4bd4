"""Many threads update and read the same variables at once: no read is half-written, and no update is lost.

Also meant for the thread-sanitizer build (make tsan), where any unguarded access to a buffer is reported.
"""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import thalweg as tf

# Large enough that an update is split over several OpenMP threads and takes longer than a switch of threads.
ELEMENTS = 300_000
SECONDS = 1.5


def in_threads(bodies):
    """Runs each function in a thread of its own, and re-raises the first exception."""
    failures = []

    def guarded(body):
        try:
            body()
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=guarded, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def test_reads_are_uniform_and_no_update_is_lost():
    v = tf.Variable(np.zeros(ELEMENTS, np.float32))
    add = v.assign_add(np.ones(ELEMENTS, np.float32), read_value=False)
    subtract = v.assign_sub(np.ones(ELEMENTS, np.float32) * 2, read_value=False)
    read = v.read_value()
    counts = {"add": 0, "subtract": 0, "read": 0}
    lock = threading.Lock()
    with tf.Session() as sess:
        sess.run(v.initializer)
        end = time.monotonic() + SECONDS

        def repeat(kind, fetch):
            def body():
                done = 0
                while time.monotonic() < end or done == 0:
                    value = sess.run(fetch)
                    done += 1
                    if value is not None:
                        assert value.min() == value.max(), "a read saw a half-written value"
                with lock:
                    counts[kind] += done

            return body

        in_threads([repeat("add", add)] * 3 + [repeat("subtract", subtract)] + [repeat("read", read)] * 3)
        final = sess.run(v)
    assert min(counts.values()) > 0
    np.testing.assert_array_equal(final, np.float32(counts["add"] - 2 * counts["subtract"]))


def test_a_held_snapshot_survives_updates():
    v = tf.Variable(np.zeros(ELEMENTS, np.float32))
    add = v.assign_add(np.ones(ELEMENTS, np.float32), read_value=False)
    with tf.Session() as sess:
        sess.run(v.initializer)
        snapshots = []
        for i in range(20):
            snapshots.append((i, sess.run(v)))
            sess.run(add)
        for i, value in snapshots:
            assert value.min() == value.max() == i


def test_scatter_totals_are_exact():
    rows, width, per_thread = 50, 40, 60
    v = tf.Variable(np.zeros((rows, width), np.int64))
    indices = tf.placeholder(tf.int32, [None])
    add = tf.scatter_add(v, indices, np.ones((16, width), np.int64)).op
    total = np.zeros(rows, np.int64)
    lock = threading.Lock()
    with tf.Session() as sess:
        sess.run(v.initializer)

        def writer(seed):
            def body():
                rng = np.random.default_rng(seed)
                mine = np.zeros(rows, np.int64)
                for _ in range(per_thread):
                    chosen = rng.integers(0, rows, 16)
                    np.add.at(mine, chosen, 1)
                    sess.run(add, {indices: chosen})
                with lock:
                    np.add(total, mine, out=total)

            return body

        def reader():
            for _ in range(per_thread):
                value = sess.run(v)
                assert (value == value[:, :1]).all(), "a read saw a half-written row"
                # Each scatter adds 16 rows at once.
                assert value[:, 0].sum() % 16 == 0, "a read saw a half-done scatter"

        in_threads([writer(seed) for seed in range(4)] + [reader, reader])
        final = sess.run(v)
    np.testing.assert_array_equal(final, np.repeat(total[:, None], width, axis=1))


def test_assignments_do_not_mix():
    v = tf.Variable(np.zeros(ELEMENTS, np.float32))
    x = tf.placeholder(tf.float32, [ELEMENTS])
    assign = v.assign(x, read_value=False)
    with tf.Session() as sess:
        sess.run(v.initializer)

        def writer(number):
            return lambda: [sess.run(assign, {x: np.full(ELEMENTS, number, np.float32)}) for _ in range(20)]

        def reader():
            for _ in range(40):
                value = sess.run(v)
                assert value.min() == value.max()

        in_threads([writer(1), writer(2), writer(3), reader, reader])


def test_counts_are_handed_out_once():
    limit, threads = 400, 6
    counter = tf.Variable(0)
    count = counter.count_up_to(limit)
    seen = []
    lock = threading.Lock()
    with tf.Session() as sess:
        sess.run(counter.initializer)

        def body():
            mine = []
            while True:
                try:
                    mine.append(int(sess.run(count)))
                except tf.errors.OutOfRangeError:
                    break
            with lock:
                seen.extend(mine)

        in_threads([body] * threads)
    assert sorted(seen) == list(range(limit))
