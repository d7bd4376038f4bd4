"""Sessions of TensorFlow clients that are never closed: limited in number, and closed when they are not used."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import thalweg as tf
from tests.dist.launched import wait_until
from thalweg.dist.tensorflow_messages import messages
from thalweg.dist.tensorflow_sessions import TensorFlowSessions


@pytest.fixture
def server() -> Iterator[tf.train.Server]:
    made = tf.train.Server.create_local_server()
    yield made
    made.stop()


def _call(sessions: TensorFlowSessions, method: str, **fields: Any) -> Any:
    return sessions.answer(method, messages()[f"{method}Request"](**fields), lambda cancel: None)


def _create(sessions: TensorFlowSessions) -> str:
    graph_def = tf.get_default_graph().as_graph_def()
    return str(_call(sessions, "CreateSession", graph_def=graph_def).session_handle)


def test_one_session_too_many_is_refused_until_another_is_closed(server: tf.train.Server) -> None:
    tf.constant(1.0, name="one")
    sessions = TensorFlowSessions(server._task, server.target, tf.distribute.TensorFlowClients(most_sessions=2))
    handles = [_create(sessions), _create(sessions)]
    with pytest.raises(tf.errors.ResourceExhaustedError, match=r"has 2 sessions .*most_sessions"):
        _create(sessions)
    _call(sessions, "CloseSession", session_handle=handles[0])
    assert _call(sessions, "RunStep", session_handle=_create(sessions), fetch=["one:0"]).tensor
    sessions.close()


def test_sessions_that_are_not_used_are_closed_and_others_stay(server: tf.train.Server) -> None:
    tf.constant(1.0, name="one")
    queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]], shared_name="expiry")
    queue.dequeue(name="taken")
    put = queue.enqueue(5.0, name="put")
    limits = tf.distribute.TensorFlowClients(idle_seconds=0.4)
    sessions = TensorFlowSessions(server._task, server.target, limits)
    idle, used, waiting = (_create(sessions) for _ in range(3))
    values: list[Any] = []

    def wait() -> None:
        taken = _call(sessions, "RunStep", session_handle=waiting, fetch=["taken:0"])
        values.append(tf.make_ndarray(taken.tensor[0].tensor))

    thread = threading.Thread(target=wait)
    thread.start()

    def is_gone() -> bool:
        _call(sessions, "RunStep", session_handle=used, fetch=["one:0"])
        return idle not in sessions._sessions

    wait_until(is_gone)
    with pytest.raises(tf.errors.AbortedError, match="was not used for long"):
        _call(sessions, "RunStep", session_handle=idle, fetch=["one:0"])
    time.sleep(0.5)  # The session with a step under way is not idle, however long it takes.
    assert waiting in sessions._sessions
    with tf.Session(server.target) as session:
        session.run(put)
    thread.join(20.0)
    assert values == [5.0]
    sessions.close()
