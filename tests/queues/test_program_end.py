"""A program that ends while daemon threads are inside of steps ends cleanly, whatever they do there."""

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

# What four daemon threads do for ever while the program ends.
LOOPS = {
    # NumPy gives the interpreter's lock away while it converts.
    "converted_feeds": "session.run(y, {x: numpy.ones((200, 200))})",
    "feeds": "session.run(y, {x: numpy.ones((200, 200), numpy.float32)})",
    "lists": "session.run(y, {x: [[1.0] * 100] * 100})",
    "fetches": "session.run([y, y + 1.0, tiny], {x: numpy.ones((100, 100), numpy.float32)})",
    "strings": "session.run(words)",
    "py_func": "session.run(called)",
    "nested": "session.run(nested)",
    "generator": "session.run(generated)",
    "datasets": "session.run(mapped)",
    "records": "write_and_read()",
    "checkpoints": "save_and_read()",
    "compile": "session.run(x + numpy.random.rand(), {x: [[1.0]]})",
    "partial": "partial()",
    "hooks": "monitored.run(tiny)",
    "blocked": "session.run(blocked)",
}

LOOPING = """
import os, sys, tempfile, threading, time
import numpy
import thalweg as tf

x = tf.placeholder(tf.float32, [None, None])
y = x * 2.0 + 1.0
tiny = tf.constant(1.0)
words = tf.constant([b"word"] * 2000)
session = tf.Session()
called = tf.py_func(lambda: numpy.float32(sum(range(200))), [], tf.float32)
nested = tf.py_func(lambda: session.run(tiny), [], tf.float32)
blocked = tf.py_func(lambda: time.sleep(1000) or 1.0, [], tf.float64)

def numbers():
    while True:
        yield 1.0

def element(dataset):
    iterator = tf.data.make_one_shot_iterator(dataset)
    return iterator.get_next()

generated = element(tf.data.Dataset.from_generator(numbers, tf.float32).prefetch(4))
mapped = element(
    tf.data.Dataset.range(10**9).map(lambda n: tf.py_func(lambda m: m + 1, [n], tf.int64), num_parallel_calls=4)
)
folder = tempfile.mkdtemp()
v = tf.Variable(numpy.zeros(1000, numpy.float32))
saver = tf.train.Saver([v])
session.run(v.initializer)
monitored = tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(tiny)]) if "monitored" in LOOP else None
local = threading.local()

def write_and_read():
    path = os.path.join(folder, str(threading.get_ident()))
    with tf.python_io.TFRecordWriter(path) as writer:
        for _ in range(10):
            writer.write(bytes(100_000))
    for _ in tf.python_io.tf_record_iterator(path):
        pass

def save_and_read():
    path = saver.save(session, os.path.join(folder, str(threading.get_ident())), write_state=False)
    tf.train.NewCheckpointReader(path).get_tensor(v.op.name)

def partial():
    handle = session.partial_run_setup([y], [x])
    session.partial_run(handle, y, {x: numpy.ones((100, 100))})

def loop():
    while True:
        eval(CODE)

CODE = compile(LOOP, "loop", "eval")
for _ in range(4):
    threading.Thread(target=loop, daemon=True).start()
time.sleep(float(sys.argv[1]))
print("end")
"""

# The thread of `prefetch` computes without Python until the interpreter is gone, and then calls a Python function. What
# the C library does at the end of the process comes after that, so that the process still lives.
LATE = """
import ctypes
import thalweg as tf

def count(n):
    steps = tf.cast(n, tf.int32) * 1_000_000
    _, last = tf.while_loop(lambda i, x: i < steps, lambda i, x: (i + 1, x + 1.0), [0, 0.0])
    return tf.py_func(lambda x: x, [last], tf.float32)

element = tf.data.make_one_shot_iterator(tf.data.Dataset.range(2).map(count).prefetch(1)).get_next()
session = tf.Session()
libc = ctypes.CDLL(None)
libc.__cxa_atexit(libc.sleep, ctypes.c_void_p(3), ctypes.c_void_p(1))  # the thread sanitizer needs a library
print(session.run(element))
"""


def ended(program: str, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


@pytest.mark.parametrize("arguments", ["", ", tf.train.Coordinator()"])
def test_daemon_threads_inside_of_steps_do_no_harm(arguments: str) -> None:
    assert ended(PROGRAM.format(arguments=arguments)) == (0, "2 2", "")


@pytest.mark.parametrize("kind", LOOPS)
def test_daemon_threads_that_run_steps_for_ever_do_no_harm(kind: str) -> None:
    program = f"LOOP = {LOOPS[kind]!r}\n{LOOPING}"
    for seconds in ("0.05", "0.3"):
        assert ended(program, seconds) == (0, "end", "")


def test_a_native_thread_that_calls_python_after_the_end_of_the_interpreter_rests() -> None:
    assert ended(LATE) == (0, "0.0", "")
