"""tf.estimator.experimental.KMeans: clusters of points by an Estimator."""

from __future__ import annotations

import time
from typing import Any

from thalweg.estimator.estimator import Estimator
from thalweg.estimator.model_spec import EstimatorSpec
from thalweg.estimator.public_names import tf
from thalweg.graph.definitions.op_registry import export


class _InitializeClusters(tf.train.SessionRunHook):
    """Runs the operation that chooses the first centers until it has them; other tasks than the chief wait."""

    def __init__(self, init_op: Any, is_initialized: Any, is_chief: bool) -> None:
        self._init_op, self._is_initialized, self._is_chief = init_op, is_initialized, is_chief

    def after_create_session(self, session: Any, coord: Any) -> None:
        while not session.run(self._is_initialized):
            if self._is_chief:
                session.run(self._init_op)
            else:
                time.sleep(1)


class _StopAtSmallChange(tf.train.SessionRunHook):
    """Stops the training when the loss changes by less than a share of it."""

    def __init__(self, loss: Any, tolerance: float) -> None:
        self._loss, self._tolerance = loss, tolerance
        self._before: float | None = None

    def before_run(self, run_context: Any) -> Any:
        return tf.train.SessionRunArgs(self._loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        loss = run_values.results
        if self._before and abs(loss - self._before) / (1 + abs(self._before)) < self._tolerance:
            run_context.request_stop()
        self._before = loss


@export("estimator.experimental.KMeans", "contrib.factorization.KMeansClustering")
class KMeans(Estimator):
    """Finds clusters of points.

    Example:
        >>> points = np.array([[0.0, 0.0], [0.0, 1.0], [9.0, 9.0], [9.0, 8.0]], np.float32)
        >>> model = tf.estimator.experimental.KMeans(2, use_mini_batch=False, initial_clusters=points[1:3])
        >>> _ = model.train(lambda: tf.train.limit_epochs(tf.constant(points), num_epochs=3))
        >>> model.cluster_centers().tolist()
        [[0.0, 0.5], [9.0, 8.5]]
    """

    SQUARED_EUCLIDEAN_DISTANCE = "squared_euclidean"
    COSINE_DISTANCE = "cosine"
    RANDOM_INIT = "random"
    KMEANS_PLUS_PLUS_INIT = "kmeans_plus_plus"
    SCORE = "score"
    CLUSTER_INDEX = "cluster_index"
    ALL_DISTANCES = "all_distances"
    CLUSTER_CENTERS_VAR_NAME = "clusters"

    def __init__(
        self, num_clusters: int, model_dir: Any = None, initial_clusters: Any = RANDOM_INIT,
        distance_metric: str = SQUARED_EUCLIDEAN_DISTANCE, seed: Any = None, use_mini_batch: bool = True,
        mini_batch_steps_per_iteration: int = 1, kmeans_plus_plus_num_retries: int = 2,
        relative_tolerance: float | None = None, config: Any = None, feature_columns: Any = None,
        random_seed: Any = None,
    ) -> None:  # fmt: skip
        """Takes what `tf.contrib.factorization.KMeans` takes.

        Args:
            num_clusters: Their number.
            model_dir: The folder of checkpoints.
            initial_clusters: The first centers, a function of the points and their number, or how to choose them.
            distance_metric: 'squared_euclidean' or 'cosine'.
            seed: A number that random choices depend on.
            use_mini_batch: Whether a step moves the centers by one batch, or to the means of what it gets.
            mini_batch_steps_per_iteration: After how many steps new centers count.
            kmeans_plus_plus_num_retries: How many candidates are drawn for a center.
            relative_tolerance: The relative change of the loss at which training stops.
            config: A RunConfig.
            feature_columns: The columns that make points of features; all features side by side if None.
            random_seed: Another name of `seed`.
        """
        arguments = {
            "num_clusters": num_clusters, "initial_clusters": initial_clusters, "distance_metric": distance_metric,
            "use_mini_batch": use_mini_batch, "mini_batch_steps_per_iteration": mini_batch_steps_per_iteration,
            "random_seed": seed if seed is not None else random_seed or 0,
            "kmeans_plus_plus_num_retries": kmeans_plus_plus_num_retries,
        }  # fmt: skip

        def model_fn(features: Any, labels: Any, mode: Any, config: Any) -> EstimatorSpec:
            graph = tf.contrib.factorization.KMeans(_points(features, feature_columns), **arguments).training_graph()
            distances, clusters, scores, ready, init, train = graph
            loss = tf.reduce_sum(scores[0])
            tf.summary.scalar("loss/raw", loss)
            starting: list[tf.train.SessionRunHook] = [_InitializeClusters(init, ready, config.is_chief)]
            hooks: list[tf.train.SessionRunHook] = []
            if relative_tolerance is not None:
                hooks.append(_StopAtSmallChange(loss, relative_tolerance))
            predictions = {self.ALL_DISTANCES: distances[0], self.CLUSTER_INDEX: clusters[0]}
            outputs = {name: tf.estimator.export.PredictOutput(value) for name, value in predictions.items()}
            outputs[tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY] = outputs[self.CLUSTER_INDEX]
            with tf.control_dependencies([train]):
                step = tf.assign_add(tf.train.get_global_step(), 1)
            return EstimatorSpec(
                mode, predictions, loss, tf.group(train, step), {self.SCORE: tf.metrics.mean(loss)}, outputs,
                # The chief's are before the hook that saves: the first checkpoint holds the first centers, even if
                # the input ends with them.
                training_hooks=hooks if config.is_chief else starting + hooks,
                training_chief_hooks=starting,
            )  # fmt: skip

        super().__init__(model_fn, model_dir, config)

    def predict_cluster_index(self, input_fn: Any) -> Any:
        """Yields the cluster of each point."""
        for prediction in self.predict(input_fn, predict_keys=self.CLUSTER_INDEX):
            yield prediction[self.CLUSTER_INDEX]

    def transform(self, input_fn: Any) -> Any:
        """Yields the distances of each point to all centers."""
        for prediction in self.predict(input_fn, predict_keys=self.ALL_DISTANCES):
            yield prediction[self.ALL_DISTANCES]

    def score(self, input_fn: Any) -> float:
        """The sum of the squared distances of points to the centers of their clusters."""
        return float(self.evaluate(input_fn, steps=1)[self.SCORE])

    def cluster_centers(self) -> Any:
        """The centers, one a row."""
        return self.get_variable_value(self.CLUSTER_CENTERS_VAR_NAME)


def _points(features: Any, columns: Any) -> Any:
    if not isinstance(features, dict):
        return features
    if columns:
        return tf.feature_column.input_layer(features, columns)
    return tf.concat([features[name] for name in sorted(features)], axis=1)
