"""The hooks: the effect of each of them on a training, and the files that it writes."""

from __future__ import annotations

import io
import json
import logging
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.summary.events import read_events


def _train(hooks: list[Any], steps: int, **options: Any) -> Any:
    """Counts to `steps`; returns the last value of the global step."""
    step = tf.train.get_or_create_global_step()
    train = options.pop("train", None)
    train = step.assign_add(1) if train is None else train
    value = None
    all_hooks = [*hooks, tf.train.StopAtStepHook(last_step=steps)]
    with tf.train.MonitoredTrainingSession(hooks=all_hooks, log_step_count_steps=None, **options) as session:
        while not session.should_stop():
            value = session.run(train)
    return value


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The messages of tf.logging."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler, logger = Keep(), tf.logging.get_logger()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield lines
    logger.removeHandler(handler)
    logger.setLevel(level)


def test_the_timer_goes_by_steps_or_seconds() -> None:
    timer = tf.train.SecondOrStepTimer(every_steps=3)
    assert [s for s in range(10) if timer.should_trigger_for_step(s) and timer.update_last_triggered_step(s)] == [
        0, 3, 6, 9,
    ]  # fmt: skip
    assert timer.last_triggered_step() == 9
    assert timer.update_last_triggered_step(11)[1] == 2
    seconds = tf.train.SecondOrStepTimer(every_secs=1000)
    assert seconds.should_trigger_for_step(1)
    seconds.update_last_triggered_step(1)
    assert not seconds.should_trigger_for_step(2)
    for wrong in ({}, {"every_steps": 1, "every_secs": 1}):
        with pytest.raises(ValueError, match="every_secs"):
            tf.train.SecondOrStepTimer(**wrong)


def test_checkpoints_are_saved_at_the_beginning_every_n_steps_and_at_the_end(tmp_path: Path) -> None:
    calls: list[tuple[str, int]] = []

    class Listener(tf.train.CheckpointSaverListener):
        def before_save(self, session: Any, global_step_value: int) -> None:
            calls.append(("before", global_step_value))

        def after_save(self, session: Any, global_step_value: int) -> None:
            calls.append(("after", global_step_value))

        def end(self, session: Any, global_step_value: int) -> None:
            calls.append(("end", global_step_value))

    saver = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=4, listeners=[Listener()])
    _train([saver], 10)
    assert [step for what, step in calls if what == "after"] == [0, 4, 8, 10]
    assert calls[-1] == ("end", 10)
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model.ckpt-10")
    assert (tmp_path / "graph.pbtxt").exists()
    logs = [(e.step, e.session_log.status) for e in read_events(tmp_path) if e.HasField("session_log")]
    assert logs == [(s, tf.SessionLog.CHECKPOINT) for s in (0, 4, 8, 10)]


def test_a_listener_can_stop_the_training(tmp_path: Path) -> None:
    class Enough(tf.train.CheckpointSaverListener):
        def after_save(self, session: Any, global_step_value: int) -> bool:
            return global_step_value >= 6

    hook = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=3, listeners=[Enough()])
    assert _train([hook], 100) == 6


def test_a_checkpoint_hook_checks_its_arguments(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="both saver and scaffold"):
        tf.train.CheckpointSaverHook(str(tmp_path), save_steps=1, saver=object(), scaffold=object())
    tf.constant(1)
    with pytest.raises(RuntimeError, match=r"Global step should be created to use CheckpointSaverHook"):
        tf.train.MonitoredSession(hooks=[tf.train.CheckpointSaverHook(str(tmp_path), save_steps=1)])


def test_summaries_are_written_every_n_steps(tmp_path: Path) -> None:
    step = tf.train.get_or_create_global_step()
    tf.summary.scalar("double", tf.cast(step.read_value(), tf.float32) * 2.0)
    scaffold = tf.train.Scaffold()
    _train([tf.train.SummarySaverHook(save_steps=3, output_dir=str(tmp_path), scaffold=scaffold)], 9, scaffold=scaffold)
    events = [e for e in read_events(tmp_path) if e.HasField("summary")]
    assert [e.step for e in events] == [1, 4, 7]
    assert all(e.summary.value[0].tag == "double" for e in events)
    with pytest.raises(ValueError, match="Exactly one"):
        tf.train.SummarySaverHook(save_steps=1)


def test_the_speed_is_logged_and_written(tmp_path: Path, log: list[str]) -> None:
    _train([tf.train.StepCounterHook(every_n_steps=5, output_dir=str(tmp_path))], 12)
    values = [(e.step, e.summary.value[0]) for e in read_events(tmp_path) if e.HasField("summary")]
    assert [(step, value.tag) for step, value in values] == [(6, "global_step/sec"), (11, "global_step/sec")]
    assert all(value.simple_value > 0 for _, value in values)
    assert sum("global_step/sec: " in line for line in log) == 2


def test_tensors_are_logged(log: list[str]) -> None:
    step = tf.train.get_or_create_global_step()
    value = tf.constant([1.5, 2.0], name="value")
    hooks = [
        tf.train.LoggingTensorHook({"v": value, "s": "global_step/read_for_hooks:0"}, every_n_iter=2),
        tf.train.LoggingTensorHook([value], at_end=True, formatter=lambda values: f"<{len(values)}>"),
    ]
    tf.train.StopAtStepHook(last_step=1)
    from thalweg.train.global_step import global_step_read

    global_step_read()
    _train(hooks, 4, train=step.assign_add(1))
    lines = [line for line in log if line.startswith("v = ")]
    assert lines[0].startswith("v = [1.5 2. ], s = ")
    assert "sec)" not in lines[0]
    assert lines[1].endswith(" sec)")
    assert len(lines) == 2
    assert [line for line in log if line.startswith("<")] == ["<1>"]
    for wrong in ({}, {"every_n_iter": 1, "every_n_secs": 1}, {"every_n_iter": 0}):
        with pytest.raises(ValueError, match="every_n_iter"):
            tf.train.LoggingTensorHook([value], **wrong)


def test_stopping_needs_one_of_two_numbers() -> None:
    for wrong in ({}, {"num_steps": 1, "last_step": 1}):
        with pytest.raises(ValueError, match="num_steps"):
            tf.train.StopAtStepHook(**wrong)


def test_a_nan_loss_stops_the_training(log: list[str]) -> None:
    x = tf.placeholder(tf.float32)
    loss = tf.log(x)
    with pytest.raises(tf.train.NanLossDuringTrainingError, match="find_origin") as info:
        with tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(loss, find_origin=False)]) as session:
            assert session.run(loss, {x: 1.0}) == 0.0
            session.run(loss, {x: -1.0})
    assert info.value.origins == []
    with tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook("Log:0", fail_on_nan_loss=False)]) as session:
        session.run(loss, {x: -1.0})
        assert session.should_stop()


def test_the_nan_guard_names_the_operation_that_made_the_first_nan() -> None:
    x = tf.placeholder(tf.float32, [3], name="x")
    w = tf.Variable([1.0, 1.0, 1.0], name="w")
    root = tf.sqrt(x * w, name="culprit")
    loss = tf.reduce_mean(tf.square(root), name="loss")
    guard = tf.train.NanTensorHook(loss)
    with pytest.raises(tf.train.NanLossDuringTrainingError) as info:
        with tf.train.MonitoredSession(hooks=[guard]) as session:
            assert session.run(loss, {x: [1.0, 2.0, 3.0]}) == 2.0
            session.run(loss, {x: [1.0, -2.0, 3.0]})
    [origin] = info.value.origins
    assert origin.node == "culprit"
    assert "1 NaN of 3 elements" in origin.what
    assert "culprit (Sqrt)" in str(info.value)
    assert "test_hooks.py" in str(info.value)


def test_the_nan_guard_names_the_gradient_that_was_nan_in_the_step_before() -> None:
    w = tf.Variable([0.0, 1.0], name="w")
    loss = tf.reduce_sum(tf.sqrt(w) * [0.0, 1.0])  # finite, but the gradient of the first is 0 * infinity
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with pytest.raises(tf.train.NanLossDuringTrainingError, match="in the step before") as info:
        with tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(loss)]) as session:
            session.run(step)
            session.run(step)
    assert info.value.origins[0].node.startswith("gradients/Sqrt_grad")


@pytest.mark.parametrize("use_resource", [True, False])
def test_the_nan_guard_names_the_gradient_where_its_update_shows_no_result(use_resource: bool) -> None:
    x = tf.placeholder(tf.float32, [4, 64])
    w = tf.get_variable("w", [64, 64], initializer=tf.ones_initializer(), use_resource=use_resource)
    loss = tf.reduce_mean(tf.matmul(x, w, name="product") * 1e-30)
    step = tf.train.GradientDescentOptimizer(1e37).minimize(loss)  # the update, one with the product, overflows
    with pytest.raises(tf.train.NanLossDuringTrainingError, match="in the step before") as info:
        with tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(loss)]) as session:
            session.run(step, {x: np.full((4, 64), 1e35)})
            session.run(step, {x: np.zeros((4, 64))})
    [origin] = info.value.origins
    assert origin.node.startswith("gradients/product_grad")
    assert "the gradient of 'w', or its update 'GradientDescent/update_w" in origin.what


def test_a_nan_guard_may_watch_a_graph_that_is_not_the_default_one() -> None:
    with tf.Graph().as_default() as graph:
        loss = tf.log(tf.constant(-1.0))
        session = tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(loss)])
    assert tf.get_default_graph() is not graph
    with pytest.raises(tf.train.NanLossDuringTrainingError), session:
        session.run(loss)


def test_final_ops_and_waiting(log: list[str]) -> None:
    step = tf.train.get_or_create_global_step()
    final = tf.train.FinalOpsHook({"step": step}, None)
    _train([final, tf.train.GlobalStepWaiterHook(0)], 3)
    assert final.final_ops_values == {"step": 3}


def test_a_worker_waits_for_the_global_step(monkeypatch: pytest.MonkeyPatch, log: list[str]) -> None:
    step = tf.train.get_or_create_global_step()
    add = step.assign_add(5)
    sessions: list[Any] = []
    # The chief's steps happen while the worker sleeps.
    monkeypatch.setattr("thalweg.train.hooks.basic_hooks.time.sleep", lambda _: sessions[0].run(add))

    class Keep(tf.train.SessionRunHook):
        def after_create_session(self, session: Any, coord: Any) -> None:
            sessions.append(session)

    with tf.train.MonitoredSession(hooks=[Keep(), tf.train.GlobalStepWaiterHook(12)]) as session:
        assert session.run(step) == 15
    assert any("Waiting for global step 12" in line for line in log)


def test_the_profiler_writes_timelines_and_run_metadata(tmp_path: Path) -> None:
    step = tf.train.get_or_create_global_step()
    with tf.name_scope("work"):
        product = tf.matmul(tf.random_normal([4, 4]), tf.random_normal([4, 4]))
    with tf.control_dependencies([product]):
        train = step.assign_add(1)
    _train([tf.train.ProfilerHook(save_steps=4, output_dir=str(tmp_path), show_memory=True)], 10, train=train)
    traces = sorted(tmp_path.glob("timeline-*.json"))
    assert [path.name for path in traces] == ["timeline-4.json", "timeline-8.json"]
    events = json.loads(traces[0].read_text())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["ph"] == "X"}
    assert "work/MatMul" in names
    assert any(event["ph"] == "C" for event in events)
    tags = [e.tagged_run_metadata.tag for e in read_events(tmp_path) if e.HasField("tagged_run_metadata")]
    assert tags == ["step_4", "step_8"]


@pytest.mark.parametrize(
    ("values", "mode", "min_delta", "stops_after"),
    [
        ([5, 4, 3, 3, 3, 3, 3], "min", 0.0, 6),
        ([1, 2, 3, 2.5, 2.9, 3.0, 9], "max", 0.0, 6),
        ([5, 4.9, 4.8, 4.7, 4.0, 4.0, 4.0], "min", 0.5, 4),
        ([np.nan, np.nan, np.nan, 1, 1], "min", 0.0, 3),
        ([5, 4, 3, 2, 1], "min", 0.0, 5),
    ],
)
def test_early_stopping(values: list[float], mode: str, min_delta: float, stops_after: int) -> None:
    x = tf.placeholder(tf.float32, [])
    hook = tf.train.EarlyStoppingHook(x, patience=3, min_delta=min_delta, mode=mode)
    steps = 0
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        for value in values:
            if session.should_stop():
                break
            session.run(x, {x: value})
            steps += 1
    assert steps == stops_after
    assert hook.stopped == (values != [5, 4, 3, 2, 1])
    for wrong in ({"patience": 0}, {"patience": 1, "mode": "best"}, {"patience": 1, "min_delta": -1.0}):
        with pytest.raises(ValueError, match=r"patience|mode"):
            tf.train.EarlyStoppingHook(x, **wrong)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_plain_lines_in_a_file_and_one_line_on_a_terminal() -> None:
    loss = tf.constant(0.5)
    plain, terminal = io.StringIO(), _Terminal()
    _train(
        [
            tf.train.ProgressHook(loss, last_step=5, every_secs=0.0, stream=plain),
            tf.train.ProgressHook(loss, last_step=5, every_secs=0.0, stream=terminal),
        ],
        5,
    )
    lines = plain.getvalue().splitlines()
    assert len(lines) == 6
    assert lines[0].startswith("step 1/5  20%  loss 0.5  ")
    assert " steps/s" in lines[0]
    assert lines[0].endswith(" left")
    assert lines[-1].endswith(" in all")
    assert terminal.getvalue().count("\n") == 1
    assert terminal.getvalue().count("\r") == 6
    assert "[" in terminal.getvalue()


def test_a_quick_training_shows_progress_once_by_default() -> None:
    plain = io.StringIO()
    _train([tf.train.ProgressHook(stream=plain)], 3)
    assert len(plain.getvalue().splitlines()) == 1


def test_the_last_line_of_progress_shows_the_loss_of_the_last_step() -> None:
    plain = io.StringIO()
    loss = tf.identity(tf.train.get_or_create_global_step()) * 10
    _train([tf.train.ProgressHook(loss, last_step=7, every_secs=1e6, stream=plain)], 7)
    (line,) = plain.getvalue().splitlines()
    shown = float(line.split("loss ")[1].split()[0])
    assert shown in (60.0, 70.0)  # Before or after the seventh update: the order within a step is open.


class ZMQInteractiveShell:
    """Stands in for the shell of a notebook, which is recognized by its name."""


def test_progress_in_a_notebook_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    python = types.ModuleType("IPython")
    python.get_ipython = ZMQInteractiveShell  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", python)
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    _train([tf.train.ProgressHook(last_step=2, every_secs=0.0)], 2)
    assert out.getvalue().count("\r") == 3


def test_a_program_that_comes_back_after_the_last_step_runs_none() -> None:
    train = tf.train.get_or_create_global_step().assign_add(1)
    for last, ran in ((1, 1), (0, 0)):
        steps = 0
        with tf.train.MonitoredSession(hooks=[tf.train.StopAtStepHook(last_step=last)]) as session:
            while not session.should_stop():
                session.run(train)
                steps += 1
        assert steps == ran
