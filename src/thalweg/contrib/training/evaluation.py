"""Evaluating checkpoints: once, and again and again as new ones are written."""

from __future__ import annotations

import time
from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export, export_value

export_value(tf.train.get_or_create_global_step, "contrib.training.get_or_create_global_step")


def get_or_create_eval_step() -> Any:
    """The variable that counts the steps of an evaluation."""
    found = tf.get_collection(tf.GraphKeys.EVAL_STEP)
    if len(found) > 1:
        raise ValueError("Multiple tensors added to tf.GraphKeys.EVAL_STEP")
    if found:
        return found[0]
    return tf.get_variable(
        "eval_step", shape=[], dtype=tf.int64, initializer=tf.zeros_initializer(), trainable=False,
        collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.EVAL_STEP],
    )  # fmt: skip


export_value(get_or_create_eval_step, "contrib.training.get_or_create_eval_step")


@export("contrib.training.StopAfterNEvalsHook", "contrib.slim.evaluation.StopAfterNEvalsHook")
class StopAfterNEvalsHook(tf.train.SessionRunHook):
    """Stops an evaluation after some steps."""

    def __init__(self, num_evals: int | None, log_progress: bool = True) -> None:
        """Takes the number of steps; None for no end."""
        self._num_evals = num_evals
        self._done = 0
        self._log = log_progress
        self._counter: Any = None

    def _set_evals_completed_tensor(self, updated_eval_step: Any) -> None:
        """Takes the tensor that counts the evaluations; without it, the hook counts by itself."""
        self._counter = updated_eval_step

    def before_run(self, run_context: Any) -> Any:
        """Asks for the counter."""
        return None if self._counter is None else tf.train.SessionRunArgs({"evals_completed": self._counter})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts."""
        self._done = self._done + 1 if self._counter is None else int(run_values.results["evals_completed"])
        if self._log and self._num_evals:
            tf.logging.info("Evaluation [%d/%d]", self._done, self._num_evals)
        if self._num_evals is not None and self._done >= self._num_evals:
            run_context.request_stop()


@export("contrib.training.SummaryAtEndHook", "contrib.slim.evaluation.SummaryAtEndHook")
class SummaryAtEndHook(tf.train.SessionRunHook):
    """Writes the summaries at the end of an evaluation."""

    def __init__(
        self, log_dir: str | None = None, summary_writer: Any = None, summary_op: Any = None, feed_dict: Any = None
    ) -> None:
        """Takes the folder or the writer, the summaries (all if None), and what to feed."""
        if log_dir is None and summary_writer is None:
            raise ValueError("exactly one of log_dir and summary_writer is needed")
        self._log_dir, self._writer, self._op, self._feed = log_dir, summary_writer, summary_op, feed_dict

    def begin(self) -> None:
        """Finds the summaries."""
        if self._op is None:
            self._op = tf.summary.merge_all()
        if self._writer is None:
            self._writer = tf.summary.FileWriter(self._log_dir)
        self._step = tf.train.get_or_create_global_step()

    def end(self, session: Any) -> None:
        """Writes."""
        if self._op is not None:
            text, step = session.run((self._op, self._step), self._feed)
            self._writer.add_summary(text, step)
        self._writer.flush()


def _session_creator(checkpoint: str | None, scaffold: Any, master: str, config: Any) -> Any:
    return tf.train.ChiefSessionCreator(
        scaffold=scaffold, checkpoint_filename_with_path=checkpoint, master=master, config=config
    )


@export("contrib.training.evaluate_once")
def evaluate_once(
    checkpoint_path: str | None,
    master: str = "",
    scaffold: Any = None,
    eval_ops: Any = None,
    feed_dict: Any = None,
    final_ops: Any = None,
    final_ops_feed_dict: Any = None,
    hooks: Any = None,
    config: Any = None,
) -> Any:
    """Restores a checkpoint, runs `eval_ops` until a hook says stop, and returns the values of `final_ops`."""
    given = list(hooks or [])
    final = tf.train.FinalOpsHook(final_ops, final_ops_feed_dict)
    given.append(final)
    with tf.train.MonitoredSession(_session_creator(checkpoint_path, scaffold, master, config), given) as session:
        if eval_ops is not None:
            while not session.should_stop():
                session.run(eval_ops, feed_dict)
    return final.final_ops_values


@export("contrib.training.wait_for_new_checkpoint")
def wait_for_new_checkpoint(
    checkpoint_dir: str, last_checkpoint: str | None = None, seconds_to_sleep: float = 1, timeout: float | None = None
) -> str | None:
    """The path of a checkpoint other than the last; None when the time is over."""
    stop = None if timeout is None else time.monotonic() + timeout
    while True:
        path: str | None = tf.train.latest_checkpoint(checkpoint_dir)
        if path is not None and path != last_checkpoint:
            return path
        if stop is not None and time.monotonic() + seconds_to_sleep > stop:
            return None
        time.sleep(seconds_to_sleep)


@export("contrib.training.evaluate_repeatedly")
def evaluate_repeatedly(
    checkpoint_dir: str,
    master: str = "",
    scaffold: Any = None,
    eval_ops: Any = None,
    feed_dict: Any = None,
    final_ops: Any = None,
    final_ops_feed_dict: Any = None,
    eval_interval_secs: float = 60,
    hooks: Any = None,
    config: Any = None,
    max_number_of_evaluations: int | None = None,
    timeout: float | None = None,
    timeout_fn: Any = None,
) -> Any:
    """Evaluates each new checkpoint of a folder; returns the values of `final_ops` of the last."""
    value = None
    number, last = 0, None
    while max_number_of_evaluations is None or number < max_number_of_evaluations:
        start = time.monotonic()
        path = wait_for_new_checkpoint(checkpoint_dir, last, min(1.0, eval_interval_secs or 1.0), timeout)
        if path is None:
            if timeout_fn is None or timeout_fn():
                break
            continue
        last = path
        value = evaluate_once(
            path, master, scaffold, eval_ops, feed_dict, final_ops, final_ops_feed_dict, hooks, config
        )
        number += 1
        if max_number_of_evaluations is None or number < max_number_of_evaluations:
            time.sleep(max(0.0, eval_interval_secs - (time.monotonic() - start)))
    return value
