"""train.AdagradOptimizer: rates that fall with the sum of the squared gradients of each element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.ops.math.casting import cast
from thalweg.ops.nn.training_ops import apply_rule
from thalweg.state.initializers import Constant
from thalweg.train.optimizers import slots
from thalweg.train.optimizers.optimizer import Optimizer
from thalweg.train.optimizers.rule_optimizer import by_one_rule


def accumulator_slots(optimizer: Optimizer, var_list: Sequence[Any], initial: float, slot: str, op_name: str) -> None:
    """Creates the slot of each variable in which an optimizer of this family sums squares."""
    for var in var_list:
        dtype = var.dtype.base_dtype
        if slots.known_at_once(var):
            shape = var.shape
            optimizer._get_or_make_slot_with_initializer(var, Constant(initial, dtype), shape, dtype, slot, op_name)
        else:
            # The shape is known only once the variable has been initialized.
            value = apply_one("Fill", apply_one("Shape", var.initialized_value()), cast(initial, dtype))
            optimizer._get_or_make_slot(var, value, slot, op_name)


@export("train.AdagradOptimizer")
@by_one_rule
class AdagradOptimizer(Optimizer):
    """Adagrad: `accum += gradient ** 2; var -= rate * gradient / sqrt(accum)`."""

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        """Creates an optimizer.

        Args:
            learning_rate: A number, a tensor, or a function that returns one.
            initial_accumulator_value: What the sum of squares starts from; positive.
            use_locking: Has no effect: every update is atomic.
            name: The name scope of the updates, and of the slots.

        Raises:
            ValueError: If `initial_accumulator_value` is not positive.
        """
        if initial_accumulator_value <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: {initial_accumulator_value}")
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._initial_accumulator_value = initial_accumulator_value
        self._learning_rate_tensor: Any = None

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        accumulator_slots(self, var_list, self._initial_accumulator_value, "accumulator", self._name)

    def _prepare(self) -> None:
        self._learning_rate_tensor = self._tensor_of(self._learning_rate, "learning_rate")

    def _step(self, grad: Tensor, var: Any, indices: Tensor | None) -> Any:
        accumulator = self.get_slot(var, "accumulator")
        return apply_rule(
            "Adagrad", (var, accumulator), grad, indices, self._use_locking, lr=self._learning_rate_tensor
        )
