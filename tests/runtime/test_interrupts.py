"""Ctrl-C and timeouts reach a step wherever it is, and stay what they are."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import thalweg as tf

BEGIN = """
import signal, sys, time
import numpy as np
import thalweg as tf
# A test that was itself started in the background inherits that interrupts are ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
def called(*_):
    print("running", flush=True)
    time.sleep(100)
    return np.float32(1.0)
"""
END = """
try:
    while True:
        try:
            tf.Session().run(step)
        except tf.errors.OpError as e:
            print("retried", type(e).__name__, flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(7)
"""
STEPS = {
    "py_func": "step = tf.py_func(called, [], tf.float32)",
    "py_func_on_two_devices": (
        "with tf.device('/cpu:0'): first = tf.py_func(called, [], tf.float32)\nstep = first + 1.0"
    ),
    "function": "step = tf.map_fn(lambda x: tf.py_func(called, [x], tf.float32), tf.ones(2))",
    "dataset": (
        "d = tf.data.Dataset.range(3).map(lambda n: tf.py_func(called, [n], tf.float32))\n"
        "step = tf.data.make_one_shot_iterator(d).get_next()"
    ),
    # Its loop never comes to an element; Python is asked for the first one only.
    "empty_pipeline": (
        "def first(n):\n    print('running', flush=True)\n    return n\n"
        "d = tf.data.Dataset.range(1).map(lambda n: tf.py_func(first, [n], tf.int64))\n"
        "d = d.concatenate(tf.data.Dataset.range(10**12)).filter(lambda n: tf.less(n, -1))\n"
        "step = tf.data.make_one_shot_iterator(d).get_next()"
    ),
    "product": (
        "a = tf.ones([9000, 9000])\nwith tf.control_dependencies([tf.print('running')]): b = tf.identity(a)\n"
        "step = tf.reduce_sum(tf.matmul(b, tf.matmul(b, tf.matmul(b, b))))"
    ),
}


EAGER = """
tf.enable_eager_execution()
try:
    print("running", flush=True)
    {work}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(7)
"""
WORK = {
    "decomposition": "tf.svd(tf.random_uniform([4000, 4000]))",
    "empty_pipeline": "list(tf.data.Dataset.range(10**12).filter(lambda n: tf.less(n, -1)))",
}


@pytest.mark.parametrize("kind", STEPS)
def test_an_interrupt_is_no_error_of_the_step(kind: str) -> None:
    check_interrupt(BEGIN + STEPS[kind] + END)


@pytest.mark.parametrize("kind", WORK)
def test_an_interrupt_ends_what_runs_at_once(kind: str) -> None:
    check_interrupt(BEGIN + EAGER.format(work=WORK[kind]))


def check_interrupt(program: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "running"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, output.strip().splitlines()[-1:]) == (7, ["interrupted"])


def test_an_exit_inside_of_a_function_ends_the_program() -> None:
    def leave() -> np.float32:
        raise SystemExit(3)

    with tf.Session() as session, pytest.raises(SystemExit) as raised:
        session.run(tf.py_func(leave, [], tf.float32))
    assert raised.value.code == 3


def test_what_a_signal_handler_raises_leaves_the_step() -> None:
    class Alarm(Exception):
        pass

    def handler(*_: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with tf.Session() as session:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(Alarm):
                session.run(tf.FIFOQueue(1, tf.int32).dequeue())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("dtype", [tf.float32, tf.int64])
def test_a_timeout_ends_a_large_product(dtype: tf.DType) -> None:
    a = tf.placeholder(dtype, [None, None])
    power = a
    for _ in range(4):  # Many minutes of work, in few kernels: longer than a test may take.
        power = tf.matmul(power, a)
    with tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=300)) as session:
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(power[0, 0], {a: np.ones([9000, 9000], dtype.as_numpy_dtype)})


# That they end before they are done: tests/native/interrupted_factors.cc.
@pytest.mark.parametrize("op", [tf.matrix_inverse, lambda a: tf.matrix_solve(a, a)], ids=["inverse", "solve"])
def test_a_timeout_in_a_factorization_is_that_of_the_step(op: Callable[[Any], Any]) -> None:
    a = tf.placeholder(tf.float32, [None, None])
    with tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=300)) as session:
        with pytest.raises(tf.errors.DeadlineExceededError, match="300 ms"):
            session.run(op(a)[0, 0], {a: np.eye(5000, dtype=np.float32)})
        assert session.run(op(a)[0, 0], {a: np.eye(3, dtype=np.float32)}) == 1.0


@pytest.mark.parametrize(
    ("op", "shape"),
    [
        (lambda a: tf.svd(a)[0], [5000, 5000]),
        (lambda a: tf.self_adjoint_eig(a)[1], [6000, 6000]),
        (tf.linalg.expm, [4000, 4000]),
        (lambda a: tf.svd(a)[0], [2000, 200, 200]),
    ],
    ids=["svd", "eigh", "exponential", "batch"],
)
def test_a_timeout_ends_a_decomposition(op: Callable[[Any], Any], shape: list[int]) -> None:
    a = tf.random_uniform(shape)
    with tf.Session() as session, pytest.raises(tf.errors.DeadlineExceededError):
        session.run(op(a), options=tf.RunOptions(timeout_in_ms=300))  # Minutes, if it went on: longer than a test may.
