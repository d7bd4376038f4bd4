"""A process in which threads run, time out, close, grow, reset and fork at random; it fails if a value is wrong.

    python -m tests.fuzz.chaos SEED SECONDS

The seed decides what each thread does, not how the threads interleave. A thread that is stuck ends the process with the
stacks of all threads. Prints how often each action ended well and how often with which error, as JSON.
"""

from __future__ import annotations

import collections
import faulthandler
import json
import os
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import thalweg as tf

THREADS = 6
STUCK_SECONDS = 60.0
# What a step may end with while others close, reset and time out.
ENDS = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.NotFoundError,
    tf.errors.OutOfRangeError,
)


class World:
    """One graph, and the session that all threads use until one of them closes it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.x = tf.placeholder(tf.float32, [None, None])
            self.product = tf.reduce_sum(tf.matmul(self.x, self.x))
            self.n = tf.placeholder(tf.int32, [])
            self.loop = tf.while_loop(lambda i, s: i < self.n, lambda i, s: (i + 1, s + i), (0, 0))[1]
            self.choice = tf.cond(self.n > 5, lambda: tf.py_func(np.square, [self.n], tf.int32), lambda: tf.constant(0))
            self.count = tf.get_variable("count", initializer=np.int64(0), dtype=tf.int64)
            self.add = self.count.assign_add(1)
            with tf.container("shared"):
                shared = tf.get_variable("shared", initializer=np.int64(0), dtype=tf.int64)
            self.shared_initializer, self.add_shared = shared.initializer, shared.assign_add(1)
            self.queue = tf.FIFOQueue(3, tf.int32, shapes=[()])
            self.put, self.get = self.queue.enqueue(self.n), self.queue.dequeue()
            numbers = tf.data.Dataset.range(10**9).map(lambda i: i * 2, num_parallel_calls=2).prefetch(4)
            self.iterator = numbers.make_initializable_iterator()
            self.element = self.iterator.get_next()
            self.init = tf.group(tf.global_variables_initializer(), self.iterator.initializer)
        self.made = 0
        self.session = self.new_session()

    def new_session(self) -> tf.Session:
        session = tf.Session(graph=self.graph)
        session.run(self.init)
        return session


def run_product(world: World, rng: random.Random) -> None:
    size = rng.choice([1, 3, 64, 200])
    found = world.session.run(world.product, {world.x: np.ones((size, size), np.float32)})
    assert found == float(size) ** 3, (found, size)


def run_loop(world: World, rng: random.Random) -> None:
    n = rng.randrange(300)
    assert world.session.run(world.loop, {world.n: n}) == n * (n - 1) // 2


def run_python(world: World, rng: random.Random) -> None:
    n = rng.randrange(12)
    assert world.session.run(world.choice, {world.n: n}) == (n * n if n > 5 else 0)


def run_state(world: World, rng: random.Random) -> None:
    session = world.session
    before = session.run(world.add)
    assert session.run(world.count) >= before >= 1


def run_data(world: World, rng: random.Random) -> None:
    found = int(world.session.run(world.element))
    assert found % 2 == 0 and 0 <= found < 2 * 10**9, found


def pass_through_queue(world: World, rng: random.Random) -> None:
    options = tf.RunOptions(timeout_in_ms=rng.choice([1, 20, 200]))
    if rng.random() < 0.5:
        world.session.run(world.put, {world.n: 7}, options=options)
    else:
        assert world.session.run(world.get, options=options) == 7


def time_out(world: World, rng: random.Random) -> None:
    n = 10**9
    try:
        world.session.run(world.loop, {world.n: n}, options=tf.RunOptions(timeout_in_ms=rng.choice([1, 5, 50])))
    except tf.errors.DeadlineExceededError:
        return
    raise AssertionError(f"a loop of {n} iterations ended in time")


def grow(world: World, rng: random.Random) -> None:
    with world.lock:
        world.made += 1
        with world.graph.as_default():
            more = world.x * float(world.made)
    found = world.session.run(more, {world.x: np.ones((2, 2), np.float32)})
    assert (found == found[0, 0]).all() and found[0, 0] >= 1


def close(world: World, rng: random.Random) -> None:
    old = world.session
    world.session = world.new_session()
    old.close()


def start_over(world: World, rng: random.Random) -> None:
    world.session.run(world.iterator.initializer)


def reset(world: World, rng: random.Random) -> None:
    if rng.random() < 0.2:
        tf.Session.reset(containers=["shared"])
    session = world.session
    if rng.random() < 0.5:
        session.run(world.shared_initializer)
    # Another thread may initialize the variable between the addition and the read.
    assert session.run(world.add_shared) >= 0


def fork(world: World, rng: random.Random) -> None:
    pid = os.fork()
    if pid == 0:
        code = 3
        try:
            faulthandler.dump_traceback_later(STUCK_SECONDS / 2, exit=True)
            run_loop(world, rng)
            code = 0
        except ENDS:
            code = 0  # The parent was running steps: the child is told so.
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == 0, f"a forked child ended with {code}"


ACTIONS: dict[Callable[[World, random.Random], None], float] = {
    run_product: 4, run_loop: 4, run_python: 4, run_state: 4, run_data: 4, pass_through_queue: 4, time_out: 1, grow: 1,
    close: 0.3, start_over: 0.5, reset: 2, fork: 0.3,
}  # fmt: skip


class Watch:
    """When each thread began its present action."""

    def __init__(self) -> None:
        self.begun: dict[int, tuple[str, float]] = {}

    def check(self) -> None:
        for number, (name, begun) in list(self.begun.items()):
            if time.monotonic() - begun > STUCK_SECONDS:
                print(f"thread {number} is stuck in {name}", file=sys.stderr)
                faulthandler.dump_traceback(all_threads=True)
                os._exit(4)


def work(world: World, number: int, seed: int, deadline: float, watch: Watch, outcomes: collections.Counter[str],
         failures: list[BaseException]) -> None:  # fmt: skip
    """One thread: random actions until the deadline."""
    rng = random.Random(f"{seed} {number}")
    while time.monotonic() < deadline and not failures:
        action = rng.choices(list(ACTIONS), list(ACTIONS.values()))[0]
        watch.begun[number] = (action.__name__, time.monotonic())
        try:
            action(world, rng)
            outcomes[action.__name__] += 1
        except ENDS as error:
            outcomes[f"{action.__name__}: {type(error).__name__}"] += 1
        except RuntimeError as error:
            if "closed Session" not in str(error):
                failures.append(error)
            outcomes[f"{action.__name__}: closed"] += 1
        except BaseException as error:
            failures.append(error)
    watch.begun.pop(number, None)


def main(seed: int, seconds: float) -> None:
    """Runs all threads; raises the first failure."""
    warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
    world, watch = World(), Watch()
    outcomes: collections.Counter[str] = collections.Counter()
    failures: list[BaseException] = []
    deadline = time.monotonic() + seconds
    arguments: list[Any] = [seed, deadline, watch, outcomes, failures]
    threads = [threading.Thread(target=work, args=(world, i, *arguments), daemon=True) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        watch.check()
        time.sleep(0.1)
    if failures:
        raise failures[0]
    world.session.close()
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
