"""What eager programs do wrong: each a clear error, and never a crash or a deadlock."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf

SOURCE = Path(tf.__file__).parents[1]  # Under a sanitizer, the package with the instrumented module.


def run(program: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_WAIT_POLICY": "passive"}
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=300, check=False
    )


def test_the_mode_is_chosen_at_the_start_of_a_program_and_holds_in_all_threads() -> None:
    done = run("""
import threading
import thalweg as tf
tf.enable_eager_execution()
found = []
thread = threading.Thread(target=lambda: found.append((tf.constant(1.0) + 2.0).numpy()))
thread.start(); thread.join()
assert tf.executing_eagerly() and found == [3.0]
with tf.Graph().as_default():
    assert not tf.executing_eagerly()
try:
    tf.enable_eager_execution(config=tf.ConfigProto())
except ValueError as error:
    print(error)
""")
    assert done.returncode == 0, done.stderr
    assert "before the first op runs" in done.stdout


def test_a_program_that_has_begun_a_graph_cannot_change_its_mind() -> None:
    done = run("import thalweg as tf\ntf.constant(1.0)\ntf.enable_eager_execution()")
    assert "must be called at program startup" in done.stderr


def test_several_cpu_devices() -> None:
    done = run("""
import thalweg as tf
tf.enable_eager_execution(tf.ConfigProto(device_count={"CPU": 2}))
print(len(tf.contrib.eager.list_devices()), tf.contrib.eager.num_gpus())
with tf.device("/cpu:1"):
    v = tf.Variable(1.0)
    print((v + 1.0).numpy())
""")
    assert done.stdout.split() == ["2", "0", "2.0"], done.stderr


def test_a_forked_process_can_run_ops() -> None:
    done = run("""
import os
import thalweg as tf
tf.enable_eager_execution()
x = tf.ones([4]) + 1.0
child = os.fork()
if child == 0:
    os._exit(0 if (x + x).numpy().tolist() == [4.0] * 4 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""")
    assert done.stdout.split() == ["0"], done.stderr


def test_ctrl_c_ends_a_wait() -> None:
    done = run("""
import signal, threading, os, time
import thalweg as tf
tf.enable_eager_execution()
signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell's background jobs ignore it.
queue = tf.FIFOQueue(1, tf.float32)
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    queue.dequeue()
except KeyboardInterrupt:
    print("interrupted")
""")
    assert done.stdout.split() == ["interrupted"], done.stderr


def test_modes_and_policies_that_do_not_exist() -> None:
    with pytest.raises(ValueError, match="device_policy"):
        tf.enable_eager_execution(device_policy="fast")
    with pytest.raises(ValueError, match="execution_mode"):
        tf.contrib.eager.set_execution_mode("later")
    with pytest.raises(TypeError, match="ConfigProto"):
        tf.enable_eager_execution(config={"CPU": 1})


def test_values_are_not_there_while_a_function_is_traced() -> None:
    v = tf.Variable(1.0)
    with pytest.raises(AttributeError, match=r"'x:0' has no `numpy\(\)`.*while that is traced"):
        tf.function(lambda x: x.numpy())(tf.constant(1.0))
    with pytest.raises(NotImplementedError, match="in a function that is traced"):
        tf.function(lambda: v.numpy())()
    assert not hasattr(tf.Graph().create_op("NoOp", [], []), "numpy")


def test_whole_numbers_have_no_gradient() -> None:
    v, x = tf.Variable(2), tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        whole = v * v
        through = tf.cast(tf.cast(x, tf.int32), tf.float32)
    assert tape.gradient(whole, v) is None  # And a warning, as in TensorFlow.
    assert tape.gradient(through, x) is None


def test_a_tape_is_used_once() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = x * x
    tape.gradient(y, x)
    with pytest.raises(RuntimeError, match="persistent=True"):
        tape.gradient(y, x)


def test_threads_share_a_variable() -> None:
    v = tf.Variable(tf.zeros([100]))

    def add() -> None:
        with tf.eager():
            for _ in range(50):
                v.assign_add(tf.ones([100]))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert v.numpy().tolist() == [200.0] * 100


def test_a_tape_sees_only_its_own_thread() -> None:
    x = tf.constant(3.0)
    found: list[Any] = []
    with tf.GradientTape() as tape:
        tape.watch(x)

        def other() -> None:
            with tf.eager():
                found.append(x * x)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        y = x * 2.0
    assert tape.gradient([*found, y], x).numpy() == 2.0


def test_tapes_are_not_entered_twice() -> None:
    with tf.GradientTape() as tape, pytest.raises(ValueError, match="already recording"):
        tape.__enter__()
    with tf.GradientTape() as tape, pytest.raises(ValueError, match=r"not tf\.Tensor"):
        tape.watch("text")
    with pytest.raises(TypeError, match="source of a gradient"):
        tape.gradient(tf.constant(1.0), 5)


def test_handles_have_no_values() -> None:
    v = tf.Variable(1.0)
    with pytest.raises(TypeError, match="resource"):
        v.handle.numpy()
    assert "unprintable" in str(v.handle)


def test_arrays_that_no_tensor_can_hold() -> None:
    for value in (object(), [[1.0], [1.0, 2.0]], None, {"a": 1}):
        with pytest.raises((TypeError, ValueError)):
            tf.constant(value)
    with pytest.raises(TypeError, match="__dlpack__"):
        tf.from_dlpack([1.0])


def test_an_argument_that_changes_later_does_not_change_the_tensor() -> None:
    values = np.ones(5000, np.float32)
    x = tf.constant(values)
    y = x * 2.0
    values[:] = 7.0
    assert x.numpy().sum() == 5000.0
    assert y.numpy().sum() == 10_000.0


def test_sessions_refuse_eager_values() -> None:
    x, v = tf.constant(1.0), tf.Variable(1.0)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.constant(1.0)
        for value in (x, v):
            with pytest.raises((TypeError, ValueError)):
                session.run(value)


def test_what_is_iterated_over_does_not_change() -> None:
    v = tf.Variable([1.0, 2.0, 3.0])
    seen = []
    for x in v.read_value():
        v.assign_add([10.0, 10.0, 10.0])
        seen.append(float(x))
    assert seen == [1.0, 2.0, 3.0]
    array = v.numpy()
    v.assign(tf.zeros([3]))
    assert array.tolist() == [31.0, 32.0, 33.0]
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 5.0


def test_a_tape_that_several_threads_use_at_once() -> None:
    x = tf.constant(3.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x * x
    found: list[float] = []

    def differentiate() -> None:
        with tf.eager():
            for _ in range(20):
                found.append(float(tape.gradient(y, x)))

    threads = [threading.Thread(target=differentiate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [27.0] * 80


def test_threads_call_a_function_that_is_not_traced_yet() -> None:
    v = tf.Variable(0.0)
    function = tf.function(lambda x: v.assign_add(x))
    errors: list[BaseException] = []

    def call(size: int) -> None:
        try:
            with tf.eager():
                for _ in range(10):
                    function(tf.constant(1.0))
                    tf.function(lambda x: x * float(size))(tf.ones([size]))
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=call, args=(size,)) for size in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert not errors
    assert v.numpy() == 40.0
