"""tf.contrib.image: projective transforms of images, rotation, translation, and dense warps."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


def _batched(images: Any) -> tuple[Any, int]:
    images = tf.convert_to_tensor(images, name="images")
    rank = images.shape.ndims
    if rank is None:
        raise TypeError("image rank must be statically known")
    if rank == 2:
        return images[None, :, :, None], rank
    if rank == 3:
        return images[None], rank
    if rank == 4:
        return images, rank
    raise TypeError("Images should have rank between 2 and 4.")


@export("contrib.image.transform")
def transform(
    images: Any, transforms: Any, interpolation: str = "NEAREST", output_shape: Any = None, name: str | None = None
) -> Any:
    """Images whose pixel (x, y) is the input's ((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k), k = c0 x + c1 y + 1.

    Args:
        images: [height, width], [height, width, channels] or [batch, height, width, channels].
        transforms: Rows a0, a1, a2, b0, b1, b2, c0, c1, one for all images or one each.
        interpolation: 'NEAREST' or 'BILINEAR'.
        output_shape: Height and width of the result; those of the images if None.
        name: The name scope.

    Returns:
        Images of the same type; pixels from outside are 0.

    Raises:
        ValueError: If the interpolation is another.
        TypeError: If shapes do not fit.
    """
    if interpolation.upper() not in ("NEAREST", "BILINEAR"):
        raise ValueError(f"interpolation must be 'NEAREST' or 'BILINEAR', not {interpolation!r}")
    with tf.name_scope(name, "transform", [images, transforms]):
        batch, rank = _batched(images)
        rows = tf.convert_to_tensor(transforms, tf.float32, name="transforms")
        if rows.shape.ndims == 1:
            rows = rows[None]
        if rows.shape.ndims != 2 or rows.shape.as_list()[1] not in (8, None):
            raise TypeError(f"Transforms should be vectors of 8 numbers, got shape {rows.shape}")
        sizes = tf.shape(batch)
        height, width = (sizes[1], sizes[2]) if output_shape is None else (output_shape[0], output_shape[1])
        rows = tf.ones([sizes[0], 1]) * rows
        x, y = tf.meshgrid(tf.to_float(tf.range(width)), tf.to_float(tf.range(height)))
        x, y = tf.reshape(x, [1, -1]), tf.reshape(y, [1, -1])
        a = [rows[:, i : i + 1] for i in range(8)]
        k = a[6] * x + a[7] * y + 1.0
        source_x, source_y = (a[0] * x + a[1] * y + a[2]) / k, (a[3] * x + a[4] * y + a[5]) / k
        read = _nearest if interpolation.upper() == "NEAREST" else _bilinear
        flat = read(batch, source_x, source_y)
        result = tf.reshape(flat, tf.stack([sizes[0], height, width, sizes[3]]))
        known = batch.shape.as_list()
        sized = known[1:3] if output_shape is None else [None, None]
        result.set_shape([known[0], *sized, known[3]])
        return result[0, :, :, 0] if rank == 2 else result[0] if rank == 3 else result


def _pixels(batch: Any, x: Any, y: Any) -> Any:
    """The pixels at integer places [batch, n], 0 outside."""
    sizes = tf.shape(batch)
    inside = (x >= 0) & (y >= 0) & (x < sizes[2]) & (y < sizes[1])
    column, row = tf.clip_by_value(x, 0, sizes[2] - 1), tf.clip_by_value(y, 0, sizes[1] - 1)
    number = tf.range(sizes[0])[:, None] + tf.zeros_like(column)
    values = tf.gather_nd(batch, tf.stack([number, row, column], axis=-1))
    return values * tf.cast(inside, batch.dtype)[..., None]


def _nearest(batch: Any, x: Any, y: Any) -> Any:
    return _pixels(batch, tf.cast(tf.floor(x + 0.5), tf.int32), tf.cast(tf.floor(y + 0.5), tf.int32))


def _bilinear(batch: Any, x: Any, y: Any) -> Any:
    left, top = tf.floor(x), tf.floor(y)
    total = tf.constant(0.0)
    for dx in (0, 1):
        for dy in (0, 1):
            weight = (1.0 - tf.abs(x - left - dx)) * (1.0 - tf.abs(y - top - dy))
            pixels = _pixels(batch, tf.cast(left, tf.int32) + dx, tf.cast(top, tf.int32) + dy)
            total = total + tf.to_float(pixels) * weight[..., None]
    return tf.cast(total, batch.dtype)


@export("contrib.image.angles_to_projective_transforms")
def angles_to_projective_transforms(angles: Any, image_height: Any, image_width: Any, name: str | None = None) -> Any:
    """The transforms that turn images counterclockwise about their centre, by angles in radians."""
    with tf.name_scope(name, "angles_to_projective_transforms"):
        angles = tf.convert_to_tensor(angles, tf.float32, name="angles")
        angles = angles[None] if angles.shape.ndims == 0 else angles
        cos, sin = tf.cos(angles), tf.sin(angles)
        w, h = image_width - 1, image_height - 1
        x = (w - (cos * w - sin * h)) / 2.0
        y = (h - (sin * w + cos * h)) / 2.0
        zeros = tf.zeros_like(cos)
        return tf.stack([cos, -sin, x, sin, cos, y, zeros, zeros], axis=1)


@export("contrib.image.rotate")
def rotate(images: Any, angles: Any, interpolation: str = "NEAREST", name: str | None = None) -> Any:
    """Images turned counterclockwise about their centre, by angles in radians."""
    with tf.name_scope(name, "rotate", [images]):
        batch, _ = _batched(images)
        height, width = tf.to_float(tf.shape(batch)[1]), tf.to_float(tf.shape(batch)[2])
        return transform(images, angles_to_projective_transforms(angles, height, width), interpolation)


@export("contrib.image.translations_to_projective_transforms")
def translations_to_projective_transforms(translations: Any, name: str | None = None) -> Any:
    """The transforms that move images by (dx, dy)."""
    with tf.name_scope(name, "translations_to_projective_transforms"):
        moved = tf.convert_to_tensor(translations, tf.float32, name="translations")
        moved = moved[None] if moved.shape.ndims == 1 else moved
        one, zero = tf.ones_like(moved[:, 0]), tf.zeros_like(moved[:, 0])
        return tf.stack([one, zero, -moved[:, 0], zero, one, -moved[:, 1], zero, zero], axis=1)


@export("contrib.image.translate")
def translate(images: Any, translations: Any, interpolation: str = "NEAREST", name: str | None = None) -> Any:
    """Images moved by (dx, dy)."""
    with tf.name_scope(name, "translate", [images, translations]):
        return transform(images, translations_to_projective_transforms(translations), interpolation)


@export("contrib.image.compose_transforms")
def compose_transforms(*transforms: Any) -> Any:
    """The transform that does all of them, the first one first."""
    composed = flat_transforms_to_matrices(transforms[0])
    for other in transforms[1:]:
        composed = tf.matmul(composed, flat_transforms_to_matrices(other))
    return matrices_to_flat_transforms(composed)


@export("contrib.image.flat_transforms_to_matrices")
def flat_transforms_to_matrices(transforms: Any) -> Any:
    """Rows of 8 as matrices of 3x3."""
    rows = tf.reshape(tf.convert_to_tensor(transforms, tf.float32), [-1, 8])
    return tf.reshape(tf.concat([rows, tf.ones([tf.shape(rows)[0], 1])], 1), [-1, 3, 3])


@export("contrib.image.matrices_to_flat_transforms")
def matrices_to_flat_transforms(transform_matrices: Any) -> Any:
    """Matrices of 3x3 as rows of 8."""
    rows = tf.reshape(tf.convert_to_tensor(transform_matrices, tf.float32), [-1, 9])
    return (rows / rows[:, 8:9])[:, :8]


@export("contrib.image.interpolate_bilinear")
def interpolate_bilinear(grid: Any, query_points: Any, name: str = "interpolate_bilinear", indexing: str = "ij") -> Any:
    """The values of images at places between pixels: [batch, n, channels]; places outside are moved to the border."""
    with tf.name_scope(name):
        grid, points = tf.convert_to_tensor(grid), tf.convert_to_tensor(query_points)
        y, x = (points[..., 0], points[..., 1]) if indexing == "ij" else (points[..., 1], points[..., 0])
        sizes = tf.to_float(tf.shape(grid))
        y, x = tf.clip_by_value(y, 0.0, sizes[1] - 1.0), tf.clip_by_value(x, 0.0, sizes[2] - 1.0)
        return _bilinear(grid, x, y)


@export("contrib.image.dense_image_warp")
def dense_image_warp(image: Any, flow: Any, name: str = "dense_image_warp") -> Any:
    """Images whose pixel (j, i) is the input's at (j - flow[j, i, 0], i - flow[j, i, 1])."""
    with tf.name_scope(name):
        sizes = tf.shape(image)
        x, y = tf.meshgrid(tf.range(sizes[2]), tf.range(sizes[1]))
        places = tf.to_float(tf.stack([y, x], axis=2))[None] - flow
        warped = interpolate_bilinear(image, tf.reshape(places, [sizes[0], -1, 2]))
        return tf.reshape(warped, sizes)
