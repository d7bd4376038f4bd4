"""tf.keras.backend: convolutions, pools, borders and sizes of images, normalization, and losses of sequences."""

from __future__ import annotations

from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.keras.backend_state import epsilon, image_data_format
from thalweg.keras.public_names import tf

_LETTERS = "DHW"


def _format(data_format: str | None) -> str:
    chosen = data_format or image_data_format()
    if chosen not in ("channels_first", "channels_last"):
        raise ValueError(f"Unknown data_format: {chosen}")
    return chosen


def _many(value: Any, rank: int) -> list[int]:
    return [value] * rank if isinstance(value, int) else list(value)


def _padding(padding: str) -> str:
    if padding.lower() not in ("same", "valid"):
        raise ValueError(f"Invalid padding: {padding}")
    return padding.upper()


def _layout(data_format: str | None, rank: int) -> str:
    space = _LETTERS[-rank:]
    return f"NC{space}" if _format(data_format) == "channels_first" else f"N{space}C"


def _convolve(x: Any, kernel: Any, strides: Any, padding: str, data_format: Any, dilation: Any, rank: int) -> Any:
    return tf.nn.convolution(
        x,
        kernel,
        _padding(padding),
        _many(strides, rank),
        _many(dilation, rank),
        data_format=_layout(data_format, rank),
    )


@export("keras.backend.conv1d")
def conv1d(x: Any, kernel: Any, strides: int = 1, padding: str = "valid", data_format: str | None = None,
           dilation_rate: int = 1) -> Any:  # fmt: skip
    """A convolution of sequences; with the padding 'causal' a step sees none that comes later."""
    if padding == "causal":
        x = temporal_padding(x, (dilation_rate * (int(kernel.shape[0]) - 1), 0))
        padding = "valid"
    return _convolve(x, kernel, strides, padding, data_format, dilation_rate, 1)


@export("keras.backend.conv2d")
def conv2d(x: Any, kernel: Any, strides: Any = (1, 1), padding: str = "valid", data_format: str | None = None,
           dilation_rate: Any = (1, 1)) -> Any:  # fmt: skip
    """A convolution of images."""
    return _convolve(x, kernel, strides, padding, data_format, dilation_rate, 2)


@export("keras.backend.conv3d")
def conv3d(x: Any, kernel: Any, strides: Any = (1, 1, 1), padding: str = "valid", data_format: str | None = None,
           dilation_rate: Any = (1, 1, 1)) -> Any:  # fmt: skip
    """A convolution of volumes."""
    return _convolve(x, kernel, strides, padding, data_format, dilation_rate, 3)


@export("keras.backend.conv2d_transpose")
def conv2d_transpose(x: Any, kernel: Any, output_shape: Any, strides: Any = (1, 1), padding: str = "valid",
                     data_format: str | None = None) -> Any:  # fmt: skip
    """A transposed convolution of images."""
    first = _format(data_format) == "channels_first"
    size = tf.stack([tf.shape(x)[0], *list(output_shape)[1:]])
    steps = [1, 1, *strides] if first else [1, *strides, 1]
    return tf.nn.conv2d_transpose(x, kernel, size, steps, _padding(padding), data_format="NCHW" if first else "NHWC")


def _separable(
    x: Any, depthwise: Any, pointwise: Any, strides: Any, padding: str, data_format: Any, dilation: Any
) -> Any:
    first = _format(data_format) == "channels_first"
    images = tf.transpose(x, [0, 2, 3, 1]) if first else x
    steps = [1, *_many(strides, 2), 1]
    if pointwise is None:
        result = tf.nn.depthwise_conv2d(images, depthwise, steps, _padding(padding), _many(dilation, 2))
    else:
        result = tf.nn.separable_conv2d(images, depthwise, pointwise, steps, _padding(padding), _many(dilation, 2))
    return tf.transpose(result, [0, 3, 1, 2]) if first else result


@export("keras.backend.depthwise_conv2d")
def depthwise_conv2d(x: Any, depthwise_kernel: Any, strides: Any = (1, 1), padding: str = "valid",
                     data_format: str | None = None, dilation_rate: Any = (1, 1)) -> Any:  # fmt: skip
    """A convolution of each channel on its own."""
    return _separable(x, depthwise_kernel, None, strides, padding, data_format, dilation_rate)


@export("keras.backend.separable_conv2d")
def separable_conv2d(
    x: Any, depthwise_kernel: Any, pointwise_kernel: Any, strides: Any = (1, 1), padding: str = "valid",
    data_format: str | None = None, dilation_rate: Any = (1, 1),
) -> Any:  # fmt: skip
    """A convolution of each channel, and then of each pixel."""
    return _separable(x, depthwise_kernel, pointwise_kernel, strides, padding, data_format, dilation_rate)


def _pool(x: Any, size: Any, strides: Any, padding: str, data_format: Any, mode: str, rank: int) -> Any:
    if mode not in ("max", "avg"):
        raise ValueError(f"Invalid pooling mode: {mode}")
    first = _format(data_format) == "channels_first"
    space = list(range(2, 2 + rank)) if first else list(range(1, 1 + rank))
    inputs = tf.transpose(x, [0, *space, 1]) if first else x
    kind = "MAX" if mode == "max" else "AVG"
    result = tf.nn.pool(inputs, _many(size, rank), kind, _padding(padding), strides=_many(strides, rank))
    return tf.transpose(result, [0, rank + 1, *range(1, rank + 1)]) if first else result


@export("keras.backend.pool2d")
def pool2d(x: Any, pool_size: Any, strides: Any = (1, 1), padding: str = "valid", data_format: str | None = None,
           pool_mode: str = "max") -> Any:  # fmt: skip
    """The largest element, or the mean, of each window of images."""
    return _pool(x, pool_size, strides, padding, data_format, pool_mode, 2)


@export("keras.backend.pool3d")
def pool3d(x: Any, pool_size: Any, strides: Any = (1, 1, 1), padding: str = "valid", data_format: str | None = None,
           pool_mode: str = "max") -> Any:  # fmt: skip
    """The largest element, or the mean, of each window of volumes."""
    return _pool(x, pool_size, strides, padding, data_format, pool_mode, 3)


@export("keras.backend.bias_add")
def bias_add(x: Any, bias: Any, data_format: str | None = None) -> Any:
    """Adds a bias to each channel."""
    return tf.nn.bias_add(x, bias, data_format="NCHW" if _format(data_format) == "channels_first" else "NHWC")


@export("keras.backend.temporal_padding")
def temporal_padding(x: Any, padding: Any = (1, 1)) -> Any:
    """Adds zeros before and behind the steps of sequences."""
    return tf.pad(x, [[0, 0], list(padding), [0, 0]])


@export("keras.backend.spatial_2d_padding")
def spatial_2d_padding(x: Any, padding: Any = ((1, 1), (1, 1)), data_format: str | None = None) -> Any:
    """Adds zeros around images."""
    sides = [list(each) for each in padding]
    return tf.pad(x, [[0, 0], [0, 0], *sides] if _format(data_format) == "channels_first" else [[0, 0], *sides, [0, 0]])


spatial_3d_padding = export("keras.backend.spatial_3d_padding")(
    lambda x, padding=((1, 1), (1, 1), (1, 1)), data_format=None: spatial_2d_padding(x, padding, data_format)
)


@export("keras.backend.resize_images")
def resize_images(
    x: Any, height_factor: int, width_factor: int, data_format: str | None, interpolation: str = "nearest"
) -> Any:
    """Larger images, by repetition or by interpolation."""
    first = _format(data_format) == "channels_first"
    images = tf.transpose(x, [0, 2, 3, 1]) if first else x
    if interpolation not in ("nearest", "bilinear"):
        raise ValueError('interpolation should be one of "nearest" or "bilinear".')
    resize = tf.image.resize_nearest_neighbor if interpolation == "nearest" else tf.image.resize_bilinear
    old = images.shape.as_list()
    images = resize(images, tf.shape(images)[1:3] * tf.constant([height_factor, width_factor]), half_pixel_centers=True)
    images.set_shape(
        [
            old[0],
            *(None if n is None else n * f for n, f in zip(old[1:3], (height_factor, width_factor), strict=True)),
            old[3],
        ]
    )
    return tf.transpose(images, [0, 3, 1, 2]) if first else images


@export("keras.backend.batch_normalization")
def batch_normalization(
    x: Any, mean: Any, var: Any, beta: Any, gamma: Any, axis: int = -1, epsilon: float = 1e-3
) -> Any:
    """Normalizes: gamma (x - mean) / sqrt(var + epsilon) + beta."""
    return tf.nn.batch_normalization(x, mean, var, beta, gamma, epsilon)


@export("keras.backend.normalize_batch_in_training")
def normalize_batch_in_training(x: Any, gamma: Any, beta: Any, reduction_axes: Any, epsilon: float = 1e-3) -> Any:
    """The normalized batch, its mean and its variance."""
    mean, var = tf.nn.moments(x, list(reduction_axes))
    sizes = tf.shape(x)
    broad = tf.stack([1 if i in reduction_axes else sizes[i] for i in range(x.shape.ndims)])
    center, spread, offset, scale = (
        None if each is None else tf.reshape(each, broad) for each in (mean, var, beta, gamma)
    )
    return tf.nn.batch_normalization(x, center, spread, offset, scale, epsilon), mean, var


@export("keras.backend.ctc_label_dense_to_sparse")
def ctc_label_dense_to_sparse(labels: Any, label_lengths: Any) -> Any:
    """The first labels of each row, as many as its length says, as a SparseTensor."""
    counts = tf.sequence_mask(label_lengths, tf.shape(labels)[1])
    places = tf.where(counts)
    return tf.SparseTensor(places, tf.gather_nd(labels, places), tf.cast(tf.shape(labels), tf.int64))


@export("keras.backend.ctc_batch_cost")
def ctc_batch_cost(y_true: Any, y_pred: Any, input_length: Any, label_length: Any) -> Any:
    """The CTC loss of each row, of probabilities."""
    lengths = tf.cast(tf.squeeze(label_length, axis=-1), tf.int32)
    steps = tf.cast(tf.squeeze(input_length, axis=-1), tf.int32)
    labels = tf.cast(ctc_label_dense_to_sparse(y_true, lengths), tf.int32)
    logits = tf.log(tf.transpose(y_pred, [1, 0, 2]) + epsilon())
    return tf.expand_dims(tf.nn.ctc_loss(inputs=logits, labels=labels, sequence_length=steps), 1)


@export("keras.backend.ctc_decode")
def ctc_decode(y_pred: Any, input_length: Any, greedy: bool = True, beam_width: int = 100, top_paths: int = 1) -> Any:
    """The labels of probabilities, padded with -1, one tensor for each path, and the logarithms of their odds."""
    logits, steps = tf.log(tf.transpose(y_pred, [1, 0, 2]) + epsilon()), tf.cast(input_length, tf.int32)
    if greedy:
        found, odds = tf.nn.ctc_greedy_decoder(inputs=logits, sequence_length=steps)
    else:
        found, odds = tf.nn.ctc_beam_search_decoder(
            inputs=logits, sequence_length=steps, beam_width=beam_width, top_paths=top_paths
        )
    return [tf.sparse_to_dense(x.indices, x.dense_shape, x.values, default_value=-1) for x in found], odds
