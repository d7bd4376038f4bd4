"""Steps that wait: what is said about them, and the list of steps that are under way."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import thalweg as tf
from thalweg.runtime import waiting


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    said: list[str] = []
    monkeypatch.setattr(waiting.logging, "warning", lambda text, *values: said.append(text % values))
    waiting._warned.clear()
    tf.debugging.warn_of_waiting_steps(0.1)
    yield said
    tf.debugging.warn_of_waiting_steps()


def _times_out(session: tf.Session, fetch: Any) -> None:
    with pytest.raises(tf.errors.DeadlineExceededError):
        session.run(fetch, options=tf.RunOptions(timeout_in_ms=1500))


def test_a_queue_whose_runner_was_not_started_is_named(warnings: list[str]) -> None:
    names = tf.train.string_input_producer(["a", "b"], name="producer")
    taken = names.dequeue(name="taken")
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        _times_out(session, taken)
        _times_out(session, taken)  # Once is enough.
    (text,) = warnings
    assert "taken (QueueDequeueV2), created at" in text
    assert "'producer' is filled by producer/producer_EnqueueMany" in text
    assert "start_queue_runners" in text


def test_a_queue_that_nobody_fills_or_only_the_program_is_named(warnings: list[str]) -> None:
    lonely = tf.FIFOQueue(1, tf.int32, shapes=[()], name="lonely")
    manual = tf.FIFOQueue(1, tf.int32, shapes=[()], name="manual")
    manual.enqueue(1, name="fill")
    with tf.Session() as session:
        _times_out(session, lonely.dequeue())
        _times_out(session, manual.dequeue())
    assert "Nothing in the graph fills 'lonely'." in warnings[0]
    assert "'manual' is filled by fill." in warnings[1]
    assert "no tf.train.QueueRunner" in warnings[1]


def test_a_step_that_computes_is_not_warned_of(warnings: list[str]) -> None:
    i = tf.while_loop(lambda i: i < 10**15, lambda i: i + 1, [tf.constant(0, tf.int64)])
    with tf.Session() as session:
        _times_out(session, i)
    assert warnings == []


def test_all_steps_that_are_under_way_are_listed() -> None:
    queue = tf.FIFOQueue(1, tf.int32, shapes=[()], name="queue")
    taken, fill = queue.dequeue(name="taken"), queue.enqueue(1)
    with tf.Session() as session:
        thread = threading.Thread(target=session.run, args=(taken,), name="consumer")
        thread.start()
        text = ""
        while "taken (QueueDequeueV2)" not in text:
            out = io.StringIO()
            tf.debugging.dump_steps(out)
            text = out.getvalue()
            time.sleep(0.02)
        session.run(fill)
        thread.join()
    assert "in thread consumer" in text
    assert "in run" in text  # Its stack.


def test_wrong_times_are_refused() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        tf.debugging.warn_of_waiting_steps(-1)


@pytest.mark.processes
def test_a_signal_dumps_the_steps() -> None:
    program = (
        "import thalweg as tf\n"
        "tf.debugging.dump_steps_on_signal()\n"
        "taken = tf.FIFOQueue(1, tf.int32, name='queue').dequeue(name='taken')\n"
        "with tf.Session() as session:\n"
        "    print('ready', flush=True)\n"
        "    session.run(taken)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        while True:
            process.send_signal(signal.SIGUSR1)
            line = process.stderr.readline()
            if "A step of" in line:
                break
            time.sleep(0.02)
        assert "in thread MainThread" in line
        assert "taken (QueueDequeue" in process.stderr.readline()
    finally:
        process.kill()
        process.communicate()
