"""Weight decay apart from the gradient (Loshchilov and Hutter, 2017): AdamW, MomentumW, and any other optimizer."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


@export("contrib.opt.DecoupledWeightDecayExtension")
class DecoupledWeightDecayExtension:
    """To be put before an optimizer in a class's bases: variables decay by themselves, before the update."""

    def __init__(self, weight_decay: Any, **kwargs: Any) -> None:
        """Takes the rate of decay, a number or a tensor or a function of nothing, and the optimizer's arguments."""
        self._decay_var_list: set[int] | None = None
        self._weight_decay = weight_decay
        super().__init__(**kwargs)

    def minimize(
        self, loss: Any, global_step: Any = None, var_list: Any = None,
        gate_gradients: int = tf.train.Optimizer.GATE_OP,
        aggregation_method: Any = None, colocate_gradients_with_ops: bool = False, name: str | None = None,
        grad_loss: Any = None, decay_var_list: Any = None,
    ) -> Any:  # fmt: skip
        """As of the optimizer; `decay_var_list` are the variables that decay, all if None."""
        self._decay_var_list = {id(v) for v in decay_var_list} if decay_var_list else None
        return super().minimize(  # type: ignore[misc]
            loss,
            global_step,
            var_list,
            gate_gradients,
            aggregation_method,
            colocate_gradients_with_ops,
            name,
            grad_loss,
        )

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None, decay_var_list: Any = None
    ) -> Any:
        """As of the optimizer; `decay_var_list` are the variables that decay, all if None."""
        if decay_var_list:
            self._decay_var_list = {id(v) for v in decay_var_list}
        pairs = list(grads_and_vars)
        decays = []
        for gradient, variable in pairs:
            if gradient is not None and (self._decay_var_list is None or id(variable) in self._decay_var_list):
                # After the gradients have been computed of the value that decays.
                values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
                with tf.control_dependencies([g for g, _ in pairs if isinstance(g, tf.Tensor)] + [values]):
                    decays.append(self._decay(gradient, variable))
        with tf.control_dependencies(decays):
            return super().apply_gradients(pairs, global_step, name)  # type: ignore[misc]

    def _decay(self, gradient: Any, variable: Any) -> Any:
        given = self._weight_decay() if callable(self._weight_decay) else self._weight_decay
        rate = tf.cast(given, variable.dtype.base_dtype)
        if isinstance(gradient, tf.IndexedSlices):
            rows, _ = tf.unique(gradient.indices)
            return tf.scatter_sub(variable, rows, rate * tf.gather(variable, rows))
        return tf.assign_sub(variable, rate * variable)


@export("contrib.opt.extend_with_decoupled_weight_decay")
def extend_with_decoupled_weight_decay(base_optimizer: Any) -> Any:
    """A class like an optimizer's, with decoupled weight decay: its first argument is the rate of decay."""

    class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecayExtension, base_optimizer):  # type: ignore[misc]
        """An optimizer with decoupled weight decay."""

        def __init__(self, weight_decay: Any, *args: Any, **kwargs: Any) -> None:
            self._decay_var_list = None
            self._weight_decay = weight_decay
            base_optimizer.__init__(self, *args, **kwargs)

    return OptimizerWithDecoupledWeightDecay


@export("contrib.opt.AdamWOptimizer")
class AdamWOptimizer(DecoupledWeightDecayExtension, tf.train.AdamOptimizer):
    """Adam with decoupled weight decay."""

    def __init__(
        self, weight_decay: Any, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999,
        epsilon: float = 1e-8, use_locking: bool = False, name: str = "AdamW",
    ) -> None:  # fmt: skip
        """Takes the rate of decay and the arguments of Adam."""
        super().__init__(
            weight_decay, learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon,
            use_locking=use_locking, name=name,
        )  # fmt: skip


@export("contrib.opt.MomentumWOptimizer")
class MomentumWOptimizer(DecoupledWeightDecayExtension, tf.train.MomentumOptimizer):
    """Momentum with decoupled weight decay."""

    def __init__(
        self, weight_decay: Any, learning_rate: Any, momentum: Any, use_locking: bool = False, name: str = "MomentumW",
        use_nesterov: bool = False,
    ) -> None:  # fmt: skip
        """Takes the rate of decay and the arguments of Momentum."""
        super().__init__(
            weight_decay, learning_rate=learning_rate, momentum=momentum, use_locking=use_locking, name=name,
            use_nesterov=use_nesterov,
        )  # fmt: skip
