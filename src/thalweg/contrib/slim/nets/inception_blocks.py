"""Blocks of the inception networks from lines of text, and what the three versions share.

A layer is written as `64 1x1 0a`: 64 channels, a kernel of 1x1, the scope Conv2d_0a_1x1. `/2` is a stride, `valid` a
padding, `~0.09` the deviation of the first weights, `=name` another scope; `avg 3x3 0a` and `max 3x3 1a` are pooling;
`a | b` stands for two layers side by side, joined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.contrib.slim.nets.classifiers import slim


def truncated_normal(stddev: float) -> Any:
    """Initializer of weights."""
    return tf.truncated_normal_initializer(0.0, stddev)


class Builder:
    """Applies layers and blocks in a row and keeps their outputs by name."""

    def __init__(self, inputs: Any, final_endpoint: str, depth: Callable[[int], int]) -> None:
        """Takes the images, the name of the last layer, and the function that scales numbers of channels."""
        self.net = inputs
        self.end_points: dict[str, Any] = {}
        self._final = final_endpoint
        self._depth = depth
        self.done = False

    def add(self, name: str, net: Any) -> None:
        """Notes an output, unless the last layer is there already."""
        self.net = self.end_points[name] = net
        self.done = name == self._final

    def layer(self, text: str) -> None:
        """One layer, under the name of its scope."""
        if not self.done:
            name, net = self._apply(self.net, text)
            self.add(name, net)

    def mixed(self, name: str, *branches: str) -> None:
        """A block of branches, each of layers separated by commas, joined along the channels."""
        if self.done:
            return
        with tf.variable_scope(name):
            outputs = []
            for i, branch in enumerate(branches):
                with tf.variable_scope(f"Branch_{i}"):
                    net = self.net
                    for text in branch.split(","):
                        side_by_side = [self._apply(net, each)[1] for each in text.split("|")]
                        net = side_by_side[0] if len(side_by_side) == 1 else tf.concat(side_by_side, 3)
                    outputs.append(net)
            self.add(name, tf.concat(outputs, 3))

    def _apply(self, net: Any, text: str) -> tuple[str, Any]:
        kind, kernel, *rest = text.split()
        sizes = [int(size) for size in kernel.split("x")]
        options: dict[str, Any] = {}
        name = ""
        for word in rest:
            if word.startswith("/"):
                options["stride"] = int(word[1:])
            elif word.startswith("~"):
                options["weights_initializer"] = truncated_normal(float(word[1:]))
            elif word.startswith("="):
                name = word[1:]
            elif word in ("valid", "same"):
                options["padding"] = word.upper()
            else:
                name = f"{ {'avg': 'AvgPool', 'max': 'MaxPool'}.get(kind, 'Conv2d') }_{word}_{kernel}"
        if kind in ("avg", "max"):
            pool = slim.avg_pool2d if kind == "avg" else slim.max_pool2d
            return name, pool(net, sizes, scope=name, **options)
        return name, slim.conv2d(net, self._depth(int(kind)), sizes, scope=name, **options)


def scaled_depth(min_depth: int, depth_multiplier: float) -> Callable[[int], int]:
    """The function that scales numbers of channels.

    Raises:
        ValueError: If the multiplier is not positive.
    """
    if depth_multiplier <= 0:
        raise ValueError("depth_multiplier is not greater than zero.")
    return lambda depth: max(int(depth * depth_multiplier), min_depth)


def inception_arg_scope(
    weight_decay: float = 0.00004, batch_norm_var_collection: str = "moving_vars", batch_norm_decay: float = 0.9997,
    batch_norm_epsilon: float = 0.001, updates_collections: Any = tf.GraphKeys.UPDATE_OPS,
    use_fused_batchnorm: bool = True,
) -> Any:  # fmt: skip
    """The arg_scope that the networks were trained with."""
    averages = [batch_norm_var_collection]
    batch_norm_params = {
        "decay": batch_norm_decay, "epsilon": batch_norm_epsilon, "updates_collections": updates_collections,
        "fused": use_fused_batchnorm or None,
        "variables_collections": {"beta": None, "gamma": None, "moving_mean": averages, "moving_variance": averages},
    }  # fmt: skip
    with slim.arg_scope(
        [slim.conv2d, slim.fully_connected], weights_regularizer=tf.contrib.layers.l2_regularizer(weight_decay)
    ):
        with slim.arg_scope(
            [slim.conv2d],
            weights_initializer=tf.contrib.layers.variance_scaling_initializer(),
            activation_fn=tf.nn.relu,
            normalizer_fn=slim.batch_norm,
            normalizer_params=batch_norm_params,
        ) as scope:
            return scope


def logits_of(
    net: Any, end_points: dict[str, Any], num_classes: int, dropout_keep_prob: float, spatial_squeeze: bool,
    names: tuple[str, str, str], kernel: list[int], prediction_fn: Any,
) -> Any:  # fmt: skip
    """Pooling, dropout and the logits; the end points 'PreLogits', 'Logits' and 'Predictions'."""
    with tf.variable_scope("Logits"):
        net = slim.avg_pool2d(net, kernel, stride=1, padding="VALID", scope=names[0])
        net = slim.dropout(net, keep_prob=dropout_keep_prob, scope=names[1])
        end_points["PreLogits"] = net
        logits = slim.conv2d(net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope=names[2])
        if spatial_squeeze:
            logits = tf.squeeze(logits, [1, 2], name="SpatialSqueeze")
    end_points["Logits"] = logits
    end_points["Predictions"] = prediction_fn(logits, scope="Predictions")
    return logits
