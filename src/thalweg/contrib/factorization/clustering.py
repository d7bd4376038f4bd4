"""tf.contrib.factorization.KMeans: clusters of vectors, in batches or all at once."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export, export_value

SQUARED_EUCLIDEAN_DISTANCE = "squared_euclidean"
COSINE_DISTANCE = "cosine"
RANDOM_INIT = "random"
KMEANS_PLUS_PLUS_INIT = "kmeans_plus_plus"
for _name in ("SQUARED_EUCLIDEAN_DISTANCE", "COSINE_DISTANCE", "RANDOM_INIT", "KMEANS_PLUS_PLUS_INIT"):
    export_value(globals()[_name], f"contrib.factorization.{_name}")


@export("contrib.factorization.KMeans")
class KMeans:
    """The graph of k-means (Lloyd), of its first centres, and of mini-batches (Sculley, 2010)."""

    RANDOM_INIT = RANDOM_INIT
    KMEANS_PLUS_PLUS_INIT = KMEANS_PLUS_PLUS_INIT
    SQUARED_EUCLIDEAN_DISTANCE = SQUARED_EUCLIDEAN_DISTANCE
    COSINE_DISTANCE = COSINE_DISTANCE

    def __init__(
        self, inputs: Any, num_clusters: int, initial_clusters: Any = RANDOM_INIT,
        distance_metric: str = SQUARED_EUCLIDEAN_DISTANCE, use_mini_batch: bool = False,
        mini_batch_steps_per_iteration: int = 1, random_seed: int = 0, kmeans_plus_plus_num_retries: int = 2,
        kmc2_chain_length: int = 200,
    ) -> None:  # fmt: skip
        """Takes the vectors (a matrix, or a list of them), the number of clusters, and how to start.

        Raises:
            ValueError: If metric or start are unknown.
        """
        if distance_metric not in (SQUARED_EUCLIDEAN_DISTANCE, COSINE_DISTANCE):
            raise ValueError(f"Unsupported distance metric passed to Kmeans: {distance_metric}")
        if isinstance(initial_clusters, str) and initial_clusters not in (RANDOM_INIT, KMEANS_PLUS_PLUS_INIT):
            raise ValueError(f"Unsupported initialization algorithm {initial_clusters!r}")
        self._inputs = inputs if isinstance(inputs, list) else [inputs]
        self._count, self._start, self._metric = num_clusters, initial_clusters, distance_metric
        self._mini_batch, self._steps, self._seed = use_mini_batch, mini_batch_steps_per_iteration, random_seed
        self._retries = kmeans_plus_plus_num_retries

    def _points(self) -> Any:
        points = (
            tf.concat([tf.to_float(each) for each in self._inputs], 0)
            if len(self._inputs) > 1
            else tf.to_float(self._inputs[0])
        )
        return tf.nn.l2_normalize(points, 1) if self._metric == COSINE_DISTANCE else points

    def _distances(self, points: Any, centers: Any) -> Any:
        if self._metric == COSINE_DISTANCE:
            return 1.0 - tf.matmul(points, tf.nn.l2_normalize(centers, 1), transpose_b=True)
        squares = tf.reduce_sum(tf.square(points), 1, keepdims=True) + tf.reduce_sum(tf.square(centers), 1)
        return tf.maximum(squares - 2 * tf.matmul(points, centers, transpose_b=True), 0.0)

    def _first_centers(self, points: Any) -> Any:
        if not isinstance(self._start, str):
            given = self._start(points, self._count) if callable(self._start) else self._start
            return tf.convert_to_tensor(given, tf.float32)
        if self._start == RANDOM_INIT:
            return tf.gather(points, tf.random_shuffle(tf.range(tf.shape(points)[0]), seed=self._seed)[: self._count])

        def add(i: Any, centers: Any) -> Any:
            nearest = tf.reduce_min(self._distances(points, centers), 1)
            chosen = tf.multinomial(tf.log(nearest[None] + 1e-30), 1, seed=self._seed)[0]
            return i + 1, tf.concat([centers, tf.gather(points, chosen)], 0)

        begin = tf.random_uniform([1], 0, tf.shape(points)[0], tf.int32, seed=self._seed)
        size = points.shape.as_list()[1]
        _, centers = tf.while_loop(
            lambda i, _: i < self._count, add, (1, tf.gather(points, begin)),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, size])),
        )  # fmt: skip
        return centers

    def training_graph(self) -> Any:
        """The graph of one iteration.

        Returns:
            All distances, the cluster of each point, the distance to it, whether centres are initialized, the operation
            that initializes them, and the operation that does one iteration. The first three are lists, one entry per
            input.
        """
        points = self._points()
        size = points.shape.as_list()[1]
        if size is None:
            raise ValueError("The vectors have to have a known size")
        centers = tf.Variable(tf.zeros([self._count, size]), name="clusters", trainable=False)
        counts = tf.Variable(tf.zeros([self._count]), name="update_counts", trainable=False)
        ready = tf.Variable(False, name="initialized", trainable=False)
        init = tf.cond(
            ready, tf.no_op, lambda: tf.group(tf.assign(centers, self._first_centers(points)), tf.assign(ready, True)),
            name="initialize_clusters",
        )  # fmt: skip
        distances = self._distances(points, centers)
        indices = tf.argmin(distances, 1)
        scores = tf.reduce_min(distances, 1)
        sums = tf.unsorted_segment_sum(points, indices, self._count)
        sizes = tf.unsorted_segment_sum(tf.ones_like(scores), indices, self._count)
        if self._mini_batch:
            total = counts + sizes
            moved = centers + (sums - sizes[:, None] * centers) / tf.maximum(total, 1.0)[:, None]
        else:
            total = sizes
            moved = tf.where(sizes > 0, sums / tf.maximum(sizes, 1.0)[:, None], centers)
        if self._metric == COSINE_DISTANCE:
            moved = tf.nn.l2_normalize(moved, 1)
        with tf.control_dependencies([moved, total]):
            train = tf.group(tf.assign(centers, moved), tf.assign(counts, total), name="train")
        lengths = [tf.shape(each)[0] for each in self._inputs]

        def split(x: Any) -> list[Any]:
            return list(tf.split(x, lengths)) if len(lengths) > 1 else [x]

        return split(distances), split(indices), split(scores), ready, init, train
