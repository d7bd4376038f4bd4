"""The first steps of a process, from several threads at once: calls into Python at first use do not deadlock."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import threading
import thalweg as tf

def first(barrier):
    with tf.Graph().as_default():
        x = tf.placeholder_with_default(tf.ones([8, 8]), [8, 8])
        y = tf.matmul(x, x)
        barrier.wait()
        with tf.Session() as sess:
            assert sess.run(y)[0, 0] == 8.0

barrier = threading.Barrier(6)
threads = [threading.Thread(target=first, args=(barrier,)) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("done")
"""


def test_the_first_steps_of_several_threads_do_not_wait_for_each_other() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "done\n"
