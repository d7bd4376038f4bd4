"""What both versions of residual networks share: blocks, padding, the stack of blocks, the arg_scope."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, Final

from thalweg.contrib.framework.arg_scope import add_arg_scope
from thalweg.contrib.layers.collections_of_outputs import collect_named_outputs
from thalweg.contrib.public_names import tf
from thalweg.contrib.slim.nets.classifiers import slim
from thalweg.graph.definitions.op_registry import export

# Units of the four blocks, by the number of layers.
_UNITS: Final = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3), 200: (3, 24, 36, 3)}


_UNIT_ARGUMENTS: Final = ("depth", "depth_bottleneck", "stride")


@export("contrib.slim.nets.resnet_utils.Block")
class Block(namedtuple("Block", ["scope", "unit_fn", "args"])):
    """A block of residual units: its scope, the function of a unit, and the arguments of each unit."""

    __slots__ = ()


@export("contrib.slim.nets.resnet_utils.subsample")
def subsample(inputs: Any, factor: int, scope: str | None = None) -> Any:
    """Every `factor`-th pixel."""
    return inputs if factor == 1 else slim.max_pool2d(inputs, [1, 1], stride=factor, scope=scope)


@export("contrib.slim.nets.resnet_utils.conv2d_same")
def conv2d_same(
    inputs: Any, num_outputs: int, kernel_size: int, stride: int, rate: int = 1, scope: str | None = None
) -> Any:
    """A strided convolution whose padding does not depend on the size of the image."""
    if stride == 1:
        return slim.conv2d(inputs, num_outputs, kernel_size, stride=1, rate=rate, padding="SAME", scope=scope)
    total = kernel_size + (kernel_size - 1) * (rate - 1) - 1
    begin = total // 2
    inputs = tf.pad(inputs, [[0, 0], [begin, total - begin], [begin, total - begin], [0, 0]])
    return slim.conv2d(inputs, num_outputs, kernel_size, stride=stride, rate=rate, padding="VALID", scope=scope)


@export("contrib.slim.nets.resnet_utils.stack_blocks_dense")
@add_arg_scope
def stack_blocks_dense(
    net: Any, blocks: Any, output_stride: int | None = None, store_non_strided_activations: bool = False,
    outputs_collections: Any = None,
) -> Any:  # fmt: skip
    """Applies blocks in a row; from `output_stride` on, dilation takes the place of strides.

    Raises:
        ValueError: If the output stride cannot be reached.
    """
    current, rate = 1, 1
    for block in blocks:
        with tf.variable_scope(block.scope, "block", [net]) as sc:
            block_stride = 1
            for i, given in enumerate(block.args):
                # TensorFlow 1.0 stated units as tuples.
                unit = given if isinstance(given, dict) else dict(zip(_UNIT_ARGUMENTS, given, strict=True))
                if store_non_strided_activations and i == len(block.args) - 1:
                    block_stride = unit.get("stride", 1)
                    unit = dict(unit, stride=1)
                if output_stride is not None and current > output_stride:
                    raise ValueError("The target output_stride cannot be reached.")
                with tf.variable_scope(f"unit_{i + 1}", values=[net]):
                    if output_stride is not None and current == output_stride:
                        net = block.unit_fn(net, rate=rate, **dict(unit, stride=1))
                        rate *= unit.get("stride", 1)
                    else:
                        net = block.unit_fn(net, rate=1, **unit)
                        current *= unit.get("stride", 1)
            net = collect_named_outputs(outputs_collections, sc.name, net)
            if output_stride is not None and current == output_stride:
                rate *= block_stride
            else:
                net = subsample(net, block_stride)
                current *= block_stride
    if output_stride is not None and current != output_stride:
        raise ValueError("The target output_stride cannot be reached.")
    return net


@export(
    "contrib.slim.nets.resnet_utils.resnet_arg_scope", "contrib.slim.nets.resnet_v1.resnet_arg_scope",
    "contrib.slim.nets.resnet_v2.resnet_arg_scope",
)  # fmt: skip
def resnet_arg_scope(
    weight_decay: float = 0.0001, batch_norm_decay: float = 0.997, batch_norm_epsilon: float = 1e-5,
    batch_norm_scale: bool = True,
) -> Any:  # fmt: skip
    """The arg_scope that the networks were trained with."""
    batch_norm_params = {
        "decay": batch_norm_decay, "epsilon": batch_norm_epsilon, "scale": batch_norm_scale,
        "updates_collections": tf.GraphKeys.UPDATE_OPS,
    }  # fmt: skip
    with slim.arg_scope(
        [slim.conv2d],
        weights_regularizer=tf.contrib.layers.l2_regularizer(weight_decay),
        weights_initializer=tf.contrib.layers.variance_scaling_initializer(),
        activation_fn=tf.nn.relu,
        normalizer_fn=slim.batch_norm,
        normalizer_params=batch_norm_params,
    ):
        with slim.arg_scope([slim.batch_norm], **batch_norm_params):
            with slim.arg_scope([slim.max_pool2d], padding="SAME") as scope:
                return scope


def networks(version: str, unit: Any, preactivation: bool) -> tuple[Any, Any, list[Any]]:
    """Makes and exports the functions of a version: of given blocks, of one block, and of 50 to 200 layers."""
    space = f"contrib.slim.nets.{version}"

    def resnet(
        inputs: Any, blocks: Any, num_classes: int | None = None, is_training: Any = True, global_pool: bool = True,
        output_stride: int | None = None, include_root_block: bool = True, reuse: Any = None, scope: Any = None,
    ) -> Any:  # fmt: skip
        """A residual network of given blocks: the output, and the outputs of the layers by name.

        Args:
            inputs: Images.
            blocks: What the function of a block makes.
            num_classes: The number of classes; None for features only.
            is_training: Whether batches are normalized by themselves.
            global_pool: Whether the mean over the image is taken.
            output_stride: How much smaller than the image the output is; beyond, dilation takes the place of strides.
            include_root_block: Whether the first convolution and pooling are there.
            reuse: Whether variables are found instead of created.
            scope: The variable scope.

        Raises:
            ValueError: If the output stride cannot be reached.
        """
        with tf.variable_scope(scope, version, [inputs], reuse=reuse) as sc:
            return _build(
                sc, inputs, blocks, num_classes, is_training, global_pool, output_stride, include_root_block, unit,
                preactivation,
            )  # fmt: skip

    def block(scope: str, base_depth: int, num_units: int, stride: int) -> Any:
        """A block of units, the last of which has the stride."""
        plain = {"depth": base_depth * 4, "depth_bottleneck": base_depth, "stride": 1}
        return Block(scope, unit, [plain] * (num_units - 1) + [dict(plain, stride=stride)])

    def of_depth(layers: int) -> Any:
        def network(
            inputs: Any, num_classes: int | None = None, is_training: Any = True, global_pool: bool = True,
            output_stride: int | None = None, reuse: Any = None, scope: str = f"{version}_{layers}",
        ) -> Any:  # fmt: skip
            parts = zip((64, 128, 256, 512), _UNITS[layers], (2, 2, 2, 1), strict=True)
            blocks = [block(f"block{i}", *part) for i, part in enumerate(parts, 1)]
            return resnet(
                inputs, blocks, num_classes, is_training, global_pool, output_stride, reuse=reuse, scope=scope
            )

        network.__doc__ = f"The network of {layers} layers; see `{version}`."
        network.default_image_size = 224  # type: ignore[attr-defined]
        return named(network, f"{version}_{layers}")

    def named(function: Any, name: str) -> Any:
        function.__name__ = function.__qualname__ = name
        function.__module__ = unit.__module__
        return export(f"{space}.{name}")(function)

    return named(resnet, version), named(block, f"{version}_block"), [of_depth(layers) for layers in _UNITS]


def _build(
    sc: Any, inputs: Any, blocks: Any, num_classes: int | None, is_training: Any, global_pool: bool,
    output_stride: int | None, include_root_block: bool, unit: Any, preactivation: bool,
) -> Any:  # fmt: skip
    """A residual network: root, blocks, pooling, logits. With `preactivation` (version 2) activations come first."""
    collection = sc.original_name_scope + "_end_points"
    with slim.arg_scope([slim.conv2d, unit, stack_blocks_dense], outputs_collections=collection):
        with slim.arg_scope([slim.batch_norm], is_training=is_training):
            net = inputs
            if include_root_block:
                if output_stride is not None:
                    if output_stride % 4 != 0:
                        raise ValueError("The output_stride needs to be a multiple of 4.")
                    output_stride //= 4
                options = {"activation_fn": None, "normalizer_fn": None} if preactivation else {}
                with slim.arg_scope([slim.conv2d], **options):
                    net = conv2d_same(net, 64, 7, stride=2, scope="conv1")
                net = slim.max_pool2d(net, [3, 3], stride=2, scope="pool1")
            net = stack_blocks_dense(net, blocks, output_stride)
            if preactivation:
                net = slim.batch_norm(net, activation_fn=tf.nn.relu, scope="postnorm")
            if global_pool:
                net = tf.reduce_mean(net, [1, 2], name="pool5", keepdims=True)
            if num_classes is not None:
                net = slim.conv2d(net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope="logits")
            end_points = slim.utils.convert_collection_to_dict(collection)
            if num_classes is not None:
                end_points["predictions"] = slim.softmax(net, scope="predictions")
            return net, end_points
