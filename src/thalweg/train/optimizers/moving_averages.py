"""train.ExponentialMovingAverage: shadow variables that follow the averages of variables and tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.collections import GraphKeys
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import (
    add_to_collection,
    colocate_with,
    control_dependencies,
    get_default_graph,
    name_scope,
)
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.operation import Operation
from thalweg.ops.array import constants
from thalweg.ops.math.casting import cast
from thalweg.state.embedding_variable import EmbeddingVariable
from thalweg.state.initializers import Zeros
from thalweg.state.variable import Variable
from thalweg.state.variable_lists import global_variables, moving_average_variables, trainable_variables
from thalweg.state.variable_scope import get_variable, get_variable_scope, variable_scope
from thalweg.train.optimizers import slots

_AVERAGED = (dtypes.bfloat16, dtypes.float16, dtypes.float32, dtypes.float64)


def assign_moving_average(
    variable: Any, value: Any, decay: Any, zero_debias: bool = True, name: str | None = None
) -> Any:
    """Moves a variable towards `value`: `variable -= (1 - decay) * (variable - value)`.

    Args:
        variable: The variable.
        value: A tensor of its shape.
        decay: How much of the old value stays.
        zero_debias: Whether the variable starts at zero, and the average is corrected for that.
        name: The name of the update.

    Returns:
        The variable as it is after the update.
    """
    with name_scope(name, "AssignMovingAvg", [value, decay]) as scope, colocate_with(variable):
        dtype = variable.dtype.base_dtype
        rest = cast(convert_to_tensor(1.0 - decay, name="decay"), dtype)
        current = convert_to_tensor(value, dtype)
        delta = _debiased_delta(variable, current, rest) if zero_debias else (variable - current) * rest
        return variable.assign_sub(delta, name=scope)


def _debiased_delta(variable: Any, value: Any, rest: Any) -> Any:
    """The difference between the variable and the unbiased average of the values so far."""
    with variable_scope(variable.op.name, values=[value, rest]):
        dtype = variable.dtype.base_dtype
        with control_dependencies(None):
            biased = get_variable(_unused_name("biased"), variable.shape, dtype, Zeros(), trainable=False)
            count = get_variable(_unused_name("local_step"), [], dtype, Zeros(), trainable=False)
        total = biased.assign_sub((biased - value) * rest)
        weight = 1 - apply_one("Pow", 1.0 - rest, count.assign_add(1))
        return variable - total / weight


def _unused_name(name: str) -> str:
    scope = get_variable_scope()
    if scope.reuse:
        return name
    taken = {var.op.name for var in global_variables()}
    full, number = name, 0
    while f"{scope.name}/{full}" in taken:
        number += 1
        full = f"{name}_{number}"
    return full


@export("train.ExponentialMovingAverage")
class ExponentialMovingAverage:
    """Keeps moving averages of variables, often better than the variables themselves for evaluation.

    `shadow = decay * shadow + (1 - decay) * variable`, once for every run of the operation that `apply` returns.

    Example:
        >>> w = tf.Variable(10.0, name="w")
        >>> ema = tf.train.ExponentialMovingAverage(decay=0.9)
        >>> with tf.control_dependencies([w.assign(20.0)]):
        ...     update = ema.apply([w])
        >>> with tf.Session() as sess:
        ...     sess.run(tf.global_variables_initializer())
        ...     sess.run(update)
        ...     print(ema.average_name(w), f"{sess.run(ema.average(w)):.1f}")
        w/ExponentialMovingAverage 11.0
    """

    def __init__(
        self, decay: Any, num_updates: Any = None, zero_debias: bool = False, name: str = "ExponentialMovingAverage"
    ) -> None:
        """Creates an average.

        Args:
            decay: How much of the old average stays: a number or a tensor.
            num_updates: The number of updates so far, usually the global step; then the decay is at most
                `(1 + num_updates) / (10 + num_updates)`, so that averages move faster at first.
            zero_debias: Whether averages of tensors, which start at zero, are corrected for that.
            name: Part of the names of the shadow variables.
        """
        self._decay = decay
        self._num_updates = num_updates
        self._zero_debias = zero_debias
        self._name = name
        self._averages: dict[Any, Variable] = {}

    @property
    def name(self) -> str:
        """Part of the names of the shadow variables."""
        return self._name

    def apply(self, var_list: Sequence[Any] | None = None) -> Operation:
        """Returns an operation that updates the averages; creates the shadow variables that do not exist.

        Args:
            var_list: Variables, whose averages start at their initial values, and tensors, whose averages start at
                zero; all trainable variables if None. The averages of embedding variables with open ids lie in their
                rows, and start at the values that these have when the operation first runs.

        Raises:
            TypeError: If one of them is not of a floating-point type.
        """
        averaged = trainable_variables() if var_list is None else list(var_list)
        for var in averaged:
            if var.dtype.base_dtype not in _AVERAGED:
                raise TypeError(f"The variables must be half, float, or double: {var.name}")
            if var.ref() not in self._averages:
                with control_dependencies(None):
                    self._averages[var.ref()] = self._shadow(var)
        with name_scope(self._name) as scope:
            decay = self._current_decay()
            updates: list[Any] = []
            for var in averaged:
                if isinstance(var, EmbeddingVariable):
                    updates.append(var.move_average(self._name, cast(decay, dtypes.float32)))
                    continue
                debias = self._zero_debias and not isinstance(var, Variable)
                updates.append(assign_moving_average(self._averages[var.ref()], var, decay, debias))
            return constants.group(*updates, name=scope)

    def _shadow(self, var: Any) -> Variable:
        if isinstance(var, Variable):
            add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, var)
            if isinstance(var, EmbeddingVariable):
                return var.averaged(self._name)
            return slots.create_slot(var, var.initialized_value(), self._name)
        return slots.create_zeros_slot(var, self._name, colocate_with_primary=False)

    def _current_decay(self) -> Any:
        decay = convert_to_tensor(self._decay, name="decay")
        if self._num_updates is None:
            return decay
        updates = cast(self._num_updates, dtypes.float32, name="num_updates")
        return apply_one("Minimum", decay, (1.0 + updates) / (10.0 + updates))

    def average(self, var: Any) -> Variable | None:
        """The shadow variable of a variable or tensor; None if it has none."""
        return self._averages.get(var.ref())

    def average_name(self, var: Any) -> str:
        """The name of the shadow variable, also before `apply` creates it: for restoring checkpoints."""
        if isinstance(var, EmbeddingVariable):
            return f"{var.op.name}/{self._name}"
        if var.ref() in self._averages:
            return self._averages[var.ref()].op.name
        name: str = get_default_graph().unique_name(f"{var.op.name}/{self._name}", mark_as_used=False)
        return name

    def variables_to_restore(self, moving_avg_variables: Sequence[Any] | None = None) -> dict[str, Any]:
        """The var_list of a Saver that restores variables from their averages.

        Args:
            moving_avg_variables: The variables with averages; trainable ones and those in MOVING_AVERAGE_VARIABLES if
                None. All other variables are restored under their own names.

        Returns:
            Variables by the name to restore them from.
        """
        if moving_avg_variables is None:
            moving_avg_variables = trainable_variables() + moving_average_variables()
        averaged = {var.name: var for var in moving_avg_variables}
        found = {self.average_name(var): var for var in averaged.values()}
        for var in global_variables():
            if var.name not in averaged:
                found.setdefault(var.op.name, var)
        return found
