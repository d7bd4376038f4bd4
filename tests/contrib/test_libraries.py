"""Smaller contrib libraries: hyperparameters, optimizers, metrics, equations, clustering, images, text, summaries."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf

contrib: Any = tf.contrib


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def test_hparams_keep_their_types() -> None:
    hparams = contrib.training.HParams(rate=0.1, units=[10, 20], name="a", flag=False, steps=3)
    hparams.parse("rate=1e-2,units=[1,2,3],flag=true,steps=7")
    assert hparams.values() == {"rate": 0.01, "units": [1, 2, 3], "name": "a", "flag": True, "steps": 7}
    assert hparams.parse("units[1]=9").units == [1, 9, 3] and "rate" in hparams
    assert contrib.training.HParams(a=1).parse_json('{"a": 2}').to_json() == '{"a": 2}'
    assert hparams.get("missing", 4) == 4 and hparams.get("rate", 1.0) == 0.01
    for bad in ("steps=1.5", "nope=1", "rate=x", "flag=2", "rate", "units=1", "steps=[1]"):
        with pytest.raises(ValueError):
            contrib.training.HParams(rate=0.1, units=[1], flag=True, steps=3).parse(bad)
    with pytest.raises(ValueError, match="reserved"):
        hparams.add_hparam("rate", 1)
    with pytest.raises(ValueError, match="empty"):
        contrib.training.HParams(a=[])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("AdamWOptimizer", (0.01, 0.1)), ("MomentumWOptimizer", (0.01, 0.05, 0.5)), ("NadamOptimizer", (0.1,)),
        ("AdaMaxOptimizer", (0.1,)), ("AddSignOptimizer", (0.1,)), ("PowerSignOptimizer", (0.1,)),
        ("LARSOptimizer", (5.0,)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("sparse", [False, True])
def test_an_optimizer_reduces_the_loss(name: str, arguments: tuple[float, ...], sparse: bool) -> None:
    w = tf.Variable([[1.0], [2.0]])
    loss = tf.reduce_sum(tf.square(tf.gather(w, [0, 1]) if sparse else w))
    step = tf.train.get_or_create_global_step()
    train = getattr(contrib.opt, name)(*arguments).minimize(loss, step)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        first = sess.run(loss)
        for _ in range(10):
            sess.run(train)
        assert sess.run(loss) < first and sess.run(step) == 10


def test_weights_decay_apart_from_the_gradient() -> None:
    a, b = tf.Variable([1.0]), tf.Variable([1.0])
    optimizer = contrib.opt.extend_with_decoupled_weight_decay(tf.train.GradientDescentOptimizer)(
        0.1, learning_rate=1.0
    )
    train = optimizer.minimize(tf.reduce_sum(0.5 * (a + b)), decay_var_list=[a])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(train)
        np.testing.assert_allclose(sess.run([a, b]), [[0.4], [0.5]], rtol=1e-6)


def test_a_swapping_saver_writes_averages_under_the_names_of_variables(tmp_path: Path) -> None:
    w = tf.Variable([4.0], name="w")
    optimizer = contrib.opt.MovingAverageOptimizer(tf.train.GradientDescentOptimizer(0.5), average_decay=0.5)
    with pytest.raises(RuntimeError, match="apply_gradients"):
        optimizer.swapping_saver()
    train = optimizer.minimize(tf.reduce_sum(tf.square(w)))
    saver = optimizer.swapping_saver()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(train)
        reader = tf.train.NewCheckpointReader(saver.save(sess, str(tmp_path / "model")))
        assert sess.run(w).tolist() == [0.0]
    assert reader.get_tensor("w").tolist() == [2.0] and reader.get_tensor("w/ExponentialMovingAverage").tolist() == [
        0.0
    ]


def test_streaming_metrics_take_predictions_first() -> None:
    predictions, labels = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.int64, [None])
    value, update = contrib.metrics.streaming_precision(predictions, labels)
    kappa, more = contrib.metrics.cohen_kappa(labels, predictions, 2)
    correlation, moment = contrib.metrics.streaming_pearson_correlation(predictions, labels)
    data = ([1, 1, 0, 0, 1], [1, 0, 0, 1, 1])
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        for part in (slice(0, 2), slice(2, 5)):
            sess.run([update, more, moment], {predictions: data[0][part], labels: data[1][part]})
        assert sess.run(value) == pytest.approx(2 / 3)
        assert sess.run(kappa) == pytest.approx((3 / 5 - 13 / 25) / (1 - 13 / 25), rel=1e-5)
        assert sess.run(correlation) == pytest.approx(np.corrcoef(*data)[0, 1], rel=1e-4)


def test_equations_are_solved() -> None:
    times = np.linspace(0.0, 2.0, 5)
    solution, facts = contrib.integrate.odeint(
        lambda y, t: tf.stack([y[1], -y[0]]), [1.0, 0.0], times, full_output=True
    )
    fixed = contrib.integrate.odeint_fixed(lambda y, t: -y, tf.constant([1.0]), np.linspace(0.0, 1.0, 50))
    with tf.Session() as sess:
        values, number, last = sess.run([solution, facts["num_func_evals"], fixed[-1]])
    np.testing.assert_allclose(values, np.stack([np.cos(times), -np.sin(times)], 1), atol=1e-4)
    assert 0 < number < 1000 and last[0] == pytest.approx(math.exp(-1), rel=1e-5)
    with pytest.raises(ValueError, match="invalid method"):
        contrib.integrate.odeint(lambda y, t: y, [1.0], times, method="euler")
    with pytest.raises(TypeError, match="not callable"):
        contrib.integrate.odeint(3, [1.0], times)


@pytest.mark.parametrize("start", ["random", "kmeans_plus_plus"])
def test_clusters_are_found(start: str) -> None:
    random = np.random.RandomState(0)
    centres = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    points = np.concatenate([centre + random.randn(20, 2) * 0.1 for centre in centres]).astype(np.float32)
    kmeans = contrib.factorization.KMeans(tf.constant(points), 3, initial_clusters=start, random_seed=4)
    _, indices, scores, ready, init, train = kmeans.training_graph()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(init)
        assert sess.run(ready)
        before = sess.run(scores[0]).sum()
        for _ in range(10):
            sess.run(train)
        found, after = sess.run([indices[0], scores[0]])
    assert after.sum() <= before
    if start == "kmeans_plus_plus":
        assert [len(set(found[i : i + 20])) for i in (0, 20, 40)] == [1, 1, 1] and len(set(found)) == 3


def test_images_are_moved_and_turned() -> None:
    image = np.arange(12, dtype=np.float32).reshape(3, 4)
    moved = contrib.image.translate(image, [1.0, 0.0])
    turned = contrib.image.rotate(np.arange(9, dtype=np.float32).reshape(3, 3), math.pi / 2)
    half = contrib.image.transform(image, [1, 0, 0.5, 0, 1, 0, 0, 0], interpolation="BILINEAR")
    warped = contrib.image.dense_image_warp(image[None, :, :, None], tf.ones([1, 3, 4, 2]))
    with tf.Session() as sess:
        moved, turned, half, warped = sess.run([moved, turned, half, warped])
    np.testing.assert_array_equal(moved, np.pad(image[:, :-1], [[0, 0], [1, 0]]))
    np.testing.assert_array_equal(turned, np.rot90(np.arange(9).reshape(3, 3)))
    np.testing.assert_allclose(half[:, :3], image[:, :3] + 0.5)
    np.testing.assert_allclose(warped[0, 1:, 1:, 0], image[:-1, :-1])
    with pytest.raises(ValueError, match="interpolation"):
        contrib.image.rotate(image, 0.0, "CUBIC")


def test_words_become_numbers(tmp_path: Path) -> None:
    texts = ["This is a cat", "This must be boy", "This is a a dog"]
    processor = contrib.learn.preprocessing.VocabularyProcessor(4)
    rows = np.array(list(processor.fit_transform(texts)))
    assert rows.tolist() == [[1, 2, 3, 4], [1, 5, 6, 7], [1, 2, 3, 3]]
    path = str(tmp_path / "vocabulary")
    processor.save(path)
    again = contrib.learn.preprocessing.VocabularyProcessor.restore(path)
    assert next(again.transform(["a zebra"])).tolist() == [3, 0, 0, 0] and len(again.vocabulary_) == 9
    assert next(iter(again.reverse(rows))) == "This is a cat"


def test_csv_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "iris.csv"
    path.write_text("2,2,a,b\n1.0,2.0,0\n3.0,4.0,1\n")
    data = contrib.learn.datasets.base.load_csv_with_header(str(path), np.int32, np.float32)
    assert data.data.tolist() == [[1.0, 2.0], [3.0, 4.0]] and data.target.tolist() == [0, 1]
    with pytest.raises(FileNotFoundError, match="downloads nothing"):
        contrib.learn.datasets.base.maybe_download("x", str(tmp_path), "http://example.invalid/x")


def test_summaries_are_written_by_operations(tmp_path: Path) -> None:
    step = tf.train.get_or_create_global_step()
    writer = contrib.summary.create_file_writer(str(tmp_path), flush_millis=1000)
    with writer.as_default(), contrib.summary.record_summaries_every_n_global_steps(2):
        contrib.summary.scalar("loss", tf.cast(step, tf.float32) * 10)
    assert len(contrib.summary.all_summary_ops()) == 1
    count = tf.assign_add(step, 1)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        contrib.summary.initialize(session=sess)
        for _ in range(4):
            sess.run(contrib.summary.all_summary_ops())
            sess.run(count)
        sess.run(writer.close())
    events = [e for e in tf.train.summary_iterator(str(next(tmp_path.iterdir()))) if e.summary.value]
    assert [(e.step, e.summary.value[0].tag, e.summary.value[0].simple_value) for e in events] == [
        (0, "loss", 0.0),
        (2, "loss", 20.0),
    ]


def test_the_projector_is_told_what_to_show(tmp_path: Path) -> None:
    projector = contrib.tensorboard.plugins.projector
    config = projector.ProjectorConfig()
    config.embeddings.add().tensor_name = "embedding"
    writer = tf.summary.FileWriter(str(tmp_path))
    projector.visualize_embeddings(writer, config)
    writer.close()
    assert 'tensor_name: "embedding"' in (tmp_path / "projector_config.pbtxt").read_text()


def test_normal_vectors_have_density_and_divergence() -> None:
    a = contrib.distributions.MultivariateNormalDiag([0.0, 1.0], [1.0, 2.0])
    b = contrib.distributions.MultivariateNormalDiag([0.0, 0.0], [1.0, 1.0])
    with tf.Session() as sess:
        density, divergence, draws = sess.run([
            a.log_prob([1.0, 1.0]), tf.distributions.kl_divergence(a, b), a.sample(2000, seed=1)])  # fmt: skip
    assert density == pytest.approx(-0.5 - math.log(2.0) - math.log(2 * math.pi), rel=1e-5)
    assert divergence == pytest.approx(0.5 * (4 + 1 - 1 - math.log(4.0)), rel=1e-5)
    np.testing.assert_allclose(draws.mean(0), [0, 1], atol=0.15)
    np.testing.assert_allclose(draws.std(0), [1, 2], atol=0.15)


def test_a_graph_is_frozen_and_made_smaller(tmp_path: Path) -> None:
    from thalweg.python.tools import freeze_graph, optimize_for_inference_lib

    x = tf.placeholder(tf.float32, [None, 4, 4, 1], name="x")
    net = contrib.layers.conv2d(
        x, 2, 3, normalizer_fn=contrib.layers.batch_norm, normalizer_params={"is_training": False}
    )
    output = tf.identity(net, name="y")
    image = np.random.RandomState(0).randn(1, 4, 4, 1)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for variable in tf.global_variables():
            sess.run(tf.assign(variable, tf.random_uniform(variable.shape, 0.5, 1.5, seed=1)))
        expected = sess.run(output, {x: image})
        checkpoint = tf.train.Saver().save(sess, str(tmp_path / "model"))
        tf.train.write_graph(sess.graph_def, str(tmp_path), "graph.pbtxt")
    frozen = freeze_graph.freeze_graph(
        str(tmp_path / "graph.pbtxt"), "", False, checkpoint, "y", "", "", str(tmp_path / "frozen.pb"), True, ""
    )
    assert {node.op for node in frozen.node}.isdisjoint({"VarHandleOp", "VariableV2"})
    smaller = optimize_for_inference_lib.optimize_for_inference(frozen, ["x"], ["y"], tf.float32.as_datatype_enum)
    assert not any("BatchNorm" in node.op for node in smaller.node)
    for graph_def in (frozen, smaller):
        with tf.Graph().as_default() as graph, tf.Session() as sess:
            tf.import_graph_def(graph_def, name="")
            y = graph.get_tensor_by_name("y:0")
            np.testing.assert_allclose(sess.run(y, {"x:0": image}), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="doesn't exist"):
        freeze_graph.freeze_graph(str(tmp_path / "graph.pbtxt"), "", False, "nope", "y", "", "", "", True, "")


def test_unused_nodes_are_stripped_from_a_file(tmp_path: Path) -> None:
    from thalweg.python.tools import strip_unused_lib

    x = tf.subtract(tf.constant(1.0), 3.0, name="x")
    tf.add(tf.multiply(x, 2.0, name="y"), 1.0, name="later")
    tf.train.write_graph(tf.get_default_graph(), str(tmp_path), "all.pbtxt")
    source, target = str(tmp_path / "all.pbtxt"), str(tmp_path / "lean.pb")
    kind = tf.float32.as_datatype_enum
    assert strip_unused_lib.strip_unused_from_files(source, False, target, True, "x", "y", kind) is None
    lean = tf.GraphDef.FromString(Path(target).read_bytes())
    assert sorted(node.op for node in lean.node) == ["Const", "Mul", "Placeholder"]
    assert next(node for node in lean.node if node.name == "x").attr["shape"].shape.unknown_rank
    assert strip_unused_lib.strip_unused_from_files("absent", False, target, True, "x", "y", kind) == -1


def test_examples_of_like_length_share_a_batch() -> None:
    length = tf.train.input_producer(tf.constant([1, 2, 3, 7, 8, 9], tf.int32), shuffle=False).dequeue()
    example = tf.range(length)
    lengths, (rows,) = contrib.training.bucket_by_sequence_length(length, [example], 3, [5], dynamic_pad=True)
    with tf.Session() as sess, contrib.slim.queues.QueueRunners(sess):
        for _ in range(4):
            sizes, batch = sess.run([lengths, rows])
            assert set(sizes) in ({1, 2, 3}, {7, 8, 9}) and batch.shape == (3, max(sizes))
    with pytest.raises(ValueError, match="increase"):
        contrib.training.bucket_by_sequence_length(length, [example], 3, [5, 5])


def test_triplets_with_semihard_negatives() -> None:
    random = np.random.RandomState(0)
    x, labels = random.randn(8, 3).astype(np.float32), np.array([0, 0, 1, 1, 2, 2, 0, 1])
    d = np.square(x[:, None] - x[None]).sum(-1)
    total, count = 0.0, 0
    for a in range(8):
        for p in range(8):
            if a == p or labels[a] != labels[p]:
                continue
            negatives = d[a][labels != labels[a]]
            beyond = negatives[negatives > d[a, p]]
            total += max(0.0, 1.0 + d[a, p] - (beyond.min() if len(beyond) else negatives.max()))
            count += 1
    with tf.Session() as sess:
        found = sess.run(contrib.losses.metric_learning.triplet_semihard_loss(tf.constant(labels), tf.constant(x)))
    assert found == pytest.approx(total / count, rel=1e-4)


def test_a_saved_model_becomes_a_function(tmp_path: Path) -> None:
    x = tf.placeholder(tf.float32, [None])
    y = x * tf.Variable(3.0)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(sess, str(tmp_path / "model"), {"x": x}, {"y": y})
    predict = contrib.predictor.from_saved_model(str(tmp_path / "model"))
    assert predict({"x": [1.0, 2.0]})["y"].tolist() == [3.0, 6.0]
    with pytest.raises(ValueError, match="unexpected keys"):
        predict({"z": [1.0]})
    with pytest.raises(ValueError, match="Available signatures"):
        contrib.predictor.from_saved_model(str(tmp_path / "model"), "nope")


def test_sparsemax_is_the_nearest_point_of_the_simplex() -> None:
    z = np.random.RandomState(0).randn(5, 4).astype(np.float32) * 2
    with tf.Session() as sess:
        p = sess.run(contrib.sparsemax.sparsemax(z))
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-5)
    for row, point in zip(z, p, strict=True):
        threshold = (row - point)[point > 0]
        np.testing.assert_allclose(threshold, threshold[0], rtol=1e-4, atol=1e-5)
        assert (row[point == 0] <= threshold[0] + 1e-5).all()


def test_relaxed_classes_are_differentiable_rows() -> None:
    logits = tf.constant([0.0, 1.0, 2.0])
    hard = contrib.distributions.OneHotCategorical(logits)
    soft = contrib.distributions.RelaxedOneHotCategorical(0.5, logits)
    draw = soft.sample(seed=2)
    with tf.Session() as sess:
        rows, relaxed, slope, density = sess.run([
            hard.sample(3000, seed=1), draw, tf.gradients(draw[0], logits)[0], hard.log_prob([0, 0, 1])])  # fmt: skip
    np.testing.assert_allclose(rows.mean(0), np.exp([0, 1, 2]) / np.exp([0, 1, 2]).sum(), atol=0.04)
    assert relaxed.sum() == pytest.approx(1, rel=1e-5) and np.abs(slope).sum() > 0
    assert density == pytest.approx(2 - math.log(np.exp([0, 1, 2]).sum()), rel=1e-5)
    with pytest.raises(ValueError, match="not both"):
        contrib.distributions.OneHotCategorical(logits, [1.0])


def test_variables_are_counted() -> None:
    contrib.layers.fully_connected(tf.zeros([1, 2]), 3)
    assert contrib.slim.model_analyzer.analyze_vars(tf.global_variables()) == (9, 36)


def test_a_namespace_lists_the_names_that_it_shares_with_another_one() -> None:
    for space, name in (("distributions", "Normal"), ("distributions", "MultivariateNormalDiag"), ("signal", "stft")):
        assert name in dir(getattr(tf.contrib, space))
    assert "__name__" in dir(tf.contrib.distributions)
