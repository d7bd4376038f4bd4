"""train.AdadeltaOptimizer: steps scaled by the ratio of averages of past steps and gradients (arXiv:1212.5701)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.ops.nn.training_ops import apply_rule
from thalweg.train.optimizers.optimizer import Optimizer
from thalweg.train.optimizers.rule_optimizer import by_one_rule


@export("train.AdadeltaOptimizer")
@by_one_rule
class AdadeltaOptimizer(Optimizer):
    """Adadelta."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: Any = 0.95,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        """Creates an optimizer.

        Args:
            learning_rate: A number, a tensor, or a function that returns one; so are the next two. The paper has 1.0.
            rho: The decay of the averages.
            epsilon: Added to the averages, so that the first step is not zero.
            use_locking: Has no effect: every update is atomic.
            name: The name scope of the updates, and of the slots.
        """
        super().__init__(use_locking, name)
        self._lr = learning_rate
        self._rho = rho
        self._epsilon = epsilon
        self._lr_t: Any = None
        self._rho_t: Any = None
        self._epsilon_t: Any = None

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self._zeros_slot(var, "accum", self._name)
            self._zeros_slot(var, "accum_update", self._name)

    def _prepare(self) -> None:
        self._lr_t = self._tensor_of(self._lr, "lr")
        self._rho_t = self._tensor_of(self._rho, "rho")
        self._epsilon_t = self._tensor_of(self._epsilon, "epsilon")

    def _step(self, grad: Tensor, var: Any, indices: Tensor | None) -> Any:
        slots = (self.get_slot(var, "accum"), self.get_slot(var, "accum_update"))
        return apply_rule(
            "Adadelta", (var, *slots), grad, indices, self._use_locking, lr=self._lr_t, rho=self._rho_t,
            epsilon=self._epsilon_t,
        )  # fmt: skip
