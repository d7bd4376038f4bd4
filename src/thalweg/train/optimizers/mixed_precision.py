"""Mixed precision training: 16-bit products, float32 variables, scaled losses. Part of tf.train.experimental."""

from __future__ import annotations

from typing import Any

from thalweg.control_flow.cond import cond
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.default_graph import control_dependencies, get_default_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.ops.array import constants
from thalweg.ops.math.casting import cast
from thalweg.train.optimizers import loss_scale as loss_scales
from thalweg.train.optimizers.loss_scale import LossScale
from thalweg.train.optimizers.optimizer import GradsAndVars, Optimizer
from thalweg.train.optimizers.wrapper_optimizer import WrapperOptimizer

# Where a graph keeps the type that `passes/mixed_precision.py` lowers its steps to.
GRAPH_KEY = "mixed_precision"


@export("train.experimental.MixedPrecisionLossScaleOptimizer")
class MixedPrecisionLossScaleOptimizer(WrapperOptimizer):
    """Multiplies the loss by a scale, divides the gradients by it, and skips steps whose gradients are not finite."""

    def __init__(self, opt: Optimizer, loss_scale: Any) -> None:
        """Wraps an optimizer.

        Args:
            opt: The optimizer that gets the gradients.
            loss_scale: A LossScale, a number, or 'dynamic'.

        Raises:
            TypeError: If `opt` is not an Optimizer.
            ValueError: If there is no loss scale.
        """
        super().__init__(opt, "MixedPrecisionLossScaleOptimizer")
        scale = loss_scales.get(loss_scale)
        if scale is None:
            raise ValueError("loss_scale cannot be None.")
        self._loss_scale: LossScale = scale
        self._rewrite: DType | None = None

    def compute_gradients(self, loss: Any, *args: Any, **kwargs: Any) -> GradsAndVars:
        """Returns the gradients of `loss`, computed from the scaled loss; the arguments are those of `minimize`."""
        if self._rewrite is not None:
            get_default_graph()._attachments[GRAPH_KEY] = self._rewrite
        scale = self._loss_scale()
        loss = loss() if callable(loss) else loss
        pairs = self._optimizer.compute_gradients(loss * cast(scale, loss.dtype), *args, **kwargs)
        return [(_scaled(grad, 1.0 / scale), var) for grad, var in pairs]

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Returns an operation that applies the gradients if all are finite, and adjusts the scale."""
        pairs = list(grads_and_vars)
        adjusted, finite = self._loss_scale.update([grad for grad, _ in pairs])
        if finite is True:
            applied = self._optimizer.apply_gradients(pairs, global_step, name)
            return constants.group(applied, adjusted)

        def update() -> Any:
            with control_dependencies([self._optimizer.apply_gradients(pairs, global_step, name)]):
                return constants.constant(True)

        applied = cond(finite, update, lambda: constants.constant(False))
        return constants.group(applied, adjusted)


def _scaled(grad: Any, factor: Any) -> Any:
    if grad is None:
        return None
    if isinstance(grad, IndexedSlices):
        return IndexedSlices(_scaled(grad.values, factor), grad.indices, grad.dense_shape)
    return grad * cast(factor, grad.dtype)


@export("train.experimental.enable_mixed_precision_graph_rewrite")
def enable_mixed_precision_graph_rewrite(
    opt: Optimizer, loss_scale: Any = "dynamic", dtype: Any = "bfloat16"
) -> Optimizer:
    """Makes steps of the default graph compute products in 16 bits, and wraps the optimizer with a loss scale.

    Matrix products and convolutions run in `dtype`, with the ops between them where that is safe. Variables, losses,
    sums and updates stay in float32. Graphs are rewritten when a step is compiled, so call this before the first one.

    Args:
        opt: The optimizer.
        loss_scale: A LossScale, a number, or 'dynamic'.
        dtype: 'bfloat16', which has the range of float32, or 'float16', which is more exact but needs the scale.

    Returns:
        A MixedPrecisionLossScaleOptimizer.

    Raises:
        ValueError: If `opt` is not an optimizer or wrapped already, or `dtype` is another one.

    Example:
        >>> opt = tf.train.experimental.enable_mixed_precision_graph_rewrite(tf.train.AdamOptimizer())
    """
    if not isinstance(opt, Optimizer):
        raise ValueError(f'"opt" must be an instance of a tf.train.Optimizer, but got: {opt!r}')
    if isinstance(opt, MixedPrecisionLossScaleOptimizer):
        raise ValueError(
            '"opt" must not already be an instance of a MixedPrecisionLossScaleOptimizer: '
            "enable_mixed_precision_graph_rewrite wraps it with one."
        )
    kind = as_dtype(dtype)
    if kind.name not in ("bfloat16", "float16"):
        raise ValueError(f"dtype must be bfloat16 or float16, got {kind.name}")
    wrapped = MixedPrecisionLossScaleOptimizer(opt, loss_scale)
    wrapped._rewrite = kind
    get_default_graph()._attachments[GRAPH_KEY] = kind
    return wrapped


@export("train.experimental.disable_mixed_precision_graph_rewrite")
def disable_mixed_precision_graph_rewrite() -> None:
    """Lets steps of the default graph that are compiled from now on compute in the types that they were written in."""
    get_default_graph()._attachments.pop(GRAPH_KEY, None)
