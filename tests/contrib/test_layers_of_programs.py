"""tf.contrib.layers and tf.contrib.framework: details that programs of TensorFlow 1 rely on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thalweg as tf

framework = tf.contrib.framework
layers = tf.contrib.layers


def test_fused_normalization_falls_back_where_the_op_does_not_fit() -> None:
    """As in TensorFlow 1.15's tf.layers: asking for the fused op is no error."""
    assert tf.layers.batch_normalization(tf.ones([2, 3, 4]), fused=True).shape.as_list() == [2, 3, 4]
    layer = tf.layers.BatchNormalization(fused=True, adjustment=lambda shape: (tf.ones([4]), tf.zeros([4])))
    layer.apply(tf.ones([2, 3, 3, 4]), training=True)
    assert not layer.fused
    layer = tf.layers.BatchNormalization(fused=True)
    layer.apply(tf.ones([2, 3, 3, 4]))
    assert layer.fused


def test_keypoints_are_row_then_column() -> None:
    image = np.zeros([1, 3, 5, 1], np.float32)
    image[0, 0, 4, 0] = 100.0
    with tf.Session() as sess:
        np.testing.assert_allclose(sess.run(layers.spatial_softmax(tf.constant(image), 1.0)), [[-1, 1]], atol=1e-6)


def test_outliers_are_clipped_to_the_average_norm() -> None:
    variable = tf.get_variable("v", initializer=10.0)
    clip = layers.adaptive_clipping_fn()
    ((gradient, _),) = clip([(tf.constant(5.0), variable)])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        np.testing.assert_allclose(sess.run(gradient), np.exp(0.05 * np.log(5.0)), rtol=1e-5)


@pytest.mark.parametrize("kind", [tf.int32, tf.float64])
def test_gradient_multipliers_may_be_tensors(kind: tf.DType) -> None:
    variable = tf.get_variable("v", initializer=10.0)
    train = layers.optimize_loss(
        2.0 * variable, None, 0.5, "SGD", gradient_multipliers={"v": tf.constant(3, kind)}, summaries=[]
    )
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(train)
        assert sess.run(variable) == 7.0


def test_sum_of_no_regularizers_is_none() -> None:
    assert layers.sum_regularizer([None, None]) is None
    assert layers.sum_regularizer([None, layers.l1_regularizer(1.0)]) is not None


def test_integer_activations_are_summarized() -> None:
    layers.summarize_activation(tf.nn.relu(tf.constant([0, 7]), name="relu"))
    layers.summarize_tensor(tf.constant(1.0, name="loss"))
    names = [summary.op.name for summary in tf.get_collection(tf.GraphKeys.SUMMARIES)]
    assert names == ["relu/zeros", "relu/activation", "loss_summary"]


def test_names_of_outputs_are_an_attribute() -> None:
    output = layers.fully_connected(tf.ones([2, 3]), 4, outputs_collections="ends", scope="fc")
    assert output.aliases == ["fc"]
    assert list(layers.utils.convert_collection_to_dict("ends")) == ["fc"]
    for wrong in ("3", 3.3, 0):
        with pytest.raises(ValueError, match="positive integer"):
            layers.utils.n_positive_integers(wrong, [1])


def test_refused_arguments_of_layers() -> None:
    images = tf.ones([1, 4, 4, 4])
    with pytest.raises(ValueError, match=r"data_format has to be either NCHW or NHWC. Got CHWN"):
        layers.avg_pool2d(images, 2, data_format="CHWN")
    with pytest.raises(ValueError, match=r"data_format has to be either NCHW or NHWC."):
        layers.images_to_sequence(images, "NHCW")
    with pytest.raises(ValueError, match="Axis is out of bounds"):
        layers.group_norm(images, 2, channels_axis=5)
    with pytest.raises(ValueError, match="4 channels is not commensurate with 3 groups"):
        layers.group_norm(images, 3)
    with pytest.raises(ValueError, match="rank of x must be at least 2 not: 1"):
        layers.legacy_fully_connected(tf.ones([3]), 2)
    with pytest.raises(ValueError, match="last dimension of x must be known"):
        layers.legacy_fully_connected(tf.placeholder(tf.float32, [2, None]), 2)


def test_names_of_nodes() -> None:
    images = tf.ones([1, 4, 4, 4])
    assert layers.pool(images, [2, 2], "AVG").op.name == "avg_pool"
    assert layers.instance_norm(images).op.name.startswith("InstanceNorm/instancenorm")


def test_a_variable_is_in_the_given_collections_only() -> None:
    other, usual = framework.variable("b", [], collections=["A"]), framework.variable("c", [])
    assert tf.global_variables() == [usual] and tf.get_collection("A") == [other]


def test_values_are_cast_to_the_type_of_their_variable() -> None:
    variable = framework.variable("v", [2])
    op, feed = framework.assign_from_values({"v": np.array([1.0, 2.0])})
    with tf.Session() as sess:
        sess.run(op, feed)
        assert sess.run(variable).tolist() == [1.0, 2.0]


def test_parts_and_a_whole_variable_take_one_value(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.get_variable("v", initializer=[[1.0, 2.0], [3.0, 4.0]])
        sess.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(sess, str(tmp_path / "model"))
    parts = framework.variable("v", [2, 2], partitioner=tf.variable_axis_size_partitioner(8))
    whole = framework.variable("w", [2, 2])
    op, feed = framework.assign_from_checkpoint(path, {"v": [*parts, whole]})
    with tf.Session() as sess:
        sess.run(op, feed)
        assert sess.run([parts.as_tensor(), whole])[0].tolist() == sess.run(whole).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_scoped_arguments_come_in_their_order() -> None:
    @framework.add_arg_scope
    def function(x: int, zeta: int = 1, alpha: int = 2, *, beta: int = 3) -> int:
        return x + zeta + alpha + beta

    assert framework.arg_scoped_arguments(function) == ("zeta", "alpha", "beta")


def test_a_custom_gradient_gets_the_tensors_that_were_given() -> None:
    seen = []

    @tf.custom_gradient
    def function(x: tf.Tensor) -> tuple[tf.Tensor, object]:
        seen.append(x)
        return 2.0 * x, lambda dy: 5.0 * dy

    x = tf.constant(3.0)
    y = function(x)
    assert seen[0] is x
    with tf.Session() as sess:
        assert sess.run([y, tf.gradients(y, x)[0]]) == [6.0, 5.0]


def test_an_evaluation_ends_by_the_counter_it_is_given() -> None:
    hook = tf.contrib.training.StopAfterNEvalsHook(4)
    counter = tf.get_variable("counter", initializer=0, trainable=False)
    steps = tf.assign_add(counter, 2)
    hook._set_evals_completed_tensor(steps)
    runs = 0
    with tf.train.MonitoredSession(hooks=[hook]) as sess:
        while not sess.should_stop():
            sess.run(steps)
            runs += 1
    assert runs == 2


def test_initializers_refuse_integers() -> None:
    with pytest.raises(TypeError, match="non-floating point type"):
        layers.variance_scaling_initializer()([2, 2], dtype=tf.int32)


def test_elu_is_a_layer() -> None:
    assert layers.elu(tf.ones([2, 3]), 4).op.type == "Elu"
