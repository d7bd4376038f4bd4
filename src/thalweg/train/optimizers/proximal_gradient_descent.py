"""train.ProximalGradientDescentOptimizer: gradient descent with L1 and L2 regularization by a proximal map."""

from __future__ import annotations

from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.ops.nn.training_ops import apply_rule
from thalweg.train.optimizers.optimizer import Optimizer
from thalweg.train.optimizers.rule_optimizer import by_one_rule


@export("train.ProximalGradientDescentOptimizer")
@by_one_rule
class ProximalGradientDescentOptimizer(Optimizer):
    """Gradient descent that makes small weights exactly zero."""

    def __init__(
        self,
        learning_rate: Any,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalGradientDescent",
    ) -> None:
        """Creates an optimizer.

        Args:
            learning_rate: A number or a tensor.
            l1_regularization_strength: How strongly variables are pulled to exactly zero.
            l2_regularization_strength: How strongly they are made smaller.
            use_locking: Has no effect: every update is atomic.
            name: The name scope of the updates.
        """
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength
        self._learning_rate_tensor: Any = None
        self._l1_regularization_strength_tensor: Any = None
        self._l2_regularization_strength_tensor: Any = None

    def _prepare(self) -> None:
        self._learning_rate_tensor = self._tensor_of(self._learning_rate, "learning_rate")
        l1, l2 = "l1_regularization_strength", "l2_regularization_strength"
        self._l1_regularization_strength_tensor = self._tensor_of(self._l1_regularization_strength, l1)
        self._l2_regularization_strength_tensor = self._tensor_of(self._l2_regularization_strength, l2)

    def _step(self, grad: Tensor, var: Any, indices: Tensor | None) -> Any:
        return apply_rule(
            "ProximalGradientDescent", [var], grad, indices, self._use_locking, alpha=self._learning_rate_tensor,
            l1=self._l1_regularization_strength_tensor, l2=self._l2_regularization_strength_tensor,
        )  # fmt: skip
