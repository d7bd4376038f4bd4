"""tf.keras.regularizers and tf.keras.constraints: penalties of variables, and what they are brought back to."""

from __future__ import annotations

from typing import Any, Final, Self

from thalweg.graph.definitions.op_registry import export
from thalweg.keras.backend_state import epsilon
from thalweg.keras.named_objects import Registry, export_registry
from thalweg.keras.public_names import tf

regularizers: Final = Registry("regularizer")
constraints: Final = Registry("constraint")


@export("keras.regularizers.Regularizer")
class Regularizer:
    """A function of a variable whose value joins the loss."""

    def __call__(self, x: Any) -> Any:
        """The penalty: none."""
        return 0.0

    def get_config(self) -> dict[str, Any]:
        """The arguments that make such an object."""
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Makes an object from a result of `get_config`."""
        return cls(**config)


@export("keras.regularizers.L1L2")
class L1L2(Regularizer):
    """l1 * sum |x| + l2 * sum x**2."""

    def __init__(self, l1: float = 0.0, l2: float = 0.0) -> None:
        """Takes both factors."""
        self.l1, self.l2 = float(l1), float(l2)

    def __call__(self, x: Any) -> Any:
        """The penalty of a variable."""
        total = tf.constant(0.0, dtype=x.dtype.base_dtype)
        if self.l1:
            total += self.l1 * tf.reduce_sum(tf.abs(x))
        if self.l2:
            total += self.l2 * tf.reduce_sum(tf.square(x))
        return total

    def get_config(self) -> dict[str, Any]:
        """Both factors."""
        return {"l1": self.l1, "l2": self.l2}


@export("keras.regularizers.l1")
def l1(l: float = 0.01) -> L1L2:  # noqa: E741
    """The sum of absolute values, times a factor."""
    return L1L2(l1=l)


@export("keras.regularizers.l2")
def l2(l: float = 0.01) -> L1L2:  # noqa: E741
    """The sum of squares, times a factor."""
    return L1L2(l2=l)


@export("keras.regularizers.l1_l2")
def l1_l2(l1: float = 0.01, l2: float = 0.01) -> L1L2:
    """Both sums, each times a factor."""
    return L1L2(l1=l1, l2=l2)


for _value in (L1L2, l1, l2, l1_l2):
    regularizers.add(_value.__name__, _value)
export_registry("keras.regularizers", regularizers)


def regularizer_of(identifier: Any) -> Any:
    """The regularizer of a name, a config or an object."""
    found = regularizers.get(identifier)
    return found() if isinstance(identifier, str) and identifier in ("l1", "l2", "l1_l2") else found


@export("keras.constraints.Constraint")
class Constraint(Regularizer):
    """A function of a variable that optimizers apply after an update."""

    def __call__(self, w: Any) -> Any:
        """The variable as it is."""
        return w


@export("keras.constraints.NonNeg", "keras.constraints.non_neg")
class NonNeg(Constraint):
    """Negative elements become zero."""

    def __call__(self, w: Any) -> Any:
        """What the variable becomes."""
        return w * tf.cast(w >= 0.0, w.dtype.base_dtype)


@export("keras.constraints.MaxNorm", "keras.constraints.max_norm")
class MaxNorm(Constraint):
    """The norm along an axis is at most a value."""

    def __init__(self, max_value: float = 2, axis: Any = 0) -> None:
        """Takes the largest norm and the axis or axes of a vector."""
        self.max_value, self.axis = max_value, axis

    def __call__(self, w: Any) -> Any:
        """What the variable becomes."""
        norms = _norm(w, self.axis)
        return w * (tf.clip_by_value(norms, 0.0, self.max_value) / (epsilon() + norms))

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {"max_value": self.max_value, "axis": self.axis}


@export("keras.constraints.UnitNorm", "keras.constraints.unit_norm")
class UnitNorm(Constraint):
    """The norm along an axis is one."""

    def __init__(self, axis: Any = 0) -> None:
        """Takes the axis or axes of a vector."""
        self.axis = axis

    def __call__(self, w: Any) -> Any:
        """What the variable becomes."""
        return w / (epsilon() + _norm(w, self.axis))

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {"axis": self.axis}


@export("keras.constraints.MinMaxNorm", "keras.constraints.min_max_norm")
class MinMaxNorm(Constraint):
    """The norm along an axis lies between two values, or comes nearer to that."""

    def __init__(self, min_value: float = 0.0, max_value: float = 1.0, rate: float = 1.0, axis: Any = 0) -> None:
        """Takes the bounds, the share of the way that an update goes, and the axis or axes of a vector."""
        self.min_value, self.max_value, self.rate, self.axis = min_value, max_value, rate, axis

    def __call__(self, w: Any) -> Any:
        """What the variable becomes."""
        norms = _norm(w, self.axis)
        wanted = self.rate * tf.clip_by_value(norms, self.min_value, self.max_value) + (1 - self.rate) * norms
        return w * (wanted / (epsilon() + norms))

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {"min_value": self.min_value, "max_value": self.max_value, "rate": self.rate, "axis": self.axis}


def _norm(w: Any, axis: Any) -> Any:
    return tf.sqrt(tf.reduce_sum(tf.square(w), axis=axis, keepdims=True))


for _class, _alias in ((NonNeg, "non_neg"), (MaxNorm, "max_norm"), (UnitNorm, "unit_norm"),
                       (MinMaxNorm, "min_max_norm")):  # fmt: skip
    constraints.add(_class.__name__, _class)
    constraints.add(_alias, _class)
export_registry("keras.constraints", constraints)
