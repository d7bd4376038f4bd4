"""A process that may start no more threads gets errors from its pipelines, and goes on when it may again."""

from __future__ import annotations

import subprocess
import sys

import pytest

# A thread's stack does not fit below the limit of the address space, however little there is to do.
PROGRAM = """
import resource
import thalweg as tf
tf.enable_eager_execution()
tf.ones([10]).numpy()
def numbers():
    return [int(n) for n in tf.data.Dataset.range(20).map(lambda n: n * 2, {calls}).batch(4).prefetch(2).unbatch()]
pages = int(open("/proc/self/statm").read().split()[0])
before = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**22, before[1]))
try:
    numbers()
except tf.errors.ResourceExhaustedError as e:
    print("refused", flush=True)
resource.setrlimit(resource.RLIMIT_AS, before)
assert numbers() == list(range(0, 40, 2))
"""


@pytest.mark.parametrize("calls", [1, 4])
def test_a_pipeline_without_threads_fails_and_recovers(calls: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(calls=calls)], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stdout, done.stderr[-2000:]) == (0, "refused\n", "")
