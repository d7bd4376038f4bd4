"""Optimizer steps as ops: by reference, by several threads at once, through GraphDefs."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.ops.nn.training_ops import RULES


def _reference(name: str, value: Any) -> tuple[Any, Any]:
    """A reference variable, as TensorFlow 1 made them, and its initializer."""
    array = np.asarray(value, np.float32)
    ref = tf.raw_ops.VariableV2(shape=array.shape, dtype=tf.float32, shared_name=name, name=name)
    return ref, tf.raw_ops.Assign(ref=ref, value=array)


def test_updates_by_reference_equal_updates_of_resources() -> None:
    var, init_var = _reference("var", [[1.0, 2.0], [3.0, 4.0]])
    accum, init_accum = _reference("accum", np.zeros((2, 2)))
    dense = tf.raw_ops.ApplyMomentum(var=var, accum=accum, lr=0.5, grad=np.ones((2, 2), np.float32), momentum=0.5)
    rows = tf.raw_ops.SparseApplyMomentum(
        var=var, accum=accum, lr=0.5, grad=np.ones((2, 2), np.float32), indices=[1, 1], momentum=0.5
    )
    with tf.Session() as sess:
        sess.run([init_var, init_accum])
        np.testing.assert_allclose(sess.run(dense), [[0.5, 1.5], [2.5, 3.5]])
        # Row 1 twice: accum is 1, then 1.5, then 1.75.
        np.testing.assert_allclose(sess.run(rows), [[0.5, 1.5], [2.5 - 0.75 - 0.875, 3.5 - 0.75 - 0.875]])


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.reference], ids=lambda rule: rule.name)
def test_every_rule_runs_by_reference(rule: Any) -> None:
    for sparse in (False, True) if rule.sparse else (False,):
        with tf.Graph().as_default():
            made = {name: _reference(name, np.full((2, 1), 0.5)) for name in rule.variables.split()}
            inputs: dict[str, Any] = {name: ref for name, (ref, _) in made.items()}
            for value in rule.values.split():
                if value in ("grad", "delta"):
                    inputs["grad" if sparse else value] = np.full((2, 1), 0.1, np.float32)
                else:
                    inputs[value] = 1 if value == "global_step" else np.float32(-0.5 if value == "lr_power" else 0.5)
            if sparse:
                inputs["indices"] = [0, 1]
            op = getattr(tf.raw_ops, f"{'Sparse' if sparse else ''}Apply{rule.name}")(**inputs)
            with tf.Session() as sess:
                sess.run([init for _, init in made.values()])
                out = sess.run(op)
                assert out.shape == (2, 1) and np.all(np.isfinite(out)) and np.all(out != 0.5)


def test_a_graph_with_an_optimizer_runs_after_a_round_trip() -> None:
    with tf.Graph().as_default() as graph:
        w = tf.get_variable("w", initializer=np.array([1.0, 2.0], np.float32))
        tf.train.AdamOptimizer(0.1, name="train").minimize(tf.reduce_sum(w * w))
        tf.group(tf.global_variables_initializer(), name="start")
        definition = graph.as_graph_def()
    with tf.Graph().as_default():
        tf.import_graph_def(definition, name="")
        with tf.Session() as sess:
            sess.run("start")
            sess.run("train")
            np.testing.assert_allclose(sess.run("w/Read/ReadVariableOp:0"), [0.9, 1.9], 1e-4)


def test_threads_may_update_the_same_variables_in_any_order() -> None:
    a = tf.Variable(np.zeros(64, np.float32))
    b = tf.Variable(np.zeros(64, np.float32))
    one = np.ones(64, np.float32)
    # Each takes the other's variable for its slot: locks taken in the order of the inputs would block for ever.
    ops = [
        tf.raw_ops.ResourceApplyMomentum(var=v.handle, accum=u.handle, lr=0.0, grad=one, momentum=1.0)
        for v, u in ((a, b), (b, a))
    ]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())

        def work(op: Any) -> None:
            for _ in range(200):
                sess.run(op)

        threads = [threading.Thread(target=work, args=(op,)) for op in ops * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        np.testing.assert_array_equal(sess.run(a), np.full(64, 400.0))
        np.testing.assert_array_equal(sess.run(b), np.full(64, 400.0))


def test_shapes_are_checked_while_building() -> None:
    var = tf.Variable(np.zeros((3, 2), np.float32))
    accum = tf.Variable(np.zeros((3, 2), np.float32))
    other = tf.Variable(np.zeros((2, 2), np.float32))
    handles = {"var": var.handle, "accum": accum.handle, "lr": 0.1}
    ones = np.ones((2, 2), np.float32)
    sparse = tf.raw_ops.ResourceSparseApplyAdagrad
    with pytest.raises(ValueError, match="shape"):
        sparse(**{**handles, "accum": other.handle}, grad=ones, indices=[0, 1])
    with pytest.raises(ValueError, match="shape"):
        sparse(**handles, grad=ones, indices=[0, 1, 2])
    with pytest.raises(ValueError, match="rank 1"):
        sparse(**handles, grad=ones, indices=[[0, 1]])
    with pytest.raises(ValueError, match="shape"):
        sparse(**handles, grad=np.ones((2, 5), np.float32), indices=[0, 1])
    with pytest.raises(ValueError, match="dtype"):
        double = tf.Variable(np.zeros((3, 2)))
        sparse(**{**handles, "accum": double.handle}, grad=ones, indices=[0, 1])


def test_shapes_are_checked_while_running() -> None:
    var = tf.Variable(np.zeros((3, 2), np.float32))
    accum = tf.Variable(np.ones((3, 2), np.float32))
    scalar = tf.Variable(1.0)
    lr = tf.placeholder(tf.float32)
    grad, rows = tf.placeholder(tf.float32), tf.placeholder(tf.int64)
    op = tf.raw_ops.ResourceSparseApplyAdagrad(var=var.handle, accum=accum.handle, lr=lr, grad=grad, indices=rows)
    good = {lr: 0.1, grad: np.ones((2, 2)), rows: [0, 1]}
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for change, message in (
            ({lr: [0.1]}, "lr is not a scalar"),
            ({rows: [[0, 1]]}, "one-dimensional"),
            ({rows: [0, 1, 2]}, "first dimension"),
            ({grad: np.ones((2, 3))}, "match from dimension 1"),
            ({grad: np.ones(2)}, "match from dimension 1"),
            ({grad: 1.0}, "match from dimension 1"),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                sess.run(op, {**good, **change})
        np.testing.assert_array_equal(sess.run(var), np.zeros((3, 2)))
        sess.run(op, good)
        with pytest.raises(ValueError, match="rank"):
            tf.raw_ops.ResourceSparseApplyAdagrad(
                var=scalar.handle, accum=scalar.handle, lr=0.1, grad=grad, indices=rows
            )
