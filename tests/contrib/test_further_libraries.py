"""tf.contrib's solvers, sampling, copies of graphs, summaries in tests, small functions: values of TensorFlow 1.15."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf

contrib: Any = tf.contrib


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        yield made


def test_solvers_of_operators() -> None:
    random = np.random.RandomState(2)
    a, b = random.rand(6, 4), random.rand(6)
    with tf.Session() as session:
        operator = contrib.solvers.util.create_operator(tf.constant(a))
        least = session.run(contrib.solvers.least_squares.cgls(operator, tf.constant(b)))
        np.testing.assert_allclose(least.x, np.linalg.lstsq(a, b, rcond=None)[0], rtol=1e-6)
        assert least.i == 4 and least.r.shape == (6,) and least.p.shape == (4,)
        square = contrib.solvers.util.create_operator(tf.constant(a.T @ a))
        solution = session.run(contrib.solvers.linear_equations.conjugate_gradient(square, tf.constant(b[:4])))
        np.testing.assert_allclose(solution.x, np.linalg.solve(a.T @ a, b[:4]), rtol=1e-6)
        plain = contrib.solvers.util.identity_operator(tf.constant(a.T @ a))
        same = contrib.solvers.linear_equations.conjugate_gradient(
            square, tf.constant(b[:4]), preconditioner=plain, x=tf.constant(solution.x)
        )
        np.testing.assert_allclose(session.run(same.x), solution.x, rtol=1e-6)
        bands = session.run(contrib.solvers.lanczos.lanczos_bidiag(operator, 3, starting_vector=tf.constant(a[:, 0])))
        lower = np.zeros((4, 3))
        lower[np.arange(3), np.arange(3)], lower[np.arange(1, 4), np.arange(3)] = bands.alpha, bands.beta
        np.testing.assert_allclose(a @ bands.v, bands.u @ lower, atol=1e-12)
        np.testing.assert_allclose(bands.u.T @ bands.u, np.eye(4), atol=1e-12)


def _batches(build: Any, count: int) -> list[Any]:
    tf.set_random_seed(1)
    wanted = build()
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        found = [session.run(wanted) for _ in range(count)]
        coordinator.request_stop()
        coordinator.join(threads, ignore_live_threads=True)
    return found


def test_rejection_keeps_examples_by_their_probability() -> None:
    found = _batches(lambda: contrib.training.rejection_sample([tf.random_uniform([])], lambda x: x[0], 4), 200)
    assert np.shape(found) == (200, 1, 4) and 0.6 < np.mean(found) < 0.73  # The mean of density 2x is 2/3.
    many = lambda: contrib.training.rejection_sample(  # noqa: E731
        [tf.range(10)], lambda x: tf.to_float(x[0] > 6), 4, enqueue_many=True, runtime_checks=True
    )
    assert set(np.ravel(_batches(many, 10))) == {7, 8, 9}


def test_classes_get_the_shares_that_are_asked_for() -> None:
    def known() -> Any:
        label = tf.random_uniform([], 0, 3, dtype=tf.int32)
        return contrib.training.stratified_sample([label * 2], label, [0.2, 0.5, 0.3], 8, init_probs=[1 / 3] * 3)

    found = _batches(known, 200)
    labels = np.array([each[1] for each in found])
    assert [np.mean(labels == i) for i in range(3)] == pytest.approx([0.2, 0.5, 0.3], abs=0.04)
    assert np.array_equal([each[0][0] for each in found], labels * 2)

    def counted() -> Any:
        labels = tf.random_uniform([16], 0, 2, dtype=tf.int32)
        return contrib.training.stratified_sample([labels], labels, [0.9, 0.1], 8, enqueue_many=True)[1]

    assert np.mean(_batches(counted, 200)[20:]) == pytest.approx(0.1, abs=0.03)
    with pytest.raises(ValueError, match="sum to 1"):
        contrib.training.stratified_sample([tf.constant(1)], tf.constant(0), [0.5, 0.6], 2)


def test_rows_are_drawn_again_at_rates() -> None:
    x = tf.range(1000)
    rows = contrib.training.resample_at_rate([x, x * 2], tf.fill([1000], 2.5), seed=3)
    rare = contrib.training.resample_at_rate([x], tf.zeros([1000]), seed=3)[0]
    weighted, rates = contrib.training.weighted_resample([tf.range(10)], tf.to_float(tf.range(10)), 1.0, seed=5)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        one, two = session.run(rows)
        assert np.array_equal(one * 2, two) and (np.diff(one) >= 0).all() and 2300 < len(one) < 2700
        assert len(session.run(rare)) == 0
        drawn = [session.run([weighted[0], rates]) for _ in range(300)]
    counts = np.bincount(np.concatenate([rows for rows, _ in drawn]), minlength=10) / 300
    assert counts == pytest.approx(np.arange(10) / 4.5, abs=0.3)
    assert drawn[0][1] == pytest.approx(drawn[0][0] / 4.5, rel=1e-5)


def test_operations_and_variables_are_copied_to_another_graph(graph: tf.Graph) -> None:
    v = tf.Variable([2.0, 3.0], name="v")
    unused = tf.Variable(1.0, name="unused", trainable=False)
    y = tf.reduce_sum(v * tf.placeholder(tf.float32, [2], name="x"), name="y")
    copy = contrib.copy_graph
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(v.assign([5.0, 7.0]))
        other = tf.Graph()
        copied = copy.copy_variable_to_graph(v, other, "c")
    assert copied.graph is other and copied.name == "c/v:0" and copied in other.get_collection("trainable_variables")
    result = copy.copy_op_to_graph(y, other, [v], "c")
    assert result.name == "c/y:0" and copy.get_copied_op(v, other, "c") is copied
    assert copy.copy_op_to_graph(y, other, [v], "c") is result  # Not a second time.
    with tf.Session(graph=other) as session:
        session.run(copied.initializer)
        assert session.run(result, {"c/x:0": [1.0, 2.0]}) == 19.0
    assert copy.copy_variable_to_graph(unused, other) not in other.get_collection("trainable_variables")
    with pytest.raises(TypeError):
        copy.copy_op_to_graph("y", other, [])


def test_summaries_are_checked(tmp_path: Path) -> None:
    testing = contrib.testing
    with tf.summary.FileWriter(str(tmp_path)) as writer:
        for step in range(3):
            writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="loss", simple_value=step / 2)]), step)
    events = testing.latest_summaries(str(tmp_path))
    assert len(events) == 3 and testing.simple_values_from_events(events, ["loss"]) == {"loss": 1.0}
    testing.assert_summary(["loss"], {"loss": 1.0}, events[-1].summary)
    with pytest.raises(AssertionError, match=r"0\.5"):
        testing.assert_summary(["loss"], {"loss": 0.5}, events[-1].summary)
    with pytest.raises(AssertionError, match="other"):
        testing.assert_summary(["other"], None, events[-1].summary)
    assert testing.latest_event_file(str(tmp_path / "nothing")) is None
    testing.FakeSummaryWriter.install()
    try:
        fake = tf.summary.FileWriterCache.get(str(tmp_path))
        fake.add_summary(events[1].summary, 7)
        assert fake is tf.summary.FileWriterCache.get(str(tmp_path)) and list(fake.summaries) == [7]
    finally:
        testing.FakeSummaryWriter.uninstall()
    assert not isinstance(tf.summary.FileWriterCache.get(str(tmp_path)), testing.FakeSummaryWriter)
    tf.summary.FileWriterCache.clear()


def test_losses_and_functions_of_networks() -> None:
    random = np.random.RandomState(3)
    labels, rows = np.array([0, 1, 0, 2, 1]), random.rand(5, 4).astype(np.float32)
    metric, nn = contrib.losses.metric_learning, contrib.nn
    sets = [tf.SparseTensor([[0, i] for i in each], [1] * len(each), [1, 4]) for each in ([0, 2], [1], [0, 3])]
    with tf.Session() as session:
        # Both values are those of TensorFlow 1.15.
        assert session.run(metric.lifted_struct_loss(labels, rows)) == pytest.approx(4.38591, rel=1e-5)
        pairs = metric.npairs_loss_multilabel(sets, tf.constant(rows[:3]), tf.constant(rows[2:]))
        assert session.run(pairs) == pytest.approx(1.0676755, rel=1e-5)
        clipped = session.run(
            nn.scaled_softplus(tf.constant([-1.0, 0.0, 2.0, 9.0]), tf.constant(2.0), tf.constant(3.0))
        )
        assert clipped == pytest.approx([0.948154, 1.3862944, 2.6265233, 3.0])
        weights, biases = tf.constant(random.rand(9, 4).astype(np.float32)), tf.zeros([9])
        sampled = nn.sampled_sparse_softmax_loss(weights, biases, tf.constant(labels), tf.constant(rows), 5, 9)
        assert session.run(sampled).shape == (5,)
    with pytest.raises(TypeError, match="SparseTensors"):
        metric.npairs_loss_multilabel([labels], rows, rows)


def test_small_functions_of_framework() -> None:
    framework = contrib.framework
    assert framework.smart_case([(False, lambda: 1), (tf.constant(True), lambda: 2)]) == 2
    assert framework.smart_case({False: lambda: 1}, default=lambda: 3) == 3
    choice = tf.placeholder(tf.bool, [])
    open_case = framework.smart_case([(choice, lambda: tf.constant(4)), (False, lambda: 1)], lambda: tf.constant(5))
    sparse = tf.SparseTensorValue([[0]], [1.0], [2])
    assert isinstance(framework.convert_to_tensor_or_sparse_tensor(sparse), tf.SparseTensor)
    assert framework.convert_to_tensor_or_sparse_tensor([1, 2]).dtype == tf.int32
    with pytest.raises(RuntimeError, match="Sparse dtype"):
        framework.convert_to_tensor_or_sparse_tensor(sparse, tf.int32)
    assert framework.strip_name_scope("a/b", "a") == "b" == framework.strip_name_scope("b", None)
    assert framework.prepend_name_scope("b", "a/") == "a/b"
    nested = framework.py_func(
        lambda a, b: {"s": a + b["x"], "t": (a,)}, [tf.constant(2)], {"b": {"x": tf.constant(3)}},
        {"s": tf.int32, "t": (tf.int32,)}, tf.TensorShape([]),
    )  # fmt: skip
    assert nested["s"].shape.as_list() == []
    with tf.Session() as session:
        assert session.run(nested) == {"s": 5, "t": (2,)}
        assert [session.run(open_case, {choice: value}) for value in (True, False)] == [4, 5]
    with pytest.raises(TypeError, match="args must be list"):
        framework.py_func(len, 3)


def test_deprecated_arguments_warn_once(caplog: pytest.LogCaptureFixture) -> None:
    @contrib.framework.deprecated_args("2030-01-01", "Use b.", "a")
    def by_name(a: int = 0, b: int = 0) -> int:
        return a + b

    @contrib.framework.deprecated_arg_values(None, "Use c=2.", c=1)
    def by_value(c: int = 0) -> int:
        return c

    with caplog.at_level("WARNING"):
        assert by_name(b=2) == 2 and by_name(a=1) == 1 and by_name(1) == 1 and by_value(1) == 1 and by_value(2) == 2
    assert [record.args[1] for record in caplog.records if record.args] == ["a", "c=1"]
    with pytest.raises(ValueError, match="no arguments"):
        contrib.framework.deprecated_args(None, "x", "z")(by_value)


def test_requests_to_compile(graph: tf.Graph) -> None:
    with contrib.compiler.jit.experimental_jit_scope():
        x = tf.constant(2.0)
    v = tf.Variable(1.0)
    outputs = contrib.compiler.xla.compile(lambda a: (a * 3, v.assign_add(1.0).op), [x])
    options = contrib.tfprof.model_analyzer.TRAINABLE_VARS_PARAMS_STAT_OPTIONS
    profile = contrib.tfprof.model_analyzer.print_model_analysis(graph, tfprof_options={**options, "output": "none"})
    assert profile.total_parameters == 1
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run(outputs) == [6.0] and session.run(v) == 2.0
    assert contrib.util.ops_used_by_graph_def(tf.Graph().as_graph_def()) == []
    assert "Mul" in [op.name for op in contrib.util.stripped_op_list_for_graph(graph.as_graph_def()).op]
