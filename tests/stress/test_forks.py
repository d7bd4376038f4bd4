"""Processes that fork: the child runs steps, or is told why it cannot; it never waits for ever."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, sys, threading, time
import numpy as np
import thalweg as tf

x = tf.placeholder(tf.float32, [None, None])
y = tf.reduce_sum(tf.matmul(x, x))
queue = tf.FIFOQueue(100, tf.float32)
both = [y, queue.enqueue(1.0), queue.dequeue()]
element = tf.data.make_one_shot_iterator(
    tf.data.Dataset.range(10**9).map(lambda n: n + 1, num_parallel_calls=2).prefetch(2)
).get_next()
a = np.ones((300, 300), np.float32)
session = tf.Session()
session.run([both, element], {x: a})

def loop():
    while True:
        session.run(both, {x: a})

for _ in range(int(sys.argv[1])):
    threading.Thread(target=loop, daemon=True).start()
outcomes = set()
for i in range(int(sys.argv[2])):
    time.sleep(0.01)
    child = os.fork()
    if child == 0:
        import faulthandler
        faulthandler.dump_traceback_later(60, exit=True)
        try:
            for s in (session, tf.Session()):
                s.run(both if s is session else y, {x: a})
            os._exit(0)
        except tf.errors.FailedPreconditionError as e:
            os._exit(3 if "forked" in e.message else 4)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(5)
    outcomes.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(sorted(outcomes))
"""


def outcomes(threads: int, forks: int) -> set[int]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(threads), str(forks)], capture_output=True, text=True, timeout=250
    )
    assert (done.returncode, done.stderr) == (0, "")
    return set(eval(done.stdout))


def test_a_child_runs_steps_if_none_ran_in_its_parent() -> None:
    assert outcomes(0, 5) == {0}


@pytest.mark.parametrize("threads", [1, 3])
def test_a_child_of_a_process_that_runs_steps_is_refused_or_runs(threads: int) -> None:
    assert outcomes(threads, 15) <= {0, 3}
