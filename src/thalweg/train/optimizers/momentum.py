"""train.MomentumOptimizer: steps along a decaying sum of the gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.ops.nn.training_ops import apply_rule
from thalweg.train.optimizers.optimizer import Optimizer
from thalweg.train.optimizers.rule_optimizer import by_one_rule


@export("train.MomentumOptimizer")
@by_one_rule
class MomentumOptimizer(Optimizer):
    """Gradient descent with momentum: `accum = momentum * accum + gradient; var -= rate * accum`."""

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        """Creates an optimizer.

        Args:
            learning_rate: A number, a tensor, or a function that returns one.
            momentum: The same: how much of the last step the next one keeps.
            use_locking: Has no effect: every update is atomic.
            name: The name scope of the updates.
            use_nesterov: Whether the gradient counts as taken after the momentum's part of the step.
        """
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._momentum = momentum
        self._use_nesterov = use_nesterov
        self._learning_rate_tensor: Any = None
        self._momentum_tensor: Any = None

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self._zeros_slot(var, "momentum", self._name)

    def _prepare(self) -> None:
        self._learning_rate_tensor = self._tensor_of(self._learning_rate, "learning_rate")
        self._momentum_tensor = self._tensor_of(self._momentum, "momentum")

    def _step(self, grad: Tensor, var: Any, indices: Tensor | None) -> Any:
        return apply_rule(
            "Momentum", (var, self.get_slot(var, "momentum")), grad, indices, self._use_locking,
            {"use_nesterov": self._use_nesterov}, lr=self._learning_rate_tensor, momentum=self._momentum_tensor,
        )  # fmt: skip
