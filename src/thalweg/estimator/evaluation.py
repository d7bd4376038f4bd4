"""One evaluation: metrics over batches from a checkpoint, and their summary."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.estimator.public_names import tf


class _StopAfterBatches(tf.train.SessionRunHook):
    """Stops after some batches, and counts them."""

    def __init__(self, most: int | None) -> None:
        self.most, self.count = most, 0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.count += 1
        if self.most is not None and self.count >= self.most:
            run_context.request_stop()


def evaluate(
    spec: Any, checkpoint_path: Any, steps: int | None, hooks: list[Any], config: Any, eval_dir: str, master: str
) -> dict[str, Any]:
    """Runs the update ops of the metrics for all batches, then returns the values.

    Raises:
        ValueError: If the input is empty, or a metric has the name 'loss'.
    """
    metrics = dict(spec.eval_metric_ops)
    if "loss" in metrics:
        raise ValueError("Metric with name 'loss' is not allowed, because Estimator already defines a default metric.")
    metrics["loss"] = tf.metrics.mean(spec.loss)
    updates = tf.group(*[update for _, update in metrics.values()])
    values = {key: value for key, (value, _) in metrics.items()}
    step = tf.train.get_global_step()
    values["global_step"] = step
    final = tf.train.FinalOpsHook(values)
    counted = _StopAfterBatches(steps)
    creator = tf.train.ChiefSessionCreator(
        scaffold=spec.scaffold, master=master, config=config, checkpoint_filename_with_path=checkpoint_path
    )
    with tf.train.MonitoredSession(creator, [*hooks, *spec.evaluation_hooks, counted, final]) as session:
        while not session.should_stop():
            session.run(updates)
    results = dict(final.final_ops_values)
    if not counted.count:
        tf.logging.warning("The input of the evaluation was empty.")
    write_results(eval_dir, results, checkpoint_path)
    return results


def write_results(folder: str, results: dict[str, Any], checkpoint_path: Any) -> None:
    """Writes the metrics to an event file."""
    text = ", ".join(f"{key} = {value}" for key, value in sorted(results.items()))
    tf.logging.info("Saving dict for global step %d: %s", results["global_step"], text)
    summary = tf.Summary()
    for key, value in results.items():
        if key == "global_step":
            continue
        if isinstance(value, (bytes, str)):
            summary.value.add(tag=key).tensor.CopyFrom(tf.make_tensor_proto(value))
        elif np.ndim(value) == 0:
            summary.value.add(tag=key, simple_value=float(value))
        else:
            summary.value.add(tag=key).tensor.CopyFrom(tf.make_tensor_proto(value))
    if checkpoint_path:
        proto = tf.make_tensor_proto(tf.compat.as_bytes(checkpoint_path))
        summary.value.add(tag="checkpoint_path").tensor.CopyFrom(proto)
    tf.gfile.MakeDirs(folder)
    writer = tf.summary.FileWriterCache.get(folder)
    writer.add_summary(summary, int(results["global_step"]))
    writer.flush()
