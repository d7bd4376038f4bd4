"""A program that ends while daemon threads are inside of steps ends cleanly."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import threading
import thalweg as tf

number = tf.train.range_input_producer(100).dequeue()
batch = tf.train.shuffle_batch([number], 2, 20, 10, num_threads=4)
python = tf.train.batch([tf.py_func(lambda x: x, [number], tf.int32)], 2, num_threads=2, shapes=[[]])
empty = tf.FIFOQueue(1, tf.int32).dequeue()
session = tf.Session()
tf.train.start_queue_runners(session{arguments})
threading.Thread(target=lambda: session.run(empty), daemon=True).start()
print(len(session.run(batch)), len(session.run(python)))
"""


@pytest.mark.parametrize("arguments", ["", ", tf.train.Coordinator()"])
def test_daemon_threads_inside_of_steps_do_no_harm(arguments: str) -> None:
    program = PROGRAM.format(arguments=arguments)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout.strip(), done.stderr.strip()) == (0, "2 2", "")
