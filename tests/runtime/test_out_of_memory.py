"""A process that runs out of address space is told so by the step, and ends as it wishes."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource
import numpy as np
import thalweg as tf
x = tf.placeholder(tf.float32, [None])
step = {step}
with tf.Session() as session:
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (200 << 20),) * 2)
    try:
        while True:
            session.run(step, {{x: np.ones(4_000_000, np.float32)}})
    except tf.errors.ResourceExhaustedError:
        print("exhausted", flush=True)
print("ended", flush=True)
"""
STEPS = {
    "queue": "tf.FIFOQueue(100_000, tf.float32).enqueue(x)",
    "array": (
        "tf.while_loop(lambda i, a: i < 10**6, lambda i, a: (i + 1, a.write(i, x * tf.cast(i, tf.float32))),"
        " (0, tf.TensorArray(tf.float32, 0, dynamic_size=True)))[1].size()"
    ),
}


@pytest.mark.processes
@pytest.mark.parametrize("kind", STEPS)
def test_a_process_without_memory_left_ends_without_a_crash(kind: str) -> None:
    program = PROGRAM.format(step=STEPS[kind])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=100)
    assert (done.returncode, done.stdout.split()) == (0, ["exhausted", "ended"]), done.stderr
