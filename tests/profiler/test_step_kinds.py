"""Profiles of whole programs: every step is traced, kinds of steps apart, gradients counted for their forward lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thalweg as tf
from thalweg.profiler.report import report
from thalweg.profiler.step_kinds import StepKind


def _model() -> tuple[tf.Tensor, tf.Tensor]:
    x = tf.placeholder(tf.float32, [None, 32], name="x")
    hidden = tf.layers.dense(x, 64, tf.nn.relu, name="first")
    return x, tf.reduce_mean(tf.square(tf.layers.dense(hidden, 64, tf.nn.relu, name="second")))


def test_steps_with_a_guard_against_nan_are_traced_beside_its_check() -> None:
    x, loss = _model()
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())
    hooks = [tf.train.NanTensorHook(loss), tf.train.StopAtStepHook(4)]
    with tf.profiler.record() as recording, tf.train.MonitoredSession(hooks=hooks) as session:
        while not session.should_stop():
            session.run(train, {x: np.ones([8, 32])})
    steps = [step for step in recording.traced if "GradientDescent" in step.name]
    assert len(steps) == 4
    text = report(recording.profile())
    assert f"{recording.count} of {recording.count} steps were traced." in text
    assert "first/MatMul" in text


def test_a_check_keeps_its_findings_and_its_error_while_it_is_traced() -> None:
    x = tf.placeholder(tf.float32, [], name="x")
    y = tf.log(x, name="origin")
    metadata = tf.RunMetadata()
    with tf.profiler.record() as recording, tf.Session() as session:
        session.run(y, {x: -1.0}, tf.debugging.check_numerics_options(), metadata)
        with pytest.raises(tf.errors.InvalidArgumentError, match="origin is not finite"):
            session.run(y, {x: -1.0}, tf.debugging.check_numerics_options())
    assert [origin.node for origin in tf.debugging.non_finite_origins(metadata)] == ["origin"]
    assert len(metadata.step_stats.dev_stats) == 1  # The program did not ask for the trace.
    assert len(recording.traced) == 1
    assert dict(recording.untraced) == {"origin:0": 1}


def test_steps_without_a_trace_are_named() -> None:
    a, b = tf.random_uniform([2], name="a"), tf.random_uniform([2], name="b")
    with tf.profiler.record(steps=2) as recording, tf.Session() as session:
        for _ in range(3):
            session.run(a)
        session.run(b)
    text = report(recording.profile())
    assert "2 of 4 steps were traced, not these: a:0 (1 times); b:0 (1 times)." in text


def test_initialization_and_saving_have_tables_of_their_own(tmp_path: Path) -> None:
    x, loss = _model()
    saver = tf.train.Saver()
    with tf.profiler.record() as recording, tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(loss, {x: np.ones([8, 32])})
        saver.save(session, str(tmp_path / "model"))
    profile = recording.profile()
    assert profile.kinds() == [StepKind.STEADY, StepKind.INITIALIZATION, StepKind.SAVING]
    steady = {row.key for row in profile.by_op(StepKind.STEADY)}
    assert "MatMul" in steady
    assert not steady & {"AssignVariableOp", "SaveV2", "RandomUniform"}
    assert "AssignVariableOp" in {row.key for row in profile.by_op(StepKind.INITIALIZATION)}
    assert "SaveV2" in {row.key for row in profile.by_op(StepKind.SAVING)}
    text = report(profile)
    assert text.index("== Steps ==") < text.index("== Initialization ==") < text.index("== Saving and restoring ==")


def test_gradients_count_for_the_lines_of_their_forward_operations() -> None:
    x, loss = _model()
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)  # The line of the updates.
    with tf.profiler.record() as recording, tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(train, {x: np.ones([8, 32])})
    rows = {row.about: row for row in recording.profile().by_line(StepKind.STEADY)}
    forward = next(row for about, row in rows.items() if 'name="first"' in about)
    assert 0 < forward.backward < forward.seconds
    update = next(row for about, row in rows.items() if "minimize" in about)
    assert update.backward == 0
    gradient = tf.get_default_graph().get_operation_by_name("gradients/first/MatMul_grad/MatMul_1")
    assert gradient._original_op.name == "first/MatMul"
    assert "backward" in report(recording.profile())


def test_gradients_within_loops_know_their_forward_operations() -> None:
    w = tf.constant(2.0, name="w")
    _, y = tf.while_loop(lambda i, p: i < 3, lambda i, p: (i + 1, tf.multiply(p, w, name="product")), (0, 1.0))
    before = len(tf.get_default_graph().get_operations())
    tf.gradients(y, w)
    made = tf.get_default_graph().get_operations()[before:]
    originals = {op._original_op.name for op in made if op._original_op is not None}
    assert "while/product" in originals


def test_the_result_of_a_fused_node_counts_for_the_member_that_does_the_work() -> None:
    x, loss = _model()
    with tf.profiler.record() as recording, tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(loss, {x: np.ones([8, 32])})
    rows = {row.key: row for row in recording.profile().by_node(StepKind.STEADY)}
    assert rows["first/MatMul"].fused == rows["first/MatMul"].calls == 2
    assert rows["first/MatMul"].bytes == 2 * 8 * 64 * 4
    assert rows["first/Relu"].bytes == 0
    assert "MatMul  (fused)" in report(recording.profile())
