"""train.ProximalAdagradOptimizer: Adagrad with L1 and L2 regularization by a proximal map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.ops.nn.training_ops import apply_rule
from thalweg.train.optimizers.adagrad import accumulator_slots
from thalweg.train.optimizers.proximal_gradient_descent import ProximalGradientDescentOptimizer


@export("train.ProximalAdagradOptimizer")
class ProximalAdagradOptimizer(ProximalGradientDescentOptimizer):
    """Adagrad that makes small weights exactly zero."""

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalAdagrad",
    ) -> None:
        """Creates an optimizer.

        Args:
            learning_rate: A number or a tensor.
            initial_accumulator_value: What the sum of squares starts from; positive.
            l1_regularization_strength: How strongly variables are pulled to exactly zero.
            l2_regularization_strength: How strongly they are made smaller.
            use_locking: Has no effect: every update is atomic.
            name: The name scope of the updates, and of the slots.

        Raises:
            ValueError: If `initial_accumulator_value` is not positive.
        """
        if initial_accumulator_value <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: {initial_accumulator_value}")
        super().__init__(learning_rate, l1_regularization_strength, l2_regularization_strength, use_locking, name)
        self._initial_accumulator_value = initial_accumulator_value

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        accumulator_slots(self, var_list, self._initial_accumulator_value, "accumulator", self._name)

    def _step(self, grad: Tensor, var: Any, indices: Tensor | None) -> Any:
        return apply_rule(
            "ProximalAdagrad", (var, self.get_slot(var, "accumulator")), grad, indices, self._use_locking,
            lr=self._learning_rate_tensor, l1=self._l1_regularization_strength_tensor,
            l2=self._l2_regularization_strength_tensor,
        )  # fmt: skip
