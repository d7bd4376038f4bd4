"""Loss scales: factors that keep small gradients from vanishing in float16. Part of tf.train.experimental."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thalweg.control_flow.cond import cond
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import control_dependencies, get_default_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.ops.array import constants
from thalweg.state.variable import Variable


@export("train.experimental.LossScale")
class LossScale:
    """The base class: calling it returns the scale, `update` adjusts it after a step."""

    def __init__(self) -> None:
        """Must be called by subclasses."""
        self._weights: dict[Any, Variable] = {}

    def __call__(self) -> Tensor:
        """Returns the current scale, a float32 scalar."""
        raise NotImplementedError

    def update(self, grads: Sequence[Any]) -> tuple[Any, Any]:
        """Adjusts the scale.

        Args:
            grads: The gradients, already divided by the scale.

        Returns:
            The operation that does it, and whether the gradients should be applied (a bool, or a bool tensor).
        """
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        raise NotImplementedError

    def _add_weight(self, name: str, initial_value: Any, dtype: Any = None) -> Variable:
        """A variable of the scale in the default graph; created if it does not exist."""
        key = (get_default_graph(), name)
        if key not in self._weights:
            with control_dependencies(None):
                value = convert_to_tensor(initial_value, dtype)
                self._weights[key] = Variable(value, name=name, trainable=False)
        return self._weights[key]


@export("train.experimental.FixedLossScale")
class FixedLossScale(LossScale):
    """A scale that stays as it is."""

    def __init__(self, loss_scale_value: float) -> None:
        """Takes the scale.

        Raises:
            ValueError: If it is not a number, or less than 1.
        """
        super().__init__()
        if isinstance(loss_scale_value, bool) or not isinstance(loss_scale_value, (int, float)):
            raise ValueError(f"loss_scale_value must be a Python int or float, got: {loss_scale_value!r}")
        if loss_scale_value < 1:
            raise ValueError(f"loss_scale_value must be at least 1, got: {loss_scale_value}")
        self._value = float(loss_scale_value)

    def __call__(self) -> Tensor:
        """The scale."""
        return constants.constant(self._value, dtypes.float32)

    def update(self, grads: Sequence[Any]) -> tuple[Any, Any]:
        """Changes nothing; gradients are always applied."""
        return constants.no_op(), True

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {"loss_scale_value": self._value}


@export("train.experimental.DynamicLossScale")
class DynamicLossScale(LossScale):
    """A scale that grows while gradients are finite, and shrinks when one is not (that step is skipped)."""

    def __init__(
        self, initial_loss_scale: float = 2**15, increment_period: int = 2000, multiplier: float = 2.0
    ) -> None:
        """Creates a scale.

        Args:
            initial_loss_scale: The first scale. Too large a value is soon corrected.
            increment_period: After how many steps in a row with finite gradients it is multiplied.
            multiplier: The factor of growth; the scale is divided by it when a gradient is not finite.
        """
        super().__init__()
        self._initial_loss_scale = float(initial_loss_scale)
        self._increment_period = int(increment_period)
        self._multiplier = float(multiplier)

    @property
    def initial_loss_scale(self) -> float:
        """The first scale."""
        return self._initial_loss_scale

    @property
    def increment_period(self) -> int:
        """After how many good steps it grows."""
        return self._increment_period

    @property
    def multiplier(self) -> float:
        """How fast it grows and shrinks."""
        return self._multiplier

    @property
    def _current_loss_scale(self) -> Variable:
        return self._add_weight("current_loss_scale", self._initial_loss_scale, dtypes.float32)

    @property
    def _num_good_steps(self) -> Variable:
        return self._add_weight("good_steps", 0, dtypes.int64)

    def __call__(self) -> Tensor:
        """The current scale."""
        return self._current_loss_scale.value()

    def update(self, grads: Sequence[Any]) -> tuple[Any, Any]:
        """Grows or shrinks the scale; gradients should be applied if all are finite."""
        scale: Any = self._current_loss_scale
        good: Any = self._num_good_steps
        finite = _all_finite(grads)

        def grow() -> Any:
            steps = good.value() + 1
            due = apply_one("GreaterEqual", steps, self._increment_period)
            larger = scale.value() * self._multiplier
            due_and_finite = apply_one("LogicalAnd", due, apply_one("IsFinite", larger))
            new = apply_one("Select", due_and_finite, larger, scale.value())
            return _assigned((scale, new), (good, apply_one("Select", due, apply_one("ZerosLike", steps), steps)))

        def shrink() -> Any:
            smaller = apply_one("Maximum", scale.value() / self._multiplier, 1.0)
            return _assigned((scale, smaller), (good, apply_one("ZerosLike", good.value())))

        return constants.group(cond(finite, grow, shrink)), finite

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {
            "initial_loss_scale": self._initial_loss_scale,
            "increment_period": self._increment_period,
            "multiplier": self._multiplier,
        }


def _assigned(*pairs: tuple[Variable, Any]) -> Tensor:
    with control_dependencies([var.assign(value, read_value=False) for var, value in pairs]):
        return constants.constant(True)


def _all_finite(grads: Sequence[Any]) -> Any:
    flags = []
    for grad in grads:
        if grad is not None:
            values = grad.values if isinstance(grad, IndexedSlices) else grad
            finite = apply_one("IsFinite", values)
            flags.append(apply_one("All", apply_one("Reshape", finite, [-1]), [0]))
    if not flags:
        return constants.constant(True)
    return flags[0] if len(flags) == 1 else apply_one("All", apply_one("Pack", flags, axis=0), [0])


def get(identifier: Any) -> LossScale | None:
    """A LossScale from any of its forms: a LossScale, a number, 'dynamic', or None.

    Raises:
        ValueError: For anything else.
    """
    if identifier is None or isinstance(identifier, LossScale):
        return identifier
    if isinstance(identifier, (int, float)):
        return FixedLossScale(identifier)
    if identifier == "dynamic":
        return DynamicLossScale()
    raise ValueError(f"Could not interpret loss scale identifier: {identifier!r}; use a number or 'dynamic'.")
