"""interpolate_spline: values between scattered points; sparse_image_warp: images moved by control points."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export

_TINY = 1e-10


def _squared_distances(a: Any, b: Any) -> Any:
    """[batch, n, m]: between the points of each batch."""
    squares = tf.reduce_sum(tf.square(a), 2)[:, :, None] + tf.reduce_sum(tf.square(b), 2)[:, None]
    return squares - 2 * tf.matmul(a, b, transpose_b=True)


def _phi(squared: Any, order: int) -> Any:
    """The polyharmonic spline of an order, of a squared distance."""
    if order == 1:
        return tf.sqrt(tf.maximum(squared, _TINY))
    if order == 2:
        return 0.5 * squared * tf.log(tf.maximum(squared, _TINY))
    if order == 4:
        return 0.5 * tf.square(squared) * tf.log(tf.maximum(squared, _TINY))
    squared = tf.maximum(squared, _TINY)
    return 0.5 * tf.pow(squared, 0.5 * order) * tf.log(squared) if order % 2 == 0 else tf.pow(squared, 0.5 * order)


@export("contrib.image.interpolate_spline")
def interpolate_spline(
    train_points: Any, train_values: Any, query_points: Any, order: int, regularization_weight: float = 0.0,
    name: str = "interpolate_spline",
) -> Any:  # fmt: skip
    """Values at points from those at others, by polyharmonic splines and a linear term.

    Args:
        train_points: [batch, n, dimensions].
        train_values: [batch, n, values].
        query_points: [batch, m, dimensions].
        order: 1 for linear in the distance, 2 for thin plates, and so on.
        regularization_weight: 0 to meet the given values; larger ones give smoother values.
        name: The name scope.

    Returns:
        [batch, m, values].
    """
    with tf.name_scope(name):
        points, values, queries = (tf.convert_to_tensor(each) for each in (train_points, train_values, query_points))
        batch, count = tf.shape(points)[0], tf.shape(points)[1]
        dimensions: Any = points.shape[-1].value
        kernel = _phi(_squared_distances(points, points), order)
        if regularization_weight > 0:
            kernel += regularization_weight * tf.eye(count, dtype=points.dtype)[None]
        linear = tf.concat([points, tf.ones_like(points[:, :, :1])], 2)
        # A little of the identity keeps the equations solvable where points lie on a line.
        corner = tf.zeros([batch, dimensions + 1, dimensions + 1], points.dtype) + _TINY * tf.eye(
            dimensions + 1, dtype=points.dtype
        )
        matrix = tf.concat([tf.concat([kernel, linear], 2), tf.concat([tf.transpose(linear, [0, 2, 1]), corner], 2)], 1)
        zeros = tf.zeros([batch, dimensions + 1, tf.shape(values)[2]], values.dtype)
        solution = tf.matrix_solve(matrix, tf.concat([values, zeros], 1))
        weights, slopes = solution[:, :count], solution[:, count:]
        bent = tf.matmul(_phi(_squared_distances(queries, points), order), weights)
        straight = tf.matmul(tf.concat([queries, tf.ones_like(queries[:, :, :1])], 2), slopes)
        result = bent + straight
        result.set_shape([points.shape[0].value, queries.shape[1].value, values.shape[2].value])
        return result


@export("contrib.image.sparse_image_warp")
def sparse_image_warp(
    image: Any, source_control_point_locations: Any, dest_control_point_locations: Any, interpolation_order: int = 2,
    regularization_weight: float = 0.0, num_boundary_points: int = 0, name: str = "sparse_image_warp",
) -> tuple[Any, Any]:  # fmt: skip
    """Moves control points of images to other places, and all other pixels smoothly with them.

    Args:
        image: [batch, height, width, channels]; height and width must be known.
        source_control_point_locations: [batch, n, 2]: rows and columns.
        dest_control_point_locations: Where they go.
        interpolation_order: Of the spline.
        regularization_weight: Of the spline.
        num_boundary_points: Points on each edge that stay where they are: 1 for the corners; 0 for none.
        name: The name scope.

    Returns:
        The images, and the flow: for each pixel how far it has come.

    Raises:
        ValueError: If the sizes of the images are not known, or the number of points on an edge is negative.
    """
    with tf.name_scope(name):
        image = tf.convert_to_tensor(image)
        source = tf.convert_to_tensor(source_control_point_locations)
        target = tf.convert_to_tensor(dest_control_point_locations)
        batch, height, width, _ = image.shape.as_list()
        if height is None or width is None or batch is None:
            raise ValueError(f"the batch size, height and width of images must be known; got shape {image.shape}")
        if num_boundary_points < 0:
            raise ValueError(f"num_boundary_points must not be negative, got {num_boundary_points}")
        if num_boundary_points:
            edge = tf.constant([_boundary(height, width, num_boundary_points)] * batch, source.dtype)
            source, target = tf.concat([source, edge], 1), tf.concat([target, edge], 1)
        grid = [[float(row), float(column)] for row in range(height) for column in range(width)]
        flow = interpolate_spline(
            target, target - source, tf.constant([grid] * batch, target.dtype), interpolation_order,
            regularization_weight,
        )  # fmt: skip
        flow = tf.reshape(flow, [batch, height, width, 2])
        return tf.contrib.image.dense_image_warp(image, flow), flow


def _boundary(height: int, width: int, per_edge: int) -> list[list[float]]:
    """The corners, and further points between them, evenly."""
    parts = per_edge
    rows = [(height - 1) * i / parts for i in range(parts + 1)]
    columns = [(width - 1) * i / parts for i in range(parts + 1)]
    points = [[r, c] for r in (0.0, float(height - 1)) for c in columns]
    return points + [[r, c] for c in (0.0, float(width - 1)) for r in rows[1:-1]]
