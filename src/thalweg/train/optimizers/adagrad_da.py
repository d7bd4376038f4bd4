"""train.AdagradDAOptimizer: Adagrad with dual averaging, for sparse linear models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.ops.nn.training_ops import apply_rule
from thalweg.train.optimizers.adagrad import accumulator_slots
from thalweg.train.optimizers.optimizer import Optimizer
from thalweg.train.optimizers.rule_optimizer import by_one_rule


@export("train.AdagradDAOptimizer")
@by_one_rule
class AdagradDAOptimizer(Optimizer):
    """Adagrad with dual averaging: variables follow from the sums of the gradients and of their squares alone.

    Rows without a gradient in a step are still regularized the next time they get one.
    """

    def __init__(
        self,
        learning_rate: Any,
        global_step: Any,
        initial_gradient_squared_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "AdagradDA",
    ) -> None:
        """Creates an optimizer.

        Args:
            learning_rate: A number or a tensor.
            global_step: A tensor or variable with the number of the step, from 0.
            initial_gradient_squared_accumulator_value: What the sum of squares starts from; positive.
            l1_regularization_strength: How strongly variables are pulled to exactly zero.
            l2_regularization_strength: How strongly they are made smaller.
            use_locking: Has no effect: every update is atomic.
            name: The name scope of the updates, and of the slots.

        Raises:
            ValueError: If `initial_gradient_squared_accumulator_value` is not positive.
        """
        if initial_gradient_squared_accumulator_value <= 0.0:
            raise ValueError(
                "initial_gradient_squared_accumulator_value must be positive: "
                f"{initial_gradient_squared_accumulator_value}"
            )
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._initial_gradient_squared_accumulator_value = initial_gradient_squared_accumulator_value
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength
        self._global_step = global_step
        self._global_step_on_worker: Any = None
        self._learning_rate_tensor: Any = None

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        initial = self._initial_gradient_squared_accumulator_value
        for var in var_list:
            self._zeros_slot(var, "gradient_accumulator", self._name)
            accumulator_slots(self, [var], initial, "gradient_squared_accumulator", self._name)

    def _prepare(self) -> None:
        # The rule counts steps from 1.
        self._global_step_on_worker = self._global_step + 1
        self._learning_rate_tensor = self._tensor_of(self._learning_rate, "learning_rate")

    def _step(self, grad: Tensor, var: Any, indices: Tensor | None) -> Any:
        slots = [self.get_slot(var, name) for name in ("gradient_accumulator", "gradient_squared_accumulator")]
        return apply_rule(
            "AdagradDA", (var, *slots), grad, indices, self._use_locking, lr=self._learning_rate_tensor,
            l1=self._l1_regularization_strength, l2=self._l2_regularization_strength,
            global_step=self._global_step_on_worker,
        )  # fmt: skip
