"""multi_head: one model with several heads."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.estimator.canned.heads import LossSpec, training_op
from thalweg.estimator.export_outputs import PredictOutput
from thalweg.estimator.model_spec import EstimatorSpec, ModeKeys
from thalweg.graph.definitions.op_registry import export


@export("contrib.estimator.multi_head")
def multi_head(heads: Any, head_weights: Any = None) -> Any:
    """A head for several objectives: its loss is the weighted sum of theirs.

    Args:
        heads: Heads with different names.
        head_weights: A weight for each; 1 if None.

    Returns:
        A head whose logits and labels are dicts by the names of the heads. One tensor of
        all logits, side by side, does as well.

    Raises:
        ValueError: If there are no heads, weights of another number, or names are missing or used twice.
    """
    return MultiHead(heads, head_weights)


class MultiHead:
    """Several heads in one."""

    def __init__(self, heads: Any, head_weights: Any) -> None:
        """Takes heads and weights; see `multi_head`."""
        heads = list(heads or ())
        if not heads:
            raise ValueError(f"Must specify heads. Given: {heads}")
        if head_weights and len(head_weights) != len(heads):
            raise ValueError(
                f"heads and head_weights must have the same size. Given: {len(heads)} and {len(head_weights)}"
            )
        names = [head.name for head in heads]
        if not all(names):
            raise ValueError(f"All given heads must have name specified. Given: {names}")
        if len(set(names)) != len(names):
            raise ValueError(f"All heads must have different names. Given: {names}")
        self._heads = heads
        self._weights = list(head_weights) if head_weights else [1.0] * len(heads)

    @property
    def name(self) -> str:
        """The heads' names, joined."""
        return "_".join(head.name for head in self._heads)

    @property
    def logits_dimension(self) -> int:
        """The logits of all heads."""
        return sum(head.logits_dimension for head in self._heads)

    def _logits_of(self, logits: Any) -> dict[str, Any]:
        if isinstance(logits, dict):
            return logits
        parts = tf.split(tf.convert_to_tensor(logits), [head.logits_dimension for head in self._heads], axis=-1)
        return {head.name: part for head, part in zip(self._heads, parts, strict=True)}

    def create_loss(self, features: Any, mode: str, logits: Any, labels: Any) -> LossSpec:
        """The weighted sum of the heads' losses, and by head what these are made of."""
        by_head = self._logits_of(logits)
        made = {
            head.name: head.create_loss(features, mode, by_head[head.name], labels[head.name]) for head in self._heads
        }
        total = tf.add_n(
            [made[head.name].training_loss * weight for head, weight in zip(self._heads, self._weights, strict=True)]
        )
        parts = [{name: each[i] for name, each in made.items()} for i in range(4)]
        return LossSpec(total, *parts[1:])

    def create_estimator_spec(
        self, features: Any, mode: str, logits: Any, labels: Any = None, optimizer: Any = None,
        train_op_fn: Any = None, regularization_losses: Any = None,
    ) -> EstimatorSpec:  # fmt: skip
        """The EstimatorSpec of a model with these logits and labels, dicts by head."""
        by_head = self._logits_of(logits)
        specs = {}
        for head in self._heads:
            own_labels = None if mode == ModeKeys.PREDICT else labels[head.name]
            specs[head.name] = head.create_estimator_spec(
                features, mode, by_head[head.name], own_labels,
                train_op_fn=(lambda loss: tf.no_op()) if mode == ModeKeys.TRAIN else None,
            )  # fmt: skip
        predictions = {(name, key): value for name, spec in specs.items() for key, value in spec.predictions.items()}
        if mode == ModeKeys.PREDICT:
            return EstimatorSpec(mode, predictions, export_outputs=self._outputs(specs, predictions))
        total = tf.add_n(
            [specs[head.name].loss * weight for head, weight in zip(self._heads, self._weights, strict=True)]
        )
        if regularization_losses:
            total = total + tf.add_n(regularization_losses)
        if mode == ModeKeys.TRAIN:
            return EstimatorSpec(mode, predictions, total, training_op(total, optimizer, train_op_fn))
        metrics: dict[str, Any] = {}
        for name, spec in specs.items():
            metrics[f"loss/{name}"] = tf.metrics.mean(spec.loss)
            metrics.update(spec.eval_metric_ops)
        if regularization_losses:
            metrics["loss/regularization"] = tf.metrics.mean(tf.add_n(regularization_losses))
        return EstimatorSpec(mode, predictions, total, eval_metric_ops=metrics)

    def _outputs(self, specs: dict[str, Any], predictions: Any) -> dict[str, Any]:
        """The heads' outputs under their names; the first head's are the default."""
        default = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
        found: dict[str, Any] = {default: specs[self._heads[0].name].export_outputs[default]}
        for name, spec in specs.items():
            for key, output in spec.export_outputs.items():
                found[name if key == default else f"{name}/{key}"] = output
        flat = {f"{name}/{key}": value for (name, key), value in predictions.items()}
        found["predict"] = PredictOutput(flat)
        return found
