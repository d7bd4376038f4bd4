"""Monitored sessions: order of the hooks' calls, feeds and fetches, stopping, exceptions and recovery."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import thalweg as tf


class _Recorder(tf.train.SessionRunHook):
    """Records its calls; fetches and feeds its arguments."""

    def __init__(self, fetches: Any = None, feed_dict: Any = None) -> None:
        self.calls: list[str] = []
        self.results: list[Any] = []
        self._args = tf.train.SessionRunArgs(fetches, feed_dict)

    def begin(self) -> None:
        assert not tf.get_default_graph().finalized
        self.calls.append("begin")

    def after_create_session(self, session: Any, coord: Any) -> None:
        assert tf.get_default_graph().finalized
        self.calls.append("after_create_session")

    def before_run(self, run_context: Any) -> Any:
        self.calls.append("before_run")
        return self._args

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.calls.append("after_run")
        self.results.append(run_values.results)

    def end(self, session: Any) -> None:
        session.run(tf.get_default_graph().get_operations()[0])  # It is still open.
        self.calls.append("end")


def test_hooks_are_called_in_order() -> None:
    value = tf.constant(3)
    hook = _Recorder({"v": [value]})
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        assert session.graph is tf.get_default_graph()
        assert session.run([value, {"twice": value}]) == [3, {"twice": 3}]
    assert hook.calls == ["begin", "after_create_session", "before_run", "after_run", "end"]
    assert hook.results == [{"v": [3]}]
    assert session.should_stop()
    assert not tf.get_default_graph().finalized


def test_variables_are_initialized_and_local_ones_too() -> None:
    v = tf.Variable(2.0)
    local = tf.Variable(5.0, trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    with tf.train.MonitoredSession() as session:
        assert session.run([v, local]) == [2.0, 5.0]


def test_feeds_of_hooks_and_caller_are_joined_but_never_twice() -> None:
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    total = x + y
    with tf.train.MonitoredSession(hooks=[tf.train.FeedFnHook(lambda: {x: 1.0})]) as session:
        assert session.run(total, {y: 2.0}) == 3.0
        with pytest.raises(RuntimeError, match="fed by a SessionRunHook and user"):
            session.run(total, {x: 5.0, y: 2.0})
    hooks = [tf.train.FeedFnHook(lambda: {x: 1.0}) for _ in range(2)]
    with pytest.raises(RuntimeError, match="fed by two hooks"), tf.train.MonitoredSession(hooks=hooks) as session:
        session.run(total, {y: 2.0})


def test_a_hook_can_stop_the_loop() -> None:
    step = tf.train.get_or_create_global_step()
    train = step.assign_add(1)
    with tf.train.MonitoredSession(hooks=[tf.train.StopAtStepHook(num_steps=4)]) as session:
        while not session.should_stop():
            value = session.run(train)
        with pytest.raises(RuntimeError, match="after should_stop"):
            session.run(train)
    assert value == 4
    with pytest.raises(RuntimeError, match="closed"):
        session.run(train)


def test_the_end_of_the_input_ends_the_block_and_other_errors_leave_it() -> None:
    tf.constant(0)
    clean, failed = _Recorder(), _Recorder()
    with tf.train.MonitoredSession(hooks=[clean]):
        raise tf.errors.OutOfRangeError(None, None, "end")
    with pytest.raises(ValueError, match="mine"), tf.train.MonitoredSession(hooks=[failed]):
        raise ValueError("mine")
    assert clean.calls[-1] == "end"
    assert "end" not in failed.calls


def test_options_of_hooks_and_caller_are_merged() -> None:
    seen = []

    class Tracer(tf.train.SessionRunHook):
        def before_run(self, run_context: Any) -> Any:
            return tf.train.SessionRunArgs(None, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE))

        def after_run(self, run_context: Any, run_values: Any) -> None:
            seen.append((run_values.options.timeout_in_ms, len(run_values.run_metadata.step_stats.dev_stats)))

    value = tf.constant(1.0) + tf.placeholder_with_default(1.0, [])
    metadata = tf.RunMetadata()
    with tf.train.MonitoredSession(hooks=[Tracer()]) as session:
        session.run(value, options=tf.RunOptions(timeout_in_ms=5000), run_metadata=metadata)
        session.run(value)
    assert seen == [(5000, 1), (0, 1)]
    assert metadata.step_stats.dev_stats


def test_a_step_function_runs_with_and_without_hooks() -> None:
    value = tf.constant(1)
    hook = _Recorder(value)

    def step_fn(step_context: Any) -> Any:
        step_context.session.run(value)
        return step_context.run_with_hooks(value) + 10

    with tf.train.MonitoredSession(hooks=[hook]) as session:
        assert session.run_step_fn(step_fn) == 11
        assert hook.results == [1]
        with pytest.raises(TypeError, match="callable"):
            session.run_step_fn(1)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="step_context"):
            session.run_step_fn(lambda context: None)
        session.run_step_fn(lambda step_context: step_context.request_stop())
        pytest.fail("request_stop must leave the block")
    assert hook.calls[-1] == "end"


class _Unreliable:
    """Makes a step fail with an error the first `times` times."""

    def __init__(self, error: type[Exception], times: int) -> None:
        self._left, self._error = times, error
        self.tensor = tf.py_func(self._value, [], tf.int64, stateful=True)

    def _value(self) -> int:
        if self._left > 0:
            self._left -= 1
            raise self._error(None, None, "the connection was lost")
        return 42


@pytest.mark.parametrize("error", [tf.errors.AbortedError, tf.errors.UnavailableError])
def test_lost_tasks_are_recovered_from(error: type[Exception], tmp_path: Path) -> None:
    step = tf.train.get_or_create_global_step()
    train = step.assign_add(1)
    fetch = _Unreliable(error, 2).tensor
    hook = _Recorder()
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(tmp_path), save_checkpoint_steps=1, hooks=[hook], log_step_count_steps=None
    ) as session:
        for _ in range(5):
            session.run(train)
        assert session.run(fetch) == 42
        # Twice a new session, each of which went on from the checkpoint of step 5.
        assert session.run(step) == 5
    assert hook.calls.count("after_create_session") == 3
    assert hook.calls.count("begin") == 1


@pytest.mark.parametrize("also_fails", [False, True])
def test_a_hook_can_keep_the_session_when_a_task_is_lost(also_fails: bool) -> None:
    class Mender(tf.train.SessionRunHook):
        def begin(self) -> None:
            self.errors: list[Exception] = []

        def recover(self, session: Any, error: Exception) -> bool:
            self.errors.append(error)
            session.run(mend)
            if also_fails and len(self.errors) == 1:
                raise tf.errors.UnavailableError(None, None, "one more task is lost")
            return True

    value = tf.get_variable("value", [], tf.int32, tf.zeros_initializer())
    train, mend = value.assign_add(1), value.assign(10)
    fetch = _Unreliable(tf.errors.UnavailableError, 2).tensor
    hook, mender = _Recorder(), Mender()
    with tf.train.MonitoredSession(hooks=[hook, mender]) as session:
        session.run(train)
        assert session.run(fetch) == 42
        assert len(mender.errors) == 2
        assert session.run(value) == 10
    assert hook.calls.count("after_create_session") == 3
    assert hook.calls.count("begin") == 1


def test_a_session_that_cannot_be_made_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("thalweg.train.sessions.retry_pauses.time.sleep", pauses.append)

    class Creator(tf.train.SessionCreator):
        def create_session(self) -> Any:
            if len(pauses) < 3:
                raise tf.errors.UnavailableError(None, None, "not there yet")
            return tf.Session()

    value = tf.constant(1)
    with tf.train.MonitoredSession(Creator()) as session:
        assert session.run(value) == 1
    assert len(pauses) == 3


def test_a_step_function_is_called_again_after_a_loss() -> None:
    unreliable = _Unreliable(tf.errors.AbortedError, 1)
    calls = []

    def step_fn(step_context: Any) -> Any:
        calls.append(step_context.session)
        return step_context.run_with_hooks(unreliable.tensor)

    with tf.train.MonitoredSession() as session:
        assert session.run_step_fn(step_fn) == 42
    assert len(calls) == 2
    assert calls[0] is not calls[1]


def test_a_singular_session_does_not_recover() -> None:
    fetch = _Unreliable(tf.errors.AbortedError, 1).tensor
    with pytest.raises(tf.errors.AbortedError), tf.train.SingularMonitoredSession() as session:
        assert isinstance(session.raw_session(), tf.Session)
        session.run(fetch)


def test_the_exception_of_a_thread_stops_the_session() -> None:
    started = threading.Event()

    class Background(tf.train.SessionRunHook):
        def after_create_session(self, session: Any, coord: Any) -> None:
            def fail() -> None:
                with coord.stop_on_exception():
                    started.wait()
                    raise OSError("the reader failed")

            thread = threading.Thread(target=fail)
            coord.register_thread(thread)
            thread.start()

    value = tf.constant(1)
    with pytest.raises(OSError, match="the reader failed"):
        with tf.train.MonitoredSession(hooks=[Background()]) as session:
            session.run(value)
            started.set()
            while not session.should_stop():
                session.run(value)


def test_a_model_that_is_not_ready_is_refused() -> None:
    tf.Variable(1.0, name="forgotten")
    with pytest.raises(RuntimeError, match="forgotten"):
        tf.train.MonitoredSession(tf.train.ChiefSessionCreator(tf.train.Scaffold(init_op=tf.no_op())))
    # The graph can be mended.
    assert not tf.get_default_graph().finalized


def test_a_scaffold_takes_its_parts_from_arguments_collections_and_defaults() -> None:
    v = tf.Variable(1.0)
    ready = tf.report_uninitialized_variables()
    tf.add_to_collection(tf.GraphKeys.READY_OP, ready)
    seen = []
    scaffold = tf.train.Scaffold(init_fn=lambda scaffold, session: seen.append(session.run(v)))
    with tf.train.SingularMonitoredSession(scaffold=scaffold):
        assert scaffold.ready_op is ready
        assert isinstance(scaffold.saver, tf.train.Saver)
        assert tf.get_collection(tf.GraphKeys.SAVERS) == [scaffold.saver]
    assert seen == [1.0]
    assert tf.train.Scaffold(copy_from_scaffold=scaffold).saver is scaffold.saver
    tf.add_to_collection(tf.GraphKeys.SAVERS, tf.train.Saver())
    with pytest.raises(RuntimeError, match="More than one item"):
        tf.train.Scaffold().finalize()


def test_a_worker_waits_until_the_model_is_ready() -> None:
    v = tf.Variable(1.0, name="v")
    manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables(), recovery_wait_secs=0.01)
    with pytest.raises(tf.errors.DeadlineExceededError, match="not ready"):
        manager.wait_for_session("", max_wait_secs=0.03)
    session = manager.prepare_session("", init_op=v.initializer)
    assert session.run(v) == 1.0
    session.close()
    with pytest.raises(RuntimeError, match="no init_op"):
        manager.prepare_session("")


def test_a_manager_restores_and_recovers(tmp_path: Path) -> None:
    v = tf.Variable(1.0, name="v")
    saver = tf.train.Saver()
    manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables())
    session, ready = manager.recover_session("", saver=saver, checkpoint_dir=str(tmp_path))
    assert not ready
    session.run(v.assign(7.0))
    path = saver.save(session, str(tmp_path / "m"))
    session.close()
    session, ready = manager.recover_session("", saver=saver, checkpoint_dir=str(tmp_path))
    assert ready
    assert session.run(v) == 7.0
    session.close()
    for where in ({"checkpoint_dir": str(tmp_path)}, {"checkpoint_filename_with_path": path}):
        session = manager.prepare_session("", init_op=v.initializer, saver=saver, **where)
        assert session.run(v) == 7.0
        session.close()
    with pytest.raises(ValueError, match="both"):
        manager.prepare_session("", saver=saver, checkpoint_dir="a", checkpoint_filename_with_path="b")
