"""Optimizers around others: MovingAverageOptimizer, VariableClippingOptimizer, MultitaskOptimizerWrapper."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


@export("contrib.opt.MovingAverageOptimizer")
class MovingAverageOptimizer(tf.train.Optimizer):
    """Another optimizer's steps, with moving averages of the variables, which `swapping_saver` saves in their place."""

    def __init__(
        self, opt: Any, average_decay: float = 0.9999, num_updates: Any = None, sequential_update: bool = True
    ) -> None:
        """Takes the optimizer, the decay of the averages, the step that shortens it, and whether averages wait."""
        self._optimizer = opt
        self._ema = tf.train.ExponentialMovingAverage(average_decay, num_updates=num_updates)
        self._swapped: dict[str, Any] | None = None
        self._sequential = sequential_update
        super().__init__(False, "MovingAverage")

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """As of the optimizer."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Applies gradients and updates the averages."""
        pairs = list(grads_and_vars)
        step = self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)
        variables = [variable for gradient, variable in pairs if gradient is not None]
        with tf.control_dependencies([step] if self._sequential else []):
            averages = self._ema.apply(variables)
        self._swapped = {}
        for variable in variables:
            average = self._ema.average(variable)
            assert average is not None  # apply has made it.
            self._swapped[average.op.name] = variable
            self._swapped[variable.op.name] = average
        return tf.group(step, averages, name="train_with_avg")

    def swapping_saver(self, var_list: Any = None, name: str = "swapping_saver", **kwargs: Any) -> Any:
        """A Saver that writes averages under the names of their variables, and the reverse.

        Raises:
            RuntimeError: If no gradients have been applied yet.
        """
        if self._swapped is None:
            raise RuntimeError("Must call apply_gradients or minimize before creating the swapping_saver")
        listed = tf.global_variables() if var_list is None else var_list
        named = dict(listed) if isinstance(listed, dict) else {variable.op.name: variable for variable in listed}
        swapped = {key: self._swapped.get(variable.op.name, variable) for key, variable in named.items()}
        return tf.train.Saver(swapped, name=name, **kwargs)


@export("contrib.opt.VariableClippingOptimizer")
class VariableClippingOptimizer(tf.train.Optimizer):
    """Another optimizer's steps; some variables are clipped to a norm after each."""

    def __init__(
        self, opt: Any, vars_to_clip_dims: dict[Any, Any], max_norm: float, use_locking: bool = False,
        colocate_clip_ops_with_vars: bool = False, name: str = "VariableClipping",
    ) -> None:  # fmt: skip
        """Takes the optimizer, the axes to take the norm over by variable, and the norm."""
        super().__init__(use_locking, name)
        self._opt = opt
        self._axes = {id(variable): list(axes) for variable, axes in vars_to_clip_dims.items()}
        self._max_norm = max_norm

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """As of the optimizer."""
        return self._opt.compute_gradients(*args, **kwargs)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """As of the optimizer."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """As of the optimizer."""
        return self._opt.get_slot_names(*args, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Applies gradients, then clips."""
        with tf.name_scope(name, self._name) as scope:
            pairs = list(grads_and_vars)
            step = self._opt.apply_gradients(pairs, global_step=global_step)
            clipped = []
            with tf.control_dependencies([step]):
                for gradient, variable in pairs:
                    if id(variable) in self._axes and gradient is not None:
                        value = variable.read_value()
                        new = tf.clip_by_norm(value, self._max_norm, axes=self._axes[id(variable)])
                        clipped.append(tf.assign(variable, new))
            return tf.group(step, *clipped, name=scope)


@export("contrib.opt.clip_gradients_by_global_norm")
def clip_gradients_by_global_norm(gradients_variables: Any, clip_norm: float = 20.0) -> list[Any]:
    """(gradient, variable) pairs with gradients clipped to a global norm; gradients that are all zero do not count."""
    gradients, variables = zip(*gradients_variables, strict=True)
    clipped, _ = tf.clip_by_global_norm(gradients, clip_norm)
    return list(zip(clipped, variables, strict=True))


@export("contrib.opt.MultitaskOptimizerWrapper")
class MultitaskOptimizerWrapper:
    """An optimizer that leaves a variable, and its slots, alone when its gradient is all zero."""

    def __init__(self, opt: Any) -> None:
        """Takes the optimizer."""
        self._opt = opt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opt, name)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Applies those gradients that are not all zero."""
        steps = []
        for gradient, variable in grads_and_vars:
            if gradient is None:
                continue
            values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient

            def apply(gradient: Any = gradient, variable: Any = variable) -> Any:
                return tf.group(self._opt.apply_gradients([(gradient, variable)]))

            self._opt._create_slots([variable])
            steps.append(tf.cond(tf.equal(tf.count_nonzero(values), 0), tf.no_op, apply))
        if global_step is not None:
            steps.append(tf.assign_add(global_step, 1))
        return tf.group(*steps, name=name)
