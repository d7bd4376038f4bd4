"""resampler: bilinear samples of images at points, differentiable in both."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


@export("contrib.resampler.resampler")
def resampler(data: Any, warp: Any, name: str = "resampler") -> Any:
    """Samples images at points between pixels.

    Args:
        data: [batch, height, width, channels].
        warp: [batch, ..., 2]: the points, x before y, in pixels. What lies outside of the image is 0.
        name: The name scope.

    Returns:
        [batch, ..., channels].

    Raises:
        ValueError: If the ranks are others, or the last dimension of `warp` is not 2.

    Example:
        >>> image = tf.reshape(tf.constant([0.0, 1.0, 2.0, 3.0]), [1, 2, 2, 1])
        >>> tf.Session().run(tf.contrib.resampler.resampler(image, [[[0.5, 0.5]]]))[0, 0, 0]
        np.float32(1.5)
    """
    with tf.name_scope(name, "resampler", [data, warp]):
        data = tf.convert_to_tensor(data, name="data")
        warp = tf.convert_to_tensor(warp, dtype=data.dtype, name="warp")
        if data.shape.ndims not in (None, 4):
            raise ValueError(f"data must have rank 4, [batch, height, width, channels]; got shape {data.shape}")
        if warp.shape.ndims is not None and (warp.shape.ndims < 2 or warp.shape[-1].value not in (None, 2)):
            raise ValueError(f"warp must be [batch, ..., 2]; got shape {warp.shape}")
        shape = tf.shape(data)
        batch, height, width, channels = shape[0], shape[1], shape[2], shape[3]
        points = tf.reshape(warp, tf.stack([batch, -1, 2]))
        left, top = tf.floor(points[..., 0]), tf.floor(points[..., 1])
        right_share, bottom_share = points[..., 0] - left, points[..., 1] - top
        rows = tf.tile(tf.range(batch)[:, None], [1, tf.shape(points)[1]])
        total: Any = 0.0
        for x, share_of_x in ((left, 1 - right_share), (left + 1, right_share)):
            for y, share_of_y in ((top, 1 - bottom_share), (top + 1, bottom_share)):
                share = share_of_x * share_of_y
                # Comparisons of the coordinates themselves: a cast of one that no int32 can hold has no defined value.
                inside = (x >= 0) & (x < tf.cast(width, x.dtype)) & (y >= 0) & (y < tf.cast(height, y.dtype))
                column = tf.cast(tf.where(inside, x, tf.zeros_like(x)), tf.int32)
                row = tf.cast(tf.where(inside, y, tf.zeros_like(y)), tf.int32)
                values = tf.gather_nd(data, tf.stack([rows, row, column], axis=-1))
                total += values * tf.where(inside, share, tf.zeros_like(share))[..., None]
        result = tf.reshape(total, tf.concat([tf.shape(warp)[:-1], [channels]], 0))
        result.set_shape(warp.shape[:-1].concatenate(data.shape[-1:]))
        return result
