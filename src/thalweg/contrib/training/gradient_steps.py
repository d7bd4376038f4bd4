"""create_train_op and train: a training operation with updates, clipping and summaries, and a loop that runs it."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export

_USE_GLOBAL_STEP = 0


@export("contrib.training.add_gradients_summaries", "contrib.slim.learning.add_gradients_summaries")
def add_gradients_summaries(grads_and_vars: Any) -> list[Any]:
    """A histogram and the norm of each gradient."""
    summaries = []
    for gradient, variable in grads_and_vars:
        if gradient is None:
            tf.logging.info("Var %s has no gradient", variable.op.name)
            continue
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        summaries.append(tf.summary.histogram(variable.op.name + "_gradient", values))
        summaries.append(tf.summary.scalar(variable.op.name + "_gradient_norm", tf.global_norm([values])))
    return summaries


@export("contrib.training.clip_gradient_norms", "contrib.slim.learning.clip_gradient_norms")
def clip_gradient_norms(gradients_to_variables: Any, max_norm: float) -> list[Any]:
    """Each gradient clipped to a norm."""
    clipped = []
    for gradient, variable in gradients_to_variables:
        if isinstance(gradient, tf.IndexedSlices):
            values = tf.clip_by_norm(gradient.values, max_norm)
            gradient = tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
        elif gradient is not None:
            gradient = tf.clip_by_norm(gradient, max_norm)
        clipped.append((gradient, variable))
    return clipped


@export("contrib.training.clip_gradient_norms_fn")
def clip_gradient_norms_fn(max_norm: float) -> Any:
    """A `transform_grads_fn` that clips each gradient."""
    return lambda pairs: clip_gradient_norms(pairs, max_norm)


@export("contrib.training.multiply_gradients", "contrib.slim.learning.multiply_gradients")
def multiply_gradients(grads_and_vars: Any, gradient_multipliers: Any) -> list[Any]:
    """Gradients times factors by variable or name.

    Raises:
        ValueError: If the factors are no dict, or a variable without gradient has one.
    """
    if not isinstance(grads_and_vars, list):
        raise ValueError("`grads_and_vars` must be a list.")
    if not gradient_multipliers or not isinstance(gradient_multipliers, dict):
        raise ValueError("`gradient_multipliers` must be a non-empty dict.")
    scaled = []
    for gradient, variable in grads_and_vars:
        key = variable if variable in gradient_multipliers else variable.op.name
        if key in gradient_multipliers:
            if gradient is None:
                raise ValueError("Requested multiple of `None` gradient.")
            factor = tf.cast(tf.convert_to_tensor(gradient_multipliers[key]), gradient.dtype)
            if isinstance(gradient, tf.IndexedSlices):
                gradient = tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
            else:
                gradient = gradient * factor
        scaled.append((gradient, variable))
    return scaled


@export("contrib.training.create_train_op")
def create_train_op(
    total_loss: Any,
    optimizer: Any,
    global_step: Any = _USE_GLOBAL_STEP,
    update_ops: Any = None,
    variables_to_train: Any = None,
    transform_grads_fn: Any = None,
    summarize_gradients: bool = False,
    gate_gradients: int = tf.train.Optimizer.GATE_OP,
    aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False,
    check_numerics: bool = True,
) -> Any:
    """An operation that runs the updates, applies the gradients, and returns the loss.

    Args:
        total_loss: A scalar.
        optimizer: A `tf.train.Optimizer`.
        global_step: The variable that counts steps; the graph's if left out, none if None.
        update_ops: Operations to run before; those of GraphKeys.UPDATE_OPS if None.
        variables_to_train: The variables to change; all trainable ones if None.
        transform_grads_fn: A function of (gradient, variable) pairs.
        summarize_gradients: Whether gradients are summarized.
        gate_gradients: See `tf.train.Optimizer.compute_gradients`.
        aggregation_method: See `tf.gradients`.
        colocate_gradients_with_ops: Whether gradients are placed where the operations are.
        check_numerics: Whether a loss that is no number is an error.

    Returns:
        The loss, after the step.
    """
    if global_step is _USE_GLOBAL_STEP:
        global_step = tf.train.get_or_create_global_step()
    collected = set(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
    updates = collected if update_ops is None else set(update_ops)
    if not collected <= updates:
        tf.logging.warning("update_ops in create_train_op does not contain all the update_ops in GraphKeys.UPDATE_OPS")
    if updates:
        with tf.control_dependencies(list(updates)):
            barrier = tf.no_op(name="update_barrier")
        with tf.control_dependencies([barrier]):
            total_loss = tf.identity(total_loss)
    trained = tf.trainable_variables() if variables_to_train is None else variables_to_train
    if not trained:
        raise ValueError("There are no variables to train")
    pairs = optimizer.compute_gradients(
        total_loss, trained, gate_gradients=gate_gradients, aggregation_method=aggregation_method,
        colocate_gradients_with_ops=colocate_gradients_with_ops,
    )  # fmt: skip
    if transform_grads_fn is not None:
        pairs = transform_grads_fn(pairs)
    if summarize_gradients:
        with tf.name_scope("summarize_grads"):
            add_gradients_summaries(pairs)
    apply = optimizer.apply_gradients(pairs, global_step=global_step)
    with tf.name_scope("train_op"):
        if check_numerics:
            total_loss = tf.check_numerics(total_loss, "LossTensor is inf or nan")
        with tf.control_dependencies([apply]):
            train_op = tf.identity(total_loss)
    collection = tf.get_collection_ref(tf.GraphKeys.TRAIN_OP)
    if train_op not in collection:
        collection.append(train_op)
    return train_op


@export("contrib.training.train")
def train(
    train_op: Any,
    logdir: str | None,
    master: str = "",
    is_chief: bool = True,
    scaffold: Any = None,
    hooks: Any = None,
    chief_only_hooks: Any = None,
    save_checkpoint_secs: Any = 600,
    save_summaries_steps: Any = 100,
    config: Any = None,
    max_wait_secs: int = 7200,
) -> Any:
    """Runs a training operation until a hook says stop; returns the last loss.

    Raises:
        ValueError: If nothing would stop it and no `logdir` is given with checkpoints or summaries.
    """
    if logdir is None and is_chief:
        if save_summaries_steps:
            raise ValueError("logdir cannot be None when save_summaries_steps is not None")
        if save_checkpoint_secs:
            raise ValueError("logdir cannot be None when save_checkpoint_secs is not None")
    with tf.train.MonitoredTrainingSession(
        master=master, is_chief=is_chief, checkpoint_dir=logdir, scaffold=scaffold, hooks=hooks,
        chief_only_hooks=chief_only_hooks, save_checkpoint_secs=save_checkpoint_secs,
        save_summaries_steps=save_summaries_steps, config=config, max_wait_secs=max_wait_secs,
    ) as session:  # fmt: skip
        loss = None
        while not session.should_stop():
            loss = session.run(train_op)
    return loss
