"""train.AdamOptimizer: an average of the gradients, scaled by an average of their squares (arXiv:1412.6980)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thalweg.graph.default_graph import colocate_with, control_dependencies, executing_eagerly
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.ops.array import constants
from thalweg.ops.math.casting import cast
from thalweg.ops.nn.training_ops import apply_rule
from thalweg.state.embedding_variable import EmbeddingVariable
from thalweg.train.optimizers.optimizer import Optimizer


@export("train.AdamOptimizer")
class AdamOptimizer(Optimizer):
    """Adam. Sparse gradients decay the averages of all rows, and move all rows, as if they were dense.

    So a step takes time for the whole variable; for large embeddings see `tf.contrib.opt.LazyAdamOptimizer`.

    Of an embedding variable they decay those of the rows that they name.

    Example:
        >>> w = tf.Variable(3.0)
        >>> step = tf.train.AdamOptimizer(0.1).minimize(tf.square(w))
        >>> with tf.Session() as sess:
        ...     sess.run(tf.global_variables_initializer())
        ...     sess.run(step)
        ...     print(f"{sess.run(w):.3f}")
        2.900
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-08,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        """Creates an optimizer.

        Args:
            learning_rate: A number, a tensor, or a function that returns one; so are the next three.
            beta1: The decay of the average of the gradients.
            beta2: The decay of the average of their squares.
            epsilon: Added to the divisor, against division by zero.
            use_locking: Has no effect: every update is atomic.
            name: The name scope of the updates, and of the slots.
        """
        super().__init__(use_locking, name)
        self._lr = learning_rate
        self._beta1 = beta1
        self._beta2 = beta2
        self._epsilon = epsilon
        self._lr_t: Any = None
        self._beta1_t: Any = None
        self._beta2_t: Any = None
        self._epsilon_t: Any = None
        self._powers: tuple[Any, Any] | None = None

    def _get_beta_accumulators(self) -> tuple[Any, Any]:
        return self._get_non_slot_variable("beta1_power"), self._get_non_slot_variable("beta2_power")

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        if any(power is None for power in self._get_beta_accumulators()):
            # The powers are on the device of one variable, which does not depend on the order of the variables.
            first = min(var_list, key=lambda var: str(var.name))
            self._create_non_slot_variable(self._call_if_callable(self._beta1), "beta1_power", first)
            self._create_non_slot_variable(self._call_if_callable(self._beta2), "beta2_power", first)
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    def _prepare(self) -> None:
        self._lr_t = self._tensor_of(self._lr, "learning_rate")
        self._beta1_t = self._tensor_of(self._beta1, "beta1")
        self._beta2_t = self._tensor_of(self._beta2, "beta2")
        self._epsilon_t = self._tensor_of(self._epsilon, "epsilon")
        # Where ops run at once, one read of the powers serves all variables.
        self._powers = None
        if executing_eagerly():
            beta1_power, beta2_power = self._get_beta_accumulators()
            self._powers = beta1_power.value(), beta2_power.value()

    def _resource_apply_dense(self, grad: Tensor, handle: Any) -> Any:
        return self._step("Adam", grad, handle)

    def _resource_apply_sparse(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        # Of a table only the rows that are named change: nothing of its size is touched.
        rule = "Adam" if isinstance(handle, EmbeddingVariable) else "AdamOfEveryRow"
        return self._step(rule, grad, handle, indices)

    def _step(self, rule: str, grad: Tensor, var: Any, indices: Tensor | None = None) -> Any:
        beta1_power, beta2_power = self._powers or self._get_beta_accumulators()
        return apply_rule(
            rule, (var, self.get_slot(var, "m"), self.get_slot(var, "v")), grad, indices, self._use_locking,
            beta1_power=beta1_power, beta2_power=beta2_power, lr=self._lr_t, beta1=self._beta1_t, beta2=self._beta2_t,
            epsilon=self._epsilon_t,
        )  # fmt: skip

    def _finish(self, update_ops: Sequence[Any], name_scope: str) -> Any:
        if self._powers is not None:
            decays = (self._beta1_t, self._beta2_t)
            for power, value, decay in zip(self._get_beta_accumulators(), self._powers, decays, strict=True):
                power.assign(value * cast(decay, value.dtype), read_value=False)
            return None
        with control_dependencies(update_ops):
            powers = []
            for power, decay in zip(self._get_beta_accumulators(), (self._beta1_t, self._beta2_t), strict=True):
                with colocate_with(power):
                    decay = cast(decay, power.dtype.base_dtype)
                    powers.append(power.assign(power * decay, use_locking=self._use_locking, read_value=False))
        return constants.group(*update_ops, *powers, name=name_scope)


@export("contrib.opt.LazyAdamOptimizer")
class LazyAdamOptimizer(AdamOptimizer):
    """Adam whose sparse steps change only the rows that have a gradient: value and averages of the others stay.

    The step of a large embedding takes time for the rows of the batch, and not for the whole variable. A row's averages
    decay only in the steps that touch it, so results differ from `tf.train.AdamOptimizer`. The slots have its names.
    """

    def _resource_apply_sparse(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        return self._step("Adam" if isinstance(handle, EmbeddingVariable) else "LazyAdam", grad, handle, indices)
