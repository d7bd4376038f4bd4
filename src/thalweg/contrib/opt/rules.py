"""Optimizers of contrib.opt that are rules of their own: Nadam, AdaMax, AddSign, PowerSign, LARS."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


class _DenseRule(tf.train.Optimizer):
    """An optimizer written with ops: a subclass gives the update of one variable; sparse gradients are made dense."""

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return self._rule(grad, var)

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        return self._rule(grad, handle)

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._rule(tf.convert_to_tensor(grad), var)

    def _apply_sparse_duplicate_indices(self, grad: Any, var: Any) -> Any:
        return self._apply_sparse(grad, var)

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        return self._rule(tf.convert_to_tensor(tf.IndexedSlices(grad, indices, tf.shape(handle))), handle)

    def _resource_apply_sparse_duplicate_indices(self, grad: Any, handle: Any, indices: Any) -> Any:
        return self._resource_apply_sparse(grad, handle, indices)

    def _rule(self, grad: Any, var: Any) -> Any:
        raise NotImplementedError

    def _rate(self, var: Any) -> Any:
        given = self._learning_rate
        return tf.cast(given() if callable(given) else given, var.dtype.base_dtype)

    _learning_rate: Any = None


@export("contrib.opt.AddSignOptimizer")
class AddSignOptimizer(_DenseRule):
    """Steps of `alpha + decay * sign(g) * sign(m)` times the gradient (Bello et al., 2017)."""

    def __init__(
        self, learning_rate: Any = 0.1, alpha: float = 1.0, beta: float = 0.9, sign_decay_fn: Any = None,
        use_locking: bool = False, name: str = "AddSignOptimizer",
    ) -> None:  # fmt: skip
        """Takes the rate, alpha, the decay of the moving average, and a function of the step for the sign's weight."""
        super().__init__(use_locking, name)
        self._learning_rate, self._alpha, self._beta, self._sign_decay_fn = learning_rate, alpha, beta, sign_decay_fn
        self._sign_decay: Any = None

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Applies gradients; the step says how much signs weigh."""
        if self._sign_decay_fn is not None:
            self._sign_decay = self._sign_decay_fn(global_step)
        return super().apply_gradients(grads_and_vars, global_step, name)

    def _create_slots(self, var_list: Any) -> None:
        for var in var_list:
            self._zeros_slot(var, "m", self._name)

    def _signed(self, grad: Any, var: Any) -> tuple[Any, Any]:
        average = self.get_slot(var, "m")
        new = tf.assign(average, average * self._beta + grad * (1.0 - self._beta))
        signs = tf.sign(grad) * tf.sign(new)
        return new, signs if self._sign_decay is None else tf.cast(self._sign_decay, grad.dtype) * signs

    def _rule(self, grad: Any, var: Any) -> Any:
        new, signs = self._signed(grad, var)
        return tf.group(tf.assign_sub(var, self._rate(var) * (self._alpha + signs) * grad), new)


@export("contrib.opt.PowerSignOptimizer")
class PowerSignOptimizer(AddSignOptimizer):
    """Steps of `base ** (decay * sign(g) * sign(m))` times the gradient (Bello et al., 2017)."""

    def __init__(
        self, learning_rate: Any = 0.1, base: float = 2.718281828459045, beta: float = 0.9, sign_decay_fn: Any = None,
        use_locking: bool = False, name: str = "PowerSignOptimizer",
    ) -> None:  # fmt: skip
        """Takes the rate, the base, the decay of the average, and a function of the step for the sign's weight."""
        super().__init__(learning_rate, 1.0, beta, sign_decay_fn, use_locking, name)
        self._base = base

    def _rule(self, grad: Any, var: Any) -> Any:
        new, signs = self._signed(grad, var)
        factor = tf.pow(tf.constant(self._base, grad.dtype), signs)
        return tf.group(tf.assign_sub(var, self._rate(var) * factor * grad), new)


@export("contrib.opt.AdaMaxOptimizer")
class AdaMaxOptimizer(_DenseRule):
    """AdaMax, Adam with the infinity norm (Kingma and Ba, 2014)."""

    def __init__(
        self, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
        use_locking: bool = False, name: str = "AdaMax",
    ) -> None:  # fmt: skip
        """Takes the arguments of Adam."""
        super().__init__(use_locking, name)
        self._learning_rate, self._beta1, self._beta2, self._epsilon = learning_rate, beta1, beta2, epsilon

    def _create_slots(self, var_list: Any) -> None:
        first = min(var_list, key=lambda v: v.name)
        self._create_non_slot_variable(self._beta1, "beta1_power", first)
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    def _power(self, graph: Any = None) -> Any:
        return self._get_non_slot_variable("beta1_power")

    def _rule(self, grad: Any, var: Any) -> Any:
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m = tf.assign(m, self._beta1 * m + (1 - self._beta1) * grad)
        new_v = tf.assign(v, tf.maximum(self._beta2 * v, tf.abs(grad)))
        power = tf.cast(self._power(), var.dtype.base_dtype)
        step = self._rate(var) / (1 - power) * (new_m / (new_v + self._epsilon))
        return tf.group(tf.assign_sub(var, step), new_m, new_v)

    def _finish(self, update_ops: Any, name_scope: str) -> Any:
        with tf.control_dependencies(update_ops):
            power = self._power()
            return tf.group(*update_ops, tf.assign(power, power * self._beta1), name=name_scope)


@export("contrib.opt.NadamOptimizer")
class NadamOptimizer(AdaMaxOptimizer):
    """Adam with Nesterov's momentum (Dozat, 2016)."""

    def __init__(
        self, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
        use_locking: bool = False, name: str = "Nadam",
    ) -> None:  # fmt: skip
        """Takes the arguments of Adam."""
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)

    def _create_slots(self, var_list: Any) -> None:
        super()._create_slots(var_list)
        self._create_non_slot_variable(self._beta2, "beta2_power", min(var_list, key=lambda v: v.name))

    def _power2(self) -> Any:
        return self._get_non_slot_variable("beta2_power")

    def _rule(self, grad: Any, var: Any) -> Any:
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        kind = var.dtype.base_dtype
        new_m = tf.assign(m, self._beta1 * m + (1 - self._beta1) * grad)
        new_v = tf.assign(v, self._beta2 * v + (1 - self._beta2) * tf.square(grad))
        rate = self._rate(var) * tf.sqrt(1 - tf.cast(self._power2(), kind)) / (1 - tf.cast(self._power(), kind))
        ahead = self._beta1 * new_m + (1 - self._beta1) * grad
        return tf.group(tf.assign_sub(var, rate * ahead / (tf.sqrt(new_v) + self._epsilon)), new_m, new_v)

    def _finish(self, update_ops: Any, name_scope: str) -> Any:
        with tf.control_dependencies(update_ops):
            first, second = self._power(), self._power2()
            powers = [tf.assign(first, first * self._beta1), tf.assign(second, second * self._beta2)]
            return tf.group(*update_ops, *powers, name=name_scope)


@export("contrib.opt.LARSOptimizer")
class LARSOptimizer(_DenseRule):
    """Momentum with a learning rate per layer (You et al., 2017)."""

    def __init__(
        self, learning_rate: Any, momentum: float = 0.9, weight_decay: float = 0.0001, eeta: float = 0.001,
        epsilon: float = 0.0, name: str = "LARSOptimizer", skip_list: Any = None, use_nesterov: bool = False,
    ) -> None:  # fmt: skip
        """Takes rate, momentum, decay, the trust coefficient, and names of variables that are left out.

        Raises:
            ValueError: If the momentum is negative.
        """
        if momentum < 0.0:
            raise ValueError(f"momentum should be positive: {momentum}")
        super().__init__(False, name)
        self._learning_rate, self._momentum, self._weight_decay = learning_rate, momentum, weight_decay
        self._eeta, self._epsilon, self._skip, self._nesterov = eeta, epsilon, skip_list or (), use_nesterov

    def _create_slots(self, var_list: Any) -> None:
        for var in var_list:
            self._zeros_slot(var, "momentum", self._name)

    def _rule(self, grad: Any, var: Any) -> Any:
        rate = self._rate(var)
        if not any(name in var.name for name in self._skip):
            weight, slope = tf.norm(var, ord=2), tf.norm(grad, ord=2)
            ratio = self._eeta * weight / (slope + self._weight_decay * weight + self._epsilon)
            known = tf.logical_and(tf.greater(weight, 0), tf.greater(slope, 0))
            rate *= tf.where(known, ratio, tf.ones_like(weight))
            grad = grad + self._weight_decay * var
        momentum = self.get_slot(var, "momentum")
        new = tf.assign(momentum, self._momentum * momentum + grad)
        step = grad + self._momentum * new if self._nesterov else new
        return tf.group(tf.assign_sub(var, rate * step), new)
