"""tf.contrib.slim: sizes of the nets, training and evaluation loops, checkpoints, records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf

slim: Any = tf.contrib.slim
nets: Any = slim.nets


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def parameters(variables: Any) -> int:
    return sum(int(np.prod(v.shape.as_list())) for v in variables)


# Numbers of model variables of the networks without logits, as published with them.
@pytest.mark.parametrize(
    ("net", "size", "count", "shape", "blocks"),
    [
        ("inception_v1", 224, 5607184, [1, 7, 7, 1024], 16),
        ("inception_v2", 224, 10173112, [1, 7, 7, 1024], 15),
        ("inception_v3", 299, 21802784, [1, 8, 8, 2048], 18),
    ],
)
def test_inception_has_the_published_size(net: str, size: int, count: int, shape: list[int], blocks: int) -> None:
    module = getattr(nets, net)
    with slim.arg_scope(getattr(module, f"{net}_arg_scope")()):
        output, end_points = getattr(module, f"{net}_base")(tf.zeros([1, size, size, 3]))
    assert output.shape.as_list() == shape and len(end_points) == blocks
    assert parameters(slim.get_model_variables()) == count


@pytest.mark.parametrize(
    ("module", "net", "count", "key", "shape"),
    [
        ("vgg", "vgg_16", 138357544, "vgg_16/pool5", [1, 7, 7, 512]),
        ("vgg", "vgg_a", 132863336, "vgg_a/conv3/conv3_2", [1, 56, 56, 256]),
        ("alexnet", "alexnet_v2", 50303912, "alexnet_v2/fc6", [1, 1, 1, 4096]),
        ("overfeat", "overfeat", 145704424, "overfeat/conv5", [1, 12, 12, 1024]),
        ("resnet_v1", "resnet_v1_50", 25557032, "resnet_v1_50/block2", [1, 14, 14, 512]),
        ("resnet_v2", "resnet_v2_50", 25568360, "resnet_v2_50/block4", [1, 7, 7, 2048]),
    ],
)
def test_a_net_has_the_known_size(module: str, net: str, count: int, key: str, shape: list[int]) -> None:
    function = getattr(getattr(nets, module), net)
    scope = {"vgg": "vgg_arg_scope", "alexnet": "alexnet_v2_arg_scope", "overfeat": "overfeat_arg_scope"}
    size = function.default_image_size
    with slim.arg_scope(getattr(getattr(nets, module), scope.get(module, "resnet_arg_scope"))()):
        logits, end_points = function(tf.zeros([1, size, size, 3]), 1000)
    assert logits.shape.as_list() in ([1, 1000], [1, 1, 1, 1000])
    assert parameters(tf.trainable_variables()) == count
    assert end_points[key].shape.as_list() == shape


def test_resnet_with_dilation_keeps_the_output_larger() -> None:
    with slim.arg_scope(nets.resnet_v1.resnet_arg_scope()):
        blocks = [nets.resnet_v1.resnet_v1_block(f"block{i}", 2, 2, 2) for i in (1, 2, 3)]
        net, _ = nets.resnet_v1.resnet_v1(tf.zeros([1, 64, 64, 3]), blocks, global_pool=False, output_stride=8)
        assert net.shape.as_list() == [1, 8, 8, 8]
        with pytest.raises(ValueError, match="cannot be reached"):
            nets.resnet_v1.resnet_v1(tf.zeros([1, 64, 64, 3]), blocks[:1], output_stride=64, scope="b")


def test_a_small_inception_trains() -> None:
    tf.set_random_seed(1)
    pictures = np.random.RandomState(1).rand(2, 110, 110, 3).astype(np.float32)
    with slim.arg_scope(nets.inception_v3.inception_v3_arg_scope()):
        logits, end_points = nets.inception_v3.inception_v3(
            tf.constant(pictures), 3, depth_multiplier=0.01, min_depth=8, dropout_keep_prob=1.0
        )
    assert end_points["AuxLogits"].shape.as_list() == [2, 3]
    loss = tf.losses.sparse_softmax_cross_entropy(tf.constant([0, 2]), logits)
    train = slim.learning.create_train_op(loss, tf.train.GradientDescentOptimizer(0.02))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        losses = [float(sess.run(train)) for _ in range(12)]
    # Normalization over two pictures makes single steps jump.
    assert sum(losses[-4:]) < sum(losses[:4])


def model(x: Any, training: bool) -> Any:
    net = slim.stack(x, slim.fully_connected, [16, 8], scope="fc")
    net = slim.batch_norm(net, is_training=training, decay=0.5)
    return slim.fully_connected(net, 2, activation_fn=None, scope="logits")


def test_training_evaluation_and_restoring(tmp_path: Path) -> None:
    x = np.random.RandomState(0).rand(64, 8).astype(np.float32)
    y = (x.sum(1) > 4).astype(np.int64)

    def train(steps: int) -> float:
        with tf.Graph().as_default():
            tf.set_random_seed(1)
            slim.losses.sparse_softmax_cross_entropy(model(tf.constant(x), True), tf.constant(y))
            total = slim.losses.get_total_loss()
            tf.summary.scalar("total", total)
            train_op = slim.learning.create_train_op(
                total, tf.train.AdamOptimizer(0.02), clip_gradient_norm=5.0, summarize_gradients=True
            )
            return float(slim.learning.train(train_op, str(tmp_path), number_of_steps=steps, log_every_n_steps=0))

    first, last = train(1), train(60)
    assert last < first
    checkpoint = tf.train.latest_checkpoint(str(tmp_path))
    assert checkpoint is not None and checkpoint.endswith("model.ckpt-60")
    with tf.Graph().as_default():
        logits = model(tf.constant(x), False)
        values, updates = slim.metrics.aggregate_metric_map(
            {"accuracy": slim.metrics.streaming_accuracy(tf.argmax(logits, 1), tf.constant(y))}
        )
        found = slim.evaluation.evaluate_once(
            "", checkpoint, str(tmp_path / "eval"), num_evals=2, eval_op=list(updates.values()),
            final_op=list(values.values()), summary_op=None,
        )  # fmt: skip
        assert found[0] > 0.8
    with tf.Graph().as_default(), tf.Session() as sess:
        slim.stack(tf.constant(x), slim.fully_connected, [16, 8], scope="fc")
        reader = tf.train.NewCheckpointReader(checkpoint)
        slim.assign_from_checkpoint_fn(checkpoint, slim.get_variables_to_restore())(sess)
        name = "fc/fc_1/weights"
        np.testing.assert_array_equal(sess.run(slim.get_unique_variable(name)), reader.get_tensor(name))
        slim.variable("extra", [1])
        with pytest.raises(ValueError, match=r"missing variable \[extra\]"):
            slim.assign_from_checkpoint(checkpoint, slim.get_variables("extra"))
        op, feed = slim.assign_from_checkpoint(checkpoint, slim.get_variables_to_restore(), ignore_missing_vars=True)
        sess.run(op, feed)


def test_records_are_read_decoded_and_queued(tmp_path: Path) -> None:
    path = str(tmp_path / "data.tfrecord")
    with tf.python_io.TFRecordWriter(path) as writer:
        for i in range(6):
            png = bytes(tf.Session().run(tf.image.encode_png(np.full([2, 2, 3], i * 10, np.uint8))))
            features = {
                "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[png])),
                "image/format": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"png"])),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[i])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    decoder = slim.tfexample_decoder.TFExampleDecoder(
        {
            "image/encoded": tf.FixedLenFeature((), tf.string, ""),
            "image/format": tf.FixedLenFeature((), tf.string, "png"),
            "label": tf.FixedLenFeature([], tf.int64),
        },
        {"image": slim.tfexample_decoder.Image(shape=[2, 2, 3]), "label": slim.tfexample_decoder.Tensor("label")},
    )  # fmt: skip
    data = slim.dataset.Dataset(path, tf.TFRecordReader, decoder, 6, {})
    provider = slim.dataset_data_provider.DatasetDataProvider(data, shuffle=False)
    image, label = provider.get(["image", "label"])
    with pytest.raises(ValueError, match="Unknown item 'nope'"):
        provider.get(["nope"])
    with tf.Session() as sess, slim.queues.QueueRunners(sess):
        for _ in range(8):
            pixels, number = sess.run([image, label])
            assert (pixels == number * 10).all()


def test_losses_take_predictions_first() -> None:
    loss = slim.losses.mean_squared_error(tf.constant([1.0, 2.0]), tf.constant([1.0, 4.0]))
    hinge = tf.contrib.losses.hinge_loss(tf.constant([0.5]), tf.constant([0.0]))
    with tf.Session() as sess:
        assert sess.run(loss) == 2.0 and sess.run(hinge).tolist() == [1.5]
    assert slim.losses.get_losses() == [loss]


def test_units_of_residual_blocks_may_be_tuples() -> None:
    with tf.Graph().as_default():
        nets = tf.contrib.slim.nets
        block = nets.resnet_utils.Block("block1", nets.resnet_v1.bottleneck, [(4, 1, 1), (4, 1, 2)])
        images = tf.zeros([1, 32, 32, 3])
        net, _ = nets.resnet_v1.resnet_v1(images, [block], include_root_block=False, global_pool=False)
        assert net.shape.as_list() == [1, 16, 16, 4]
