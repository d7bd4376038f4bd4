"""Small networks of tf.layers and what TensorFlow computes for them; see make_rnn_values.py.

`TF_USE_LEGACY_KERAS=1 python -m tests.data.make_layer_values` writes layer_values.npz anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.data.make_rnn_values import Network, write

VALUES = Path(__file__).with_name("layer_values.npz")
SHAPE = (2, 6, 5, 4)


def _of(rank: int, function: str, *args: Any, **options: Any) -> Network:
    """A layer on an input of that rank, the same numbers in another shape."""

    def build(tf: Any, x: Any) -> Any:
        shape = {2: [12, 20], 3: [2, 30, 4], 4: list(SHAPE), 5: [2, 3, 2, 5, 4]}[rank]
        given = {key: getattr(tf.nn, value) if key == "activation" else value for key, value in options.items()}
        return getattr(tf.layers, function)(tf.reshape(x, shape), *args, **given)

    return build


def _normalized(rank: int, training: Any, **options: Any) -> Network:
    """Batch normalization, with the moving averages after the update among the outputs."""

    def build(tf: Any, x: Any) -> Any:
        inputs = tf.reshape(x, {2: [12, 20], 3: [2, 30, 4], 4: list(SHAPE)}[rank])
        chosen = tf.placeholder_with_default(bool(training), []) if isinstance(training, int) else training == "yes"
        output = tf.layers.batch_normalization(inputs, training=chosen, momentum=0.8, **options)
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            averages = [v.read_value() for v in tf.global_variables() if "moving" in v.name or "renorm" in v.name]
        # The sum of squares of normalized values hardly depends on the inputs.
        return [output * tf.cos(inputs), *averages]

    return build


NETWORKS: dict[str, Network] = {
    "dense": _of(2, "dense", 3, activation="relu"),
    "dense_3": _of(3, "dense", 3, use_bias=False),
    "dropout": _of(3, "dropout", 0.3, seed=4, training=True),
    "conv1d": _of(3, "conv1d", 3, 4, strides=2),
    "conv1d_dilated": _of(3, "conv1d", 3, 4, dilation_rate=3, padding="same"),
    "conv2d": _of(4, "conv2d", 3, (2, 3), activation="tanh"),
    "conv2d_same": _of(4, "conv2d", 3, 3, (2, 1), "same", use_bias=False),
    "conv2d_dilated": _of(4, "conv2d", 3, 2, dilation_rate=(2, 1)),
    "conv3d": _of(5, "conv3d", 3, 2),
    "conv3d_same": _of(5, "conv3d", 3, (1, 2, 3), strides=2, padding="same"),
    "conv2d_transpose": _of(4, "conv2d_transpose", 3, 3, strides=2),
    "conv2d_transpose_same": _of(4, "conv2d_transpose", 3, (2, 3), strides=(1, 2), padding="same"),
    "conv3d_transpose": _of(5, "conv3d_transpose", 3, 2, strides=2),
    "separable_conv1d": _of(3, "separable_conv1d", 3, 3, depth_multiplier=2),
    "separable_conv2d": _of(4, "separable_conv2d", 3, 3, depth_multiplier=2, padding="same"),
    "max_pooling1d": _of(3, "max_pooling1d", 3, 2),
    "max_pooling2d": _of(4, "max_pooling2d", (2, 3), 2, padding="same"),
    "max_pooling3d": _of(5, "max_pooling3d", 2, 1),
    "average_pooling1d": _of(3, "average_pooling1d", 3, 2, "same"),
    "average_pooling2d": _of(4, "average_pooling2d", 2, (2, 1)),
    "average_pooling3d": _of(5, "average_pooling3d", (1, 2, 2), 2),
    "batch_normalization": _normalized(4, "yes"),
    "batch_normalization_inference": _normalized(4, "no"),
    "batch_normalization_chosen": _normalized(4, 1),
    "batch_normalization_not_chosen": _normalized(4, 0),
    "batch_normalization_composed": _normalized(4, "yes", fused=False),
    "batch_normalization_no_scale": _normalized(4, "yes", scale=False, center=False),
    "batch_normalization_2": _normalized(2, "yes"),
    "batch_normalization_2_chosen": _normalized(2, 1),
    "batch_normalization_2_inference": _normalized(2, "no"),
    "batch_normalization_axis": _normalized(3, "yes", axis=1),
    "batch_normalization_axes": _normalized(3, "yes", axis=[1, 2]),
    "batch_renormalization": _normalized(2, "yes", renorm=True),
    "batch_renormalization_clipped": _normalized(
        4, "yes", renorm=True, renorm_clipping={"rmin": 0.8, "rmax": 1.1, "dmax": 0.1}
    ),
    "batch_renormalization_chosen": _normalized(2, 1, renorm=True),
}

if __name__ == "__main__":
    write(VALUES, NETWORKS, SHAPE)
