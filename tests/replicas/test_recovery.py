"""Sessions that are lost: monitored sessions, workers and supervisors make new ones and go on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import thalweg as tf
from tests.replicas.workers import Replica, run_workers
from thalweg._native import core

LOSSES = [tf.errors.AbortedError, tf.errors.UnavailableError]


def lost(error: type[Exception] = tf.errors.UnavailableError) -> Exception:
    return error(None, None, "the task /job:ps/task:1 is gone")


class LosingSession:
    """A session whose runs of `fetch` fail as often as it is told, and whose `close` then fails, too."""

    def __init__(self, session: Any, failures: list[Exception]) -> None:
        self._session, self._failures = session, failures
        self._lost: Exception | None = None

    def run(self, fetches: Any, *args: Any, **kwargs: Any) -> Any:
        if self._failures and isinstance(fetches, list):  # A step with hooks.
            self._lost = self._failures.pop()
            raise self._lost
        return self._session.run(fetches, *args, **kwargs)

    def close(self) -> None:
        self._session.close()
        if self._lost is not None:
            raise self._lost

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


class Creator(tf.train.SessionCreator):
    """Wraps the sessions of another creator."""

    def __init__(self, creator: Any, failures: list[Exception]) -> None:
        self._creator, self._failures = creator, failures
        self.sessions: list[Any] = []

    def create_session(self) -> Any:
        self.sessions.append(LosingSession(self._creator.create_session(), self._failures))
        return self.sessions[-1]


class Recorder(tf.train.SessionRunHook):
    """Notes its calls."""

    def __init__(self, on_session: Callable[[Any, Any], None] | None = None) -> None:
        self.calls: list[str] = []
        self._on_session = on_session

    def begin(self) -> None:
        self.calls.append("begin")

    def after_create_session(self, session: Any, coord: Any) -> None:
        self.calls.append("after_create_session")
        if self._on_session is not None:
            self._on_session(session, coord)

    def before_run(self, run_context: Any) -> Any:
        self.calls.append("before_run")
        return tf.train.SessionRunArgs(tf.train.get_global_step())

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.calls.append("after_run")

    def end(self, session: Any) -> None:
        self.calls.append("end")


@pytest.mark.parametrize("error", LOSSES)
def test_a_lost_session_is_made_anew_and_the_step_run_again(error: type[Exception]) -> None:
    train = tf.train.get_or_create_global_step().assign_add(1)
    creator = Creator(tf.train.ChiefSessionCreator(), [lost(error), lost(error)])
    hook = Recorder()
    with tf.train.MonitoredSession(creator, [hook]) as session:
        assert session.run(train) == 1
        assert session.run(train) == 2
        assert len(creator.sessions) == 3
    again = ["after_create_session", "before_run"]
    assert hook.calls == ["begin", *again, *again, *again, "after_run", "before_run", "after_run", "end"]


@pytest.mark.parametrize("error", [tf.errors.DeadlineExceededError, tf.errors.InternalError])
def test_errors_that_are_no_loss_of_a_task_reach_the_program(error: type[Exception]) -> None:
    train = tf.train.get_or_create_global_step().assign_add(1)
    creator = Creator(tf.train.ChiefSessionCreator(), [lost(error)])
    with pytest.raises(error), tf.train.MonitoredSession(creator, [Recorder()]) as session:
        session.run(train)
    assert len(creator.sessions) == 1


def test_a_loss_that_a_thread_reports_is_recovered_from_when_asked_to_stop() -> None:
    tf.train.get_or_create_global_step()
    losses = [lost()]

    def report(session: Any, coord: Any) -> None:
        if losses:
            coord.request_stop(losses.pop())

    hook = Recorder(report)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        assert not session.should_stop()
        assert not session.should_stop()
    assert hook.calls == ["begin", "after_create_session", "after_create_session", "end"]


def test_a_loss_while_hooks_prepare_the_session_is_tried_again() -> None:
    train = tf.train.get_or_create_global_step().assign_add(1)
    losses = [lost(), lost(tf.errors.AbortedError)]

    def fail(session: Any, coord: Any) -> None:
        if losses:
            raise losses.pop()

    hook = Recorder(fail)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        assert session.run(train) == 1
    assert hook.calls.count("after_create_session") == 3


def test_a_worker_recovers_by_waiting_for_the_chiefs_model(container: str) -> None:
    def build() -> Any:
        with tf.container(container):
            return tf.train.get_or_create_global_step().assign_add(1)

    train = build()
    with tf.train.MonitoredSession() as chief:
        assert chief.run(train) == 1
        with tf.Graph().as_default():
            train = build()
            creator = Creator(tf.train.WorkerSessionCreator(max_wait_secs=60), [lost()])
            hook = Recorder()
            with tf.train.MonitoredSession(creator, [hook]) as worker:
                assert worker.run(train) == 2  # The chief's state, not a new one.
    assert hook.calls.count("after_create_session") == 2


def test_a_worker_waits_for_tasks_that_are_not_there_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("thalweg.train.sessions.retry_pauses.time.sleep", pauses.append)
    manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables())
    new_session = manager._new_session

    def missing_at_first(master: str, config: Any) -> Any:
        assert master == "the target"
        if len(pauses) < 3:
            raise lost(LOSSES[len(pauses) % 2])
        return new_session("", config)

    monkeypatch.setattr(manager, "_new_session", missing_at_first)
    manager.wait_for_session("the target").close()
    assert len(pauses) == 3
    assert max(pauses) <= 30


def test_the_end_of_the_wait_says_what_was_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    tf.get_variable("never_initialized", [])
    manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables())
    with pytest.raises(tf.errors.DeadlineExceededError, match=r"0\.1 secs.*never_initialized"):
        manager.wait_for_session("", max_wait_secs=0.1)
    with pytest.raises(tf.errors.DeadlineExceededError, match="never_initialized"):
        tf.train.MonitoredTrainingSession(is_chief=False, max_wait_secs=0.1)

    def gone(master: str, config: Any) -> Any:
        raise lost()

    monkeypatch.setattr(manager, "_new_session", gone)
    with pytest.raises(tf.errors.DeadlineExceededError, match="the task /job:ps/task:1 is gone"):
        manager.wait_for_session("", max_wait_secs=0.1)


@pytest.mark.parametrize("error", LOSSES)
def test_a_supervised_loop_goes_on_in_a_new_session(error: type[Exception]) -> None:
    train = tf.train.get_or_create_global_step().assign_add(1)
    sv = tf.train.Supervisor()
    sessions: list[Any] = []

    def step(session: Any) -> None:
        if session not in sessions:
            sessions.append(session)
            if len(sessions) < 3:
                raise lost(error)
        if session.run(train) >= 2:
            sv.request_stop()

    tf.train.basic_train_loop(sv, step)
    assert len(sessions) == 3


def test_a_chief_that_loses_its_session_goes_on_with_its_workers(container: str, tmp_path: Path) -> None:
    """Synchronous training: the chief restores the checkpoint and gives tokens again; the worker never notices."""

    def make(worker: int) -> Any:
        return lambda opt: tf.train.SyncReplicasOptimizer(opt, 2, worker_index=worker)

    replicas = [Replica(container, worker, make(worker)) for worker in range(2)]

    def work(replica: Replica) -> int:
        is_chief = replica.worker == 0
        with replica.graph.as_default():
            scaffold = tf.train.Scaffold()
            hook = replica.optimizer.make_session_run_hook(is_chief)
            step, failures = 0, []
            if not is_chief:
                creator: Any = tf.train.WorkerSessionCreator(scaffold)
                hooks = [hook]
            else:
                creator = Creator(tf.train.ChiefSessionCreator(scaffold, checkpoint_dir=str(tmp_path)), failures)
                hooks = [hook, tf.train.CheckpointSaverHook(str(tmp_path), save_steps=1, scaffold=scaffold)]
            with tf.train.MonitoredSession(creator, hooks) as session:
                while step < 12:
                    if is_chief and step in (4, 8) and len(creator.sessions) == step // 4:
                        failures.append(lost())
                    step = session.run(replica.train_op, replica.feeds(step))
            return step

    assert run_workers(*(lambda r=r: work(r) for r in replicas)) == [12, 12]
    tf.summary.FileWriterCache.clear()


def test_a_chief_whose_means_were_lost_begins_anew(
    container: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something takes the gradients between the beginning of the round and the chief's first update."""
    monkeypatch.setattr("thalweg.train.replicas.sync_replicas_hook._LOG_SECONDS", 0.05)
    replica = Replica(container, 0, lambda opt: tf.train.SyncReplicasOptimizer(opt, 1, worker_index=0))
    with replica.graph.as_default():
        hook = replica.optimizer.make_session_run_hook(True)
        thief = replica.optimizer._accumulators[0].take_grad(1)
        opened: list[Any] = []

        begin_round = hook._run_local_init

        def steal(session: Any) -> None:
            begin_round(session)
            if not opened:
                other = tf.Session(graph=replica.graph)
                opened.append((other, threading.Thread(target=lambda: other.run(thief))))
                opened[0][1].start()
                while core.waits() == waits:
                    opened[0][1].join(0.001)

        monkeypatch.setattr(hook, "_run_local_init", steal)
        waits = core.waits()
        saving = {"save_checkpoint_steps": 1, "save_summaries_steps": None, "log_step_count_steps": None}
        with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), hooks=[hook], **saving) as session:
            step = 0
            while step < 2:
                step = session.run(replica.train_op, replica.feeds(step))
        opened[0][1].join()
        opened[0][0].close()
    tf.summary.FileWriterCache.clear()
