"""Drawing examples again: with probabilities that a program states, by class, or at rates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


def _one_by_one(tensors: list[Any], capacity: int, threads: int) -> list[Any]:
    """The examples of batches, singly, by way of a queue."""
    found = tf.train.batch(tensors, 1, num_threads=threads, capacity=capacity, enqueue_many=True)
    return [tf.squeeze(each, [0]) for each in (found if isinstance(found, list) else [found])]


def _as_list(tensors: Any) -> list[Any]:
    return tensors if isinstance(tensors, list) else [tensors]


@export("contrib.training.rejection_sample")
def rejection_sample(
    tensors: list[Any], accept_prob_fn: Callable[[list[Any]], Any], batch_size: int, queue_threads: int = 1,
    enqueue_many: bool = False, prebatch_capacity: int = 16, prebatch_threads: int = 1, runtime_checks: bool = False,
    name: str | None = None,
) -> list[Any]:  # fmt: skip
    """Batches of examples that are kept with a probability each.

    Args:
        tensors: An example, or examples if `enqueue_many`.
        accept_prob_fn: Gives the probability of an example, a scalar.
        batch_size: The size of the batches.
        queue_threads: How many threads fill the queue of batches.
        enqueue_many: Whether `tensors` are several examples.
        prebatch_capacity: Of the queue that holds these.
        prebatch_threads: How many threads fill it.
        runtime_checks: Whether each probability is checked to be one.
        name: The name scope.

    Returns:
        The batches, one for each of `tensors`.
    """
    with tf.variable_scope(name, "rejection_sample", tensors):
        examples = [tf.convert_to_tensor(tensor) for tensor in tensors]
        if enqueue_many:
            examples = _one_by_one(examples, prebatch_capacity, prebatch_threads)
        probability = tf.convert_to_tensor(accept_prob_fn(examples), name="prob")
        probability.shape.assert_has_rank(0)
        if runtime_checks:
            checks = [
                tf.assert_less_equal(tf.constant(0.0, probability.dtype), probability),
                tf.assert_less_equal(probability, tf.constant(1.0, probability.dtype)),
            ]
            with tf.control_dependencies(checks):
                probability = tf.identity(probability, name="prob_with_checks")
        keep = tf.random_uniform([], dtype=probability.dtype) < probability
        return _as_list(tf.train.maybe_batch(examples, keep, batch_size, num_threads=queue_threads))


@export("contrib.training.stratified_sample")
def stratified_sample(
    tensors: list[Any], labels: Any, target_probs: Any, batch_size: int, init_probs: Any = None,
    enqueue_many: bool = False, queue_capacity: int = 16, threads_per_queue: int = 1, name: str | None = None,
) -> tuple[list[Any], Any]:  # fmt: skip
    """Batches whose classes have given shares: examples of too frequent classes are left out.

    Args:
        tensors: An example, or examples if `enqueue_many`.
        labels: Its class, an integer, or theirs.
        target_probs: The share that each class should have.
        batch_size: The size of the batches.
        init_probs: The shares that they have; counted as examples come if None.
        enqueue_many: Whether `tensors` are several examples.
        queue_capacity: Of the queues.
        threads_per_queue: How many threads fill each.
        name: The name scope.

    Returns:
        The batches, one for each of `tensors`, and the labels.

    Raises:
        ValueError: If `target_probs` are no shares, or `init_probs` are not as many.
    """
    with tf.name_scope(name, "stratified_sample", [*tensors, labels]):
        target: Any = tf.convert_to_tensor(target_probs, dtype=tf.float32, name="target_probs")
        classes = target.shape.with_rank(1)[0].value
        known = tf.get_static_value(target)
        if known is not None and (abs(float(known.sum()) - 1.0) > 1e-5 or (known < 0).any()):
            raise ValueError(f"target_probs must not be negative, and must sum to 1; got {known}")
        examples = [tf.convert_to_tensor(each) for each in (*tensors, labels)]
        if enqueue_many:
            examples = _one_by_one(examples, queue_capacity, threads_per_queue)
        label = tf.cast(examples[-1], tf.int32)
        if init_probs is None:
            shares = _counted_shares(label, classes)
        else:
            shares = tf.convert_to_tensor(init_probs, dtype=tf.float32, name="init_probs")
            shares.shape.assert_is_compatible_with(target.shape)
        probability = tf.gather(_acceptance(shares, target), label)
        keep = tf.random_uniform([]) < probability
        found = _as_list(
            tf.train.maybe_batch(examples, keep, batch_size, num_threads=threads_per_queue, capacity=queue_capacity)
        )
        return found[:-1], found[-1]


def _acceptance(shares: Any, target: Any) -> Any:
    """The probability to keep an example of each class: the largest that give the shares of the target."""
    wanted = tf.where(target > 0, target / tf.maximum(shares, 1e-12), tf.zeros_like(target))
    return wanted / tf.reduce_max(wanted)


def _counted_shares(label: Any, classes: int) -> Any:
    """The shares of classes among the labels that came; each begins with one."""
    counts = tf.Variable(tf.ones([classes]), trainable=False, name="class_counts")
    counted = counts.assign_add(tf.one_hot(label, classes))
    return counted / tf.reduce_sum(counted)


@export("contrib.training.resample_at_rate")
def resample_at_rate(
    inputs: list[Any], rates: Any, scope: Any = None, seed: int | None = None, back_prop: bool = False
) -> list[Any]:
    """Repeats or drops rows so that each occurs `rates` times on the average (by Poisson's distribution).

    Args:
        inputs: Tensors of as many rows.
        rates: How often each row is wanted: [rows].
        scope: The name scope.
        seed: Of the random numbers.
        back_prop: Whether gradients flow through the rows.

    Returns:
        The tensors with their rows drawn again, in their order.
    """
    with tf.name_scope(scope, "resample_at_rate", [*inputs, rates]):
        rates = tf.cast(tf.convert_to_tensor(rates, name="rates"), tf.float32)
        counts = tf.cast(tf.random_poisson(rates, [], seed=seed), tf.int32)
        ends = tf.cumsum(counts)
        places = tf.searchsorted(ends, tf.range(tf.reduce_sum(counts)), side="right")
        rows = [tf.gather(tf.convert_to_tensor(each), places) for each in inputs]
        return rows if back_prop else [tf.stop_gradient(each) for each in rows]


@export("contrib.training.weighted_resample")
def weighted_resample(
    inputs: list[Any], weights: Any, overall_rate: float, scope: Any = None, mean_decay: float = 0.999,
    seed: int | None = None,
) -> tuple[list[Any], Any]:  # fmt: skip
    """Draws rows in proportion to weights; their number is `overall_rate` times that of the inputs on the average.

    Args:
        inputs: Tensors of as many rows.
        weights: The weights: [rows].
        overall_rate: How many rows to give for each that comes.
        scope: The variable scope of the running mean of weights.
        mean_decay: Of that mean.
        seed: Of the random numbers.

    Returns:
        The tensors with their rows drawn again, and the rate of each row drawn.
    """
    with tf.variable_scope(scope, "weighted_resample", inputs):
        weights = tf.cast(tf.convert_to_tensor(weights, name="weights"), tf.float32)
        total = tf.get_local_variable("weighted_mean", shape=[], initializer=tf.zeros_initializer())
        share = tf.get_local_variable("share_of_mean", shape=[], initializer=tf.zeros_initializer())
        new_total = total.assign(mean_decay * total + (1 - mean_decay) * tf.reduce_mean(weights))
        new_share = share.assign(mean_decay * share + (1 - mean_decay))
        rates = weights * overall_rate * new_share / new_total
        *found, used = resample_at_rate([*inputs, rates], rates, seed=seed)
        return found, used
