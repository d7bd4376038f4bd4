"""connected_components of images, and the greedy bipartite_match of detectors."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export

BipartiteMatch = collections.namedtuple("BipartiteMatch", ["row_to_col_match_indices", "col_to_row_match_indices"])


@export("contrib.image.connected_components")
def connected_components(images: Any) -> Any:
    """Numbers the regions of equal pixels that touch at a side; pixels of 0, False or '' are 0 and belong to none.

    Args:
        images: [height, width] or [batch, height, width] of any type.

    Returns:
        int64 of the same shape. Regions of an image, then those of the next, are numbered from 1 by their first pixels.

    Raises:
        TypeError: If the rank is another one.

    Example:
        >>> tf.Session().run(tf.contrib.image.connected_components([[5, 0, 7], [5, 5, 0]])).tolist()
        [[1, 0, 2], [1, 1, 0]]
    """
    with tf.name_scope("connected_components"):
        images = tf.convert_to_tensor(images, name="images")
        if images.shape.ndims not in (2, 3):
            raise TypeError(f"images should have rank 2 (HW) or 3 (NHW). Static shape is {images.shape}")
        result = tf.py_func(_components, [images], tf.int64, stateful=False)
        result.set_shape(images.shape)
        return result


def _components(images: Any) -> Any:
    batch = images[None] if images.ndim == 2 else images
    empty = b"" if batch.dtype == object else batch.dtype.type(0)
    numbers = np.zeros(batch.shape, np.int64)
    count = 0
    for image, out in zip(batch, numbers, strict=True):
        roots = _roots(image)
        pixels = (image != empty).ravel()
        _, first, inverse = np.unique(roots[pixels], return_index=True, return_inverse=True)
        order = np.empty(len(first), np.int64)
        order[np.argsort(first)] = np.arange(len(first))
        out.reshape(-1)[pixels] = order[inverse] + 1 + count
        count += len(first)
    return numbers.reshape(images.shape)


def _roots(image: Any) -> Any:
    """For each pixel one of its region, the same for all of it: neighbours take the smaller one until all agree."""
    roots = np.arange(image.size)
    places = roots.reshape(image.shape)
    sides = (
        (image[:, 1:] == image[:, :-1], places[:, 1:], places[:, :-1]),
        (image[1:] == image[:-1], places[1:], places[:-1]),
    )
    a = np.concatenate([first[same.astype(bool)] for same, first, _ in sides])
    b = np.concatenate([second[same.astype(bool)] for same, _, second in sides])
    while True:
        low = np.minimum(roots[a], roots[b])
        before = roots.copy()
        np.minimum.at(roots, roots[a], low)
        np.minimum.at(roots, roots[b], low)
        while not np.array_equal(roots, roots[roots]):
            roots = roots[roots]
        if np.array_equal(roots, before):
            return roots


@export("contrib.image.bipartite_match")
def bipartite_match(distance_mat: Any, num_valid_rows: Any, top_k: int = -1, name: str = "bipartite_match") -> Any:
    """Matches rows with columns, the nearest pair first, each at most once.

    Args:
        distance_mat: float32, [rows, columns].
        num_valid_rows: How many rows count; all if negative.
        top_k: How many pairs to make; as many as there are if negative.
        name: The name scope.

    Returns:
        A tuple: for each row its column, and for each column its row; -1 where there is none.
    """
    with tf.name_scope(name):
        distance_mat = tf.convert_to_tensor(distance_mat, dtype=tf.float32)
        distance_mat.shape.assert_has_rank(2)
        rows, columns = tf.py_func(
            lambda distances, valid: _matched(distances, valid, top_k),
            [distance_mat, tf.convert_to_tensor(num_valid_rows, dtype=tf.float32)], [tf.int32, tf.int32],
            stateful=False,
        )  # fmt: skip
        rows.set_shape(distance_mat.shape[:1])
        columns.set_shape(distance_mat.shape[1:])
        return BipartiteMatch(rows, columns)


def _matched(distances: Any, valid: Any, top_k: int) -> Any:
    count = len(distances) if valid < 0 else min(int(valid), len(distances))
    rows = np.full(distances.shape[0], -1, np.int32)
    columns = np.full(distances.shape[1], -1, np.int32)
    most = min(count, distances.shape[1])
    left = most if top_k < 0 else min(top_k, most)
    for place in np.argsort(distances[:count], axis=None, kind="stable"):
        if left <= 0:
            break
        row, column = divmod(int(place), distances.shape[1])
        if rows[row] < 0 and columns[column] < 0:
            rows[row], columns[column] = column, row
            left -= 1
    return rows, columns
