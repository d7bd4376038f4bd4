"""tf.contrib.slim.learning: a training operation, and the loop that runs it under a Supervisor."""

from __future__ import annotations

import time
from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.contrib.training import gradient_steps
from thalweg.contrib.training.gradient_steps import (
    add_gradients_summaries as add_gradients_summaries,
)
from thalweg.contrib.training.gradient_steps import (
    clip_gradient_norms as clip_gradient_norms,
)
from thalweg.contrib.training.gradient_steps import (
    multiply_gradients as multiply_gradients,
)
from thalweg.graph.definitions.op_registry import export

_USE_DEFAULT = 0
_USE_GLOBAL_STEP = 0


@export("contrib.slim.learning.create_train_op")
def create_train_op(
    total_loss: Any,
    optimizer: Any,
    global_step: Any = _USE_GLOBAL_STEP,
    update_ops: Any = None,
    variables_to_train: Any = None,
    clip_gradient_norm: float = 0,
    summarize_gradients: bool = False,
    gate_gradients: int = tf.train.Optimizer.GATE_OP,
    aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False,
    gradient_multipliers: Any = None,
    check_numerics: bool = True,
) -> Any:
    """An operation that runs the updates, applies the gradients, and returns the loss.

    Args:
        total_loss: A scalar.
        optimizer: A `tf.train.Optimizer`.
        global_step: The variable that counts steps; the graph's if left out, none if None.
        update_ops: Operations to run before; those of GraphKeys.UPDATE_OPS if None.
        variables_to_train: The variables to change; all trainable ones if None.
        clip_gradient_norm: The largest norm of a gradient; 0 for none.
        summarize_gradients: Whether gradients are summarized.
        gate_gradients: See `tf.train.Optimizer.compute_gradients`.
        aggregation_method: See `tf.gradients`.
        colocate_gradients_with_ops: Whether gradients are placed where the operations are.
        gradient_multipliers: Factors of gradients by variable or name.
        check_numerics: Whether a loss that is no number is an error.

    Returns:
        The loss, after the step.
    """

    def transform(pairs: Any) -> Any:
        if gradient_multipliers:
            pairs = multiply_gradients(pairs, gradient_multipliers)
        return clip_gradient_norms(pairs, clip_gradient_norm) if clip_gradient_norm > 0 else pairs

    return gradient_steps.create_train_op(
        total_loss, optimizer, global_step, update_ops, variables_to_train, transform, summarize_gradients,
        gate_gradients, aggregation_method, colocate_gradients_with_ops, check_numerics,
    )  # fmt: skip


@export("contrib.slim.learning.train_step")
def train_step(sess: Any, train_op: Any, global_step: Any, train_step_kwargs: dict[str, Any]) -> tuple[Any, bool]:
    """Runs one step; returns the loss, and whether training should stop."""
    start = time.time()
    metadata = options = None
    if train_step_kwargs.get("should_trace") is not None and sess.run(train_step_kwargs["should_trace"]):
        options, metadata = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), tf.RunMetadata()
    total_loss, step = sess.run([train_op, global_step], options=options, run_metadata=metadata)
    elapsed = time.time() - start
    if metadata is not None and train_step_kwargs.get("summary_writer") is not None:
        train_step_kwargs["summary_writer"].add_run_metadata(metadata, f"run_metadata-{step}")
    if "should_log" in train_step_kwargs and sess.run(train_step_kwargs["should_log"]):
        tf.logging.info("global step %d: loss = %.4f (%.3f sec/step)", step, total_loss, elapsed)
    should_stop = "should_stop" in train_step_kwargs and bool(sess.run(train_step_kwargs["should_stop"]))
    return total_loss, should_stop


def _every(counter: Any, steps: int) -> Any:
    return tf.equal(tf.mod(counter, steps), 0)


def _step_options(
    global_step: Any, number_of_steps: int | None, log_every: int, trace_every: int | None, logdir: Any
) -> Any:
    with tf.name_scope("train_step"):
        options: dict[str, Any] = {}
        if number_of_steps:
            options["should_stop"] = tf.greater_equal(global_step, number_of_steps)
        if log_every > 0:
            options["should_log"] = _every(global_step, log_every)
        if trace_every is not None:
            options["should_trace"] = _every(global_step, trace_every)
            options["logdir"] = logdir
        return options


@export("contrib.slim.learning.train")
def train(
    train_op: Any,
    logdir: str | None,
    train_step_fn: Any = train_step,
    train_step_kwargs: Any = _USE_DEFAULT,
    log_every_n_steps: int = 1,
    graph: Any = None,
    master: str = "",
    is_chief: bool = True,
    global_step: Any = None,
    number_of_steps: int | None = None,
    init_op: Any = _USE_DEFAULT,
    init_feed_dict: Any = None,
    local_init_op: Any = _USE_DEFAULT,
    init_fn: Any = None,
    ready_op: Any = _USE_DEFAULT,
    summary_op: Any = _USE_DEFAULT,
    save_summaries_secs: float = 600,
    summary_writer: Any = _USE_DEFAULT,
    startup_delay_steps: int = 0,
    saver: Any = None,
    save_interval_secs: float = 600,
    sync_optimizer: Any = None,
    session_config: Any = None,
    session_wrapper: Any = None,
    trace_every_n_steps: int | None = None,
    ignore_live_threads: bool = False,
) -> Any:
    """Runs a training operation under a Supervisor, which saves checkpoints and summaries.

    Args:
        train_op: The operation; it returns the loss.
        logdir: The folder of checkpoints and summaries; None for neither.
        train_step_fn: The function that runs one step.
        train_step_kwargs: For `train_step_fn`: 'should_stop', 'should_log', 'should_trace'.
        log_every_n_steps: How often the loss is logged.
        graph: The graph; the operation's if None.
        master: The target of the session.
        is_chief: Whether this process initializes and saves.
        global_step: The variable that counts steps; the graph's if None.
        number_of_steps: The step to stop at; None for no end.
        init_op: Initializes variables; all of them by default.
        init_feed_dict: What to feed to `init_op`.
        local_init_op: Initializes local variables and tables.
        init_fn: A function of the session, called after `init_op`.
        ready_op: Says which variables are not initialized.
        summary_op: The summaries; all by default.
        save_summaries_secs: Seconds between summaries.
        summary_writer: Writes the summaries.
        startup_delay_steps: The step that other processes wait for.
        saver: Saves and restores.
        save_interval_secs: Seconds between checkpoints.
        sync_optimizer: A SyncReplicasOptimizer, or several.
        session_config: A ConfigProto.
        session_wrapper: A function of the session that gives the one to train with.
        trace_every_n_steps: How often a step is traced.
        ignore_live_threads: Whether threads that do not end are no error.

    Returns:
        The loss of the last step.

    Raises:
        ValueError: If arguments contradict each other.
    """
    if train_op is None:
        raise ValueError("train_op cannot be None.")
    if logdir is None:
        if summary_op != _USE_DEFAULT:
            raise ValueError("Cannot provide summary_op because logdir=None")
        if saver is not None:
            raise ValueError("Cannot provide saver because logdir=None")
        if trace_every_n_steps is not None:
            raise ValueError("Cannot provide trace_every_n_steps because logdir=None")
    if isinstance(sync_optimizer, tf.train.SyncReplicasOptimizer):
        sync_optimizer = [sync_optimizer]
    if sync_optimizer and startup_delay_steps > 0:
        raise ValueError("startup_delay_steps must be zero when sync_optimizer is supplied.")
    if number_of_steps is not None and number_of_steps <= 0:
        raise ValueError("`number_of_steps` must be either None or a positive number.")
    graph = graph or getattr(train_op, "graph", None) or tf.get_default_graph()
    with graph.as_default():
        if global_step is None:
            global_step = tf.train.get_or_create_global_step()
        saver = saver or tf.train.Saver()
        hooks = [each.get_chief_queue_runner() for each in sync_optimizer or ()] if is_chief else []
        init_tokens = [each.get_init_tokens_op() for each in sync_optimizer or ()] if is_chief else []
        with tf.name_scope("init_ops"):
            init_op = tf.global_variables_initializer() if init_op == _USE_DEFAULT else init_op
            ready_op = tf.report_uninitialized_variables() if ready_op == _USE_DEFAULT else ready_op
            if local_init_op == _USE_DEFAULT:
                local_init_op = tf.group(tf.local_variables_initializer(), tf.tables_initializer())
            if sync_optimizer:
                steps = [each.chief_init_op if is_chief else each.local_step_init_op for each in sync_optimizer]
                local_init_op = tf.group(local_init_op, *steps)
        if summary_op == _USE_DEFAULT:
            summary_op = tf.summary.merge_all()
        if summary_writer == _USE_DEFAULT:
            summary_writer = tf.summary.FileWriter(logdir) if is_chief and logdir else None
        if train_step_kwargs == _USE_DEFAULT:
            train_step_kwargs = _step_options(
                global_step, number_of_steps, log_every_n_steps, trace_every_n_steps, logdir
            )
            train_step_kwargs["summary_writer"] = summary_writer
    supervisor = tf.train.Supervisor(
        graph=graph, is_chief=is_chief, logdir=logdir, init_op=init_op, init_feed_dict=init_feed_dict,
        local_init_op=local_init_op, ready_op=ready_op, summary_op=summary_op, summary_writer=summary_writer,
        global_step=global_step, saver=saver, save_summaries_secs=save_summaries_secs,
        save_model_secs=save_interval_secs, init_fn=init_fn,
    )  # fmt: skip
    loss = None
    with supervisor.managed_session(master, start_standard_services=False, config=session_config) as sess:
        if session_wrapper is not None:
            sess = session_wrapper(sess)
        tf.logging.info("Starting Session.")
        if is_chief:
            if logdir:
                supervisor.start_standard_services(sess)
        elif startup_delay_steps > 0:
            _wait_for_step(sess, global_step, min(startup_delay_steps, number_of_steps or startup_delay_steps))
        threads = supervisor.start_queue_runners(sess)
        if hooks:
            supervisor.start_queue_runners(sess, hooks)
            for op in init_tokens:
                sess.run(op)
        try:
            while not supervisor.should_stop():
                loss, should_stop = train_step_fn(sess, train_op, global_step, train_step_kwargs)
                if should_stop:
                    tf.logging.info("Stopping Training.")
                    supervisor.request_stop()
        except tf.errors.OutOfRangeError as e:
            tf.logging.info("Caught OutOfRangeError. Stopping Training. %s", e)
        if logdir and supervisor.is_chief:
            tf.logging.info("Finished training! Saving model to disk.")
            supervisor.saver.save(sess, supervisor.save_path, global_step=supervisor.global_step)
            supervisor.stop(threads, close_summary_writer=True, ignore_live_threads=ignore_live_threads)
    return loss


def _wait_for_step(sess: Any, global_step: Any, step: int) -> None:
    while tf.train.global_step(sess, global_step) < step:
        time.sleep(1.0)
