"""Iterators that sessions of a cluster share by name, and that outlive the session that made them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import thalweg as tf
from tests.dist.processes import Processes

pytestmark = pytest.mark.processes

_RANGE = tf.data.Dataset.range

# Each has functions that run in the background, or keep state, while and after the session is closed.
DATASETS: dict[str, Callable[[Any, Any], Any]] = {
    "variable": lambda data, v: data.map(lambda x: x + v.read_value()),
    "parallel map": lambda data, v: data.map(lambda x: tf.cond(x > 3, lambda: x, lambda: -x), 2).prefetch(4),
    "interleave": lambda data, v: data.interleave(lambda x: _RANGE(3).map(lambda y: x + y), 3, num_parallel_calls=2),
    "scan": lambda data, v: data.apply(tf.data.experimental.scan(v.read_value(), lambda s, x: (s + x, s + x))),
    "filter": lambda data, v: data.filter(lambda x: tf.equal(x % 2, 0)).shuffle(10).batch(3),
}


class Client:
    """A session with a graph that has the iterator."""

    def __init__(self, target: str, kind: str) -> None:
        with tf.Graph().as_default() as graph, tf.device("/job:ps/task:0"):
            one = tf.get_variable("one", [], tf.int64, tf.ones_initializer(), use_resource=True)
            data = DATASETS[kind](tf.data.Dataset.range(1_000_000), one)
            iterator = tf.data.make_initializable_iterator(data, shared_name="shared")
            self.initialize = [one.initializer, iterator.initializer]
            self.next = iterator.get_next()
        self.session = tf.Session(target, graph=graph)


@pytest.mark.parametrize("kind", list(DATASETS))
def test_an_iterator_goes_on_when_the_session_that_made_it_is_closed(kind: str) -> None:
    with Processes(ps=1, worker=2) as processes:
        first, second = (Client(processes.target("worker", index), kind) for index in range(2))
        for operation in first.initialize:
            first.session.run(operation)
        first.session.run(first.next)
        seen: list[Any] = []
        errors: list[Exception] = []
        half, enough = threading.Event(), threading.Event()

        def read() -> None:
            try:
                while len(seen) < 400 or not enough.is_set():
                    seen.append(second.session.run(second.next))
                    if len(seen) == 200:
                        half.set()
            except Exception as e:
                errors.append(e)
                half.set()

        reader = threading.Thread(target=read)
        reader.start()
        half.wait()
        first.session.close()
        for _ in range(3):  # Further clients come and go.
            other = Client(processes.target("worker", 0), kind)
            other.session.run(other.next)
            other.session.close()
        enough.set()
        reader.join()
        second.session.close()
        assert not errors
