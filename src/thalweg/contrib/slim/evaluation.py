"""tf.contrib.slim.evaluation: evaluates checkpoints by running metrics over batches."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.contrib.training import evaluation as training_evaluation
from thalweg.graph.definitions.op_registry import export, export_value

_USE_DEFAULT = 0

for _name in ("wait_for_new_checkpoint",):
    export_value(getattr(training_evaluation, _name), f"contrib.slim.evaluation.{_name}")
export_value(tf.train.checkpoints_iterator, "contrib.slim.evaluation.checkpoints_iterator")


def _hooks(num_evals: int | None, summary_op: Any, summary_op_feed_dict: Any, logdir: Any, given: Any) -> list[Any]:
    hooks: list[Any] = [training_evaluation.StopAfterNEvalsHook(num_evals)]
    if summary_op is not None and logdir:
        op = None if summary_op == _USE_DEFAULT else summary_op
        hooks.append(training_evaluation.SummaryAtEndHook(logdir, summary_op=op, feed_dict=summary_op_feed_dict))
    return [*hooks, *(given or [])]


@export("contrib.slim.evaluation.evaluate_once")
def evaluate_once(
    master: str,
    checkpoint_path: str | None,
    logdir: str | None,
    num_evals: int = 1,
    initial_op: Any = None,
    initial_op_feed_dict: Any = None,
    eval_op: Any = None,
    eval_op_feed_dict: Any = None,
    final_op: Any = None,
    final_op_feed_dict: Any = None,
    summary_op: Any = _USE_DEFAULT,
    summary_op_feed_dict: Any = None,
    variables_to_restore: Any = None,
    session_config: Any = None,
    hooks: Any = None,
) -> Any:
    """Restores a checkpoint, runs `eval_op` `num_evals` times, and returns the value of `final_op`.

    Args:
        master: The target of the session.
        checkpoint_path: The checkpoint.
        logdir: Where summaries are written.
        num_evals: How often `eval_op` runs.
        initial_op: Runs first.
        initial_op_feed_dict: What to feed to it.
        eval_op: What is run, such as the updates of metrics.
        eval_op_feed_dict: What to feed to it.
        final_op: What is returned, such as the values of metrics.
        final_op_feed_dict: What to feed to it.
        summary_op: The summaries; all by default, none if None.
        summary_op_feed_dict: What to feed to it.
        variables_to_restore: The variables of the checkpoint; all if None.
        session_config: A ConfigProto.
        hooks: Further hooks.
    """
    saver = None if variables_to_restore is None else tf.train.Saver(variables_to_restore)
    scaffold = tf.train.Scaffold(
        init_op=initial_op, init_feed_dict=initial_op_feed_dict, saver=saver,
        ready_op=None if saver is None else tf.no_op(),
    ) if initial_op is not None or saver is not None else None  # fmt: skip
    return training_evaluation.evaluate_once(
        checkpoint_path, master, scaffold, tf.no_op() if eval_op is None else eval_op, eval_op_feed_dict, final_op,
        final_op_feed_dict, _hooks(num_evals, summary_op, summary_op_feed_dict, logdir, hooks), session_config,
    )  # fmt: skip


@export("contrib.slim.evaluation.evaluation_loop")
def evaluation_loop(
    master: str,
    checkpoint_dir: str,
    logdir: str | None,
    num_evals: int = 1,
    initial_op: Any = None,
    initial_op_feed_dict: Any = None,
    init_fn: Any = None,
    eval_op: Any = None,
    eval_op_feed_dict: Any = None,
    final_op: Any = None,
    final_op_feed_dict: Any = None,
    summary_op: Any = _USE_DEFAULT,
    summary_op_feed_dict: Any = None,
    variables_to_restore: Any = None,
    eval_interval_secs: float = 60,
    max_number_of_evaluations: int | None = None,
    session_config: Any = None,
    timeout: float | None = None,
    timeout_fn: Any = None,
    hooks: Any = None,
) -> Any:
    """Evaluates each new checkpoint of a folder; see `evaluate_once`. Returns the last value of `final_op`."""
    value = None
    last: str | None = None
    number = 0
    while max_number_of_evaluations is None or number < max_number_of_evaluations:
        path = training_evaluation.wait_for_new_checkpoint(
            checkpoint_dir, last, min(1.0, eval_interval_secs or 1.0), timeout
        )
        if path is None:
            if timeout_fn is None or timeout_fn():
                break
            continue
        last = path
        value = evaluate_once(
            master, path, logdir, num_evals, initial_op, initial_op_feed_dict, eval_op, eval_op_feed_dict, final_op,
            final_op_feed_dict, summary_op, summary_op_feed_dict, variables_to_restore, session_config, hooks,
        )  # fmt: skip
        number += 1
    return value
