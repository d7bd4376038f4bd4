"""Supervisor: the older training helper, its services and its ways to stop."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import thalweg as tf
from tests.summary.events import read_events


def _wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)


def _tags(folder: Path) -> set[str]:
    return {value.tag for event in read_events(folder) for value in event.summary.value}


def test_a_managed_session_initializes_trains_and_saves(tmp_path: Path) -> None:
    step = tf.train.get_or_create_global_step()
    train = step.assign_add(1)
    tf.summary.scalar("answer", 42.0)
    sv = tf.train.Supervisor(logdir=str(tmp_path), save_model_secs=0.05, save_summaries_secs=0.05)
    assert sv.is_chief
    assert sv.global_step is step
    assert tf.get_default_graph().finalized
    with sv.managed_session() as session:
        for _ in range(5):
            value = session.run(train)
        _wait_for(lambda: tf.train.latest_checkpoint(str(tmp_path)) and len(list(tmp_path.glob("events*"))) == 1)
        _wait_for(lambda: any("model.ckpt-5" in p.name for p in tmp_path.iterdir()))
        _wait_for(lambda: sv.summary_writer.flush() or "answer" in _tags(tmp_path))
        sv.summary_computed(session, tf.Summary(value=[tf.Summary.Value(tag="mine", simple_value=1.0)]))
    assert value == 5
    events = read_events(tmp_path)
    assert {"answer", "mine"} <= _tags(tmp_path)
    statuses = {e.session_log.status for e in events if e.HasField("session_log")}
    assert {tf.SessionLog.START, tf.SessionLog.CHECKPOINT, tf.SessionLog.STOP} <= statuses
    # Another supervisor goes on from the checkpoint.
    with tf.train.Supervisor(logdir=str(tmp_path), save_summaries_secs=0, summary_op=None).managed_session() as again:
        assert again.run(step) == 5


def test_without_a_folder_nothing_is_written_and_errors_leave_the_block() -> None:
    v = tf.Variable(1.0)
    sv = tf.train.Supervisor()
    assert sv.summary_writer is None
    assert sv.save_path is None
    with pytest.raises(ValueError, match="mine"), sv.managed_session() as session:
        assert session.run(v) == 1.0
        raise ValueError("mine")
    assert sv.should_stop()
    with sv.managed_session():
        raise tf.errors.OutOfRangeError(None, None, "end")
    with pytest.raises(RuntimeError, match="summary writer"):
        sv.summary_computed(None, tf.Summary())


def test_a_loop_runs_until_the_stop_and_its_exception_is_raised() -> None:
    tf.Variable(1.0)
    sv = tf.train.Supervisor()
    session = sv.prepare_or_wait_for_session()
    calls: list[int] = []

    def count() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise KeyError("enough")

    sv.loop(0.001, count)
    sv.wait_for_stop()
    with pytest.raises(KeyError):
        sv.stop()
    session.close()
    assert len(calls) == 3


def test_the_model_can_be_initialized_by_hand() -> None:
    v = tf.Variable(1.0)
    seen = []
    sv = tf.train.Supervisor(init_op=v.initializer, init_fn=lambda session: seen.append(session.run(v)), saver=None)
    assert sv.init_op is v.initializer
    assert sv.saver is None
    session = sv.PrepareSession()
    sv.Stop()
    session.close()
    assert seen == [1.0]


def test_only_the_chief_has_services() -> None:
    with tf.device("/cpu:0"):
        tf.Variable(1.0)
    sv = tf.train.Supervisor(is_chief=False, logdir="/nowhere", recovery_wait_secs=0.01)
    assert sv.save_model_secs is None
    with pytest.raises(RuntimeError, match="chief"):
        sv.start_standard_services(None)
    with pytest.raises(tf.errors.DeadlineExceededError):
        sv.prepare_or_wait_for_session(max_wait_secs=0.02)


def test_a_basic_train_loop_goes_on_after_a_lost_task(tmp_path: Path) -> None:
    step = tf.train.get_or_create_global_step()
    train = step.assign_add(1)
    sv = tf.train.Supervisor(logdir=str(tmp_path), save_summaries_secs=0)
    sessions: list[Any] = []

    def train_step(session: Any, last: int, scale: int = 1) -> None:
        if session not in sessions:
            sessions.append(session)
            if len(sessions) == 1:
                raise tf.errors.AbortedError(None, None, "lost")
        if session.run(train) >= last * scale:
            sv.request_stop()

    tf.train.basic_train_loop(sv, train_step, args=(3,), kwargs={"scale": 2})
    assert len(sessions) == 2
