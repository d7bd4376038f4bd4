"""train.FtrlOptimizer: follow the regularized leader, for sparse linear models at scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.ops.nn.training_ops import apply_rule
from thalweg.train.optimizers.adagrad import accumulator_slots
from thalweg.train.optimizers.optimizer import Optimizer
from thalweg.train.optimizers.rule_optimizer import by_one_rule


@export("train.FtrlOptimizer")
@by_one_rule
class FtrlOptimizer(Optimizer):
    """FTRL-Proximal, with L1, L2 and (during the step only: shrinkage) L2 regularization."""

    def __init__(
        self,
        learning_rate: Any,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
        accum_name: str | None = None,
        linear_name: str | None = None,
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float | None = None,
    ) -> None:
        """Creates an optimizer.

        Args:
            learning_rate: A number, a tensor, or a function that returns one.
            learning_rate_power: How the rate falls with the sum of squares; at most 0, and 0 for a fixed rate.
            initial_accumulator_value: What the sum of squares starts from; not negative.
            l1_regularization_strength: How strongly variables are pulled to exactly zero.
            l2_regularization_strength: How strongly they are made smaller.
            use_locking: Has no effect: every update is atomic.
            name: The name scope of the updates, and of the slots.
            accum_name: The name of the slot with the sum of squares.
            linear_name: The name of the slot with the linear term.
            l2_shrinkage_regularization_strength: As L2, but leaves the sum of squares alone.
            beta: Added to the root of the sum of squares, as L2 of strength beta / (2 * learning_rate) is; 0 if None.

        Raises:
            ValueError: If one of the numbers has the wrong sign.
        """
        super().__init__(use_locking, name)
        _require(initial_accumulator_value >= 0.0, "initial_accumulator_value", "positive or zero",
                 initial_accumulator_value)  # fmt: skip
        _require(learning_rate_power <= 0.0, "learning_rate_power", "negative or zero", learning_rate_power)
        for what, value in (
            ("l1_regularization_strength", l1_regularization_strength),
            ("l2_regularization_strength", l2_regularization_strength),
            ("l2_shrinkage_regularization_strength", l2_shrinkage_regularization_strength),
        ):
            _require(value >= 0.0, what, "positive or zero", value)
        self._learning_rate = learning_rate
        self._learning_rate_power = learning_rate_power
        self._initial_accumulator_value = initial_accumulator_value
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength
        self._l2_shrinkage_regularization_strength = l2_shrinkage_regularization_strength
        self._beta = beta or 0.0
        self._accum_name = accum_name
        self._linear_name = linear_name
        self._learning_rate_tensor: Any = None
        self._learning_rate_power_tensor: Any = None
        self._l1_regularization_strength_tensor: Any = None
        self._l2_regularization_strength_tensor: Any = None
        self._l2_shrinkage_regularization_strength_tensor: Any = None

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            accumulator_slots(self, [var], self._initial_accumulator_value, "accum", self._accum_name or self._name)
            self._zeros_slot(var, "linear", self._linear_name or self._name)

    def _prepare(self) -> None:
        self._learning_rate_tensor = self._tensor_of(self._learning_rate, "learning_rate")
        for name in (
            "l1_regularization_strength", "l2_regularization_strength", "l2_shrinkage_regularization_strength",
            "learning_rate_power",
        ):  # fmt: skip
            setattr(self, f"_{name}_tensor", self._tensor_of(getattr(self, f"_{name}"), name))
        if self._beta:
            self._l2_regularization_strength_tensor += self._beta / (2.0 * self._learning_rate_tensor)

    def _step(self, grad: Tensor, var: Any, indices: Tensor | None) -> Any:
        return apply_rule(
            "FtrlV2" if self._l2_shrinkage_regularization_strength > 0.0 else "Ftrl",
            (var, self.get_slot(var, "accum"), self.get_slot(var, "linear")),
            grad,
            indices,
            self._use_locking,
            lr=self._learning_rate_tensor,
            l1=self._l1_regularization_strength_tensor,
            l2=self._l2_regularization_strength_tensor,
            l2_shrinkage=self._l2_shrinkage_regularization_strength_tensor,
            lr_power=self._learning_rate_power_tensor,
        )


def _require(holds: bool, what: str, sign: str, value: float) -> None:
    if not holds:
        raise ValueError(f"{what} {value} needs to be {sign}")
