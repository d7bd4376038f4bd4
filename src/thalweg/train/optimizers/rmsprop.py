"""train.RMSPropOptimizer: steps scaled by an average of the squared gradients, with momentum; plain or centered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.ops.nn.training_ops import apply_rule
from thalweg.state.initializers import Ones
from thalweg.train.optimizers import slots
from thalweg.train.optimizers.optimizer import Optimizer
from thalweg.train.optimizers.rule_optimizer import by_one_rule


@export("train.RMSPropOptimizer")
@by_one_rule
class RMSPropOptimizer(Optimizer):
    """RMSProp: `ms = average(gradient ** 2); mom = momentum * mom + rate * gradient / sqrt(ms + eps); var -= mom`."""

    def __init__(
        self,
        learning_rate: Any,
        decay: Any = 0.9,
        momentum: Any = 0.0,
        epsilon: Any = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        """Creates an optimizer.

        Args:
            learning_rate: A number, a tensor, or a function that returns one; so are the next three.
            decay: The decay of the average.
            momentum: How much of the last step the next one keeps.
            epsilon: Added to the average, against division by zero.
            use_locking: Has no effect: every update is atomic.
            centered: Whether to divide by an estimate of the variance of the gradient instead of its square.
            name: The name scope of the updates, and of the slots.
        """
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._decay = decay
        self._momentum = momentum
        self._epsilon = epsilon
        self._centered = centered
        self._learning_rate_tensor: Any = None
        self._decay_tensor: Any = None
        self._momentum_tensor: Any = None
        self._epsilon_tensor: Any = None

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            if slots.known_at_once(var):
                dtype = var.dtype.base_dtype
                self._get_or_make_slot_with_initializer(var, Ones(dtype), var.shape, dtype, "rms", self._name)
            else:
                self._get_or_make_slot(var, apply_one("OnesLike", var.initialized_value()), "rms", self._name)
            if self._centered:
                self._zeros_slot(var, "mg", self._name)
            self._zeros_slot(var, "momentum", self._name)

    def _prepare(self) -> None:
        self._learning_rate_tensor = self._tensor_of(self._learning_rate, "learning_rate")
        self._decay_tensor = self._tensor_of(self._decay, "decay")
        self._momentum_tensor = self._tensor_of(self._momentum, "momentum")
        self._epsilon_tensor = self._tensor_of(self._epsilon, "epsilon")

    def _step(self, grad: Tensor, var: Any, indices: Tensor | None) -> Any:
        names = ("mg", "rms", "momentum") if self._centered else ("rms", "momentum")
        return apply_rule(
            "CenteredRMSProp" if self._centered else "RMSProp",
            (var, *[self.get_slot(var, name) for name in names]),
            grad,
            indices,
            self._use_locking,
            lr=self._learning_rate_tensor,
            rho=self._decay_tensor,
            momentum=self._momentum_tensor,
            epsilon=self._epsilon_tensor,
        )
