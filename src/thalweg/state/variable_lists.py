"""The variables of a graph by collection, and the operations that initialize and check all of them."""

from __future__ import annotations

from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.collections import GraphKeys
from thalweg.graph.default_graph import control_dependencies, device, get_collection, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.variable_values import exchanged
from thalweg.ops.array.constants import constant, group, no_op
from thalweg.state.assignment import is_variable_initialized


@export("global_variables", deprecated=("all_variables",))
def global_variables(scope: str | None = None) -> list[Any]:
    """The variables that all parts of a program share: the default of tf.Variable.

    Args:
        scope: A regular expression that their names must match from the start.
    """
    return get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


@export("local_variables")
def local_variables(scope: str | None = None) -> list[Any]:
    """The variables of this process only: counters, metrics. Checkpoints leave them out."""
    return get_collection(GraphKeys.LOCAL_VARIABLES, scope)


@export("model_variables")
def model_variables(scope: str | None = None) -> list[Any]:
    """The variables that inference needs."""
    return get_collection(GraphKeys.MODEL_VARIABLES, scope)


@export("trainable_variables")
def trainable_variables(scope: str | None = None) -> list[Any]:
    """The variables that optimizers change by default."""
    return get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


@export("moving_average_variables")
def moving_average_variables(scope: str | None = None) -> list[Any]:
    """The variables of which moving averages are kept."""
    return get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


@export("variables_initializer", "initializers.variables", deprecated=("initialize_variables",))
def variables_initializer(var_list: Any, name: str = "init") -> Operation:
    """An operation that initializes the variables of a list."""
    if var_list:
        return group(*[v.initializer for v in var_list], name=name)
    return no_op(name=name)


@export("global_variables_initializer", "initializers.global_variables", deprecated=("initialize_all_variables",))
def global_variables_initializer() -> Operation:
    """An operation that initializes all global variables."""
    return variables_initializer(global_variables())


@export("local_variables_initializer", "initializers.local_variables", deprecated=("initialize_local_variables",))
def local_variables_initializer() -> Operation:
    """An operation that initializes all local variables."""
    return variables_initializer(local_variables())


def _all_variables() -> list[Any]:
    return global_variables() + local_variables()


@export("assert_variables_initialized")
def assert_variables_initialized(var_list: Any = None) -> Any:
    """A tensor that fails with FailedPreconditionError unless all variables are initialized; None without any."""
    variables = _all_variables() if var_list is None else var_list
    if not variables:
        return None
    ranks = []
    for variable in variables:
        with device(variable.device):
            ranks.append(apply_one("Rank", variable))
    return ranks[0] if len(ranks) == 1 else apply_one("Pack", ranks, axis=0)


def _variable_name(variable: Any) -> str:
    if isinstance(variable, Tensor):
        variable = exchanged(variable, wants_handle=True)
    name: str = variable.op.name
    return name


@export("report_uninitialized_variables")
def report_uninitialized_variables(var_list: Any = None, name: str = "report_uninitialized_variables") -> Tensor:
    """A vector of strings: the names of the variables without a value."""
    variables = _all_variables() if var_list is None else var_list
    with name_scope(name), control_dependencies(None):
        if not variables:
            return constant([], dtype=dtypes.string)
        flags = [is_variable_initialized(v) for v in variables]
        missing = apply_one("LogicalNot", apply_one("Pack", flags, axis=0, name="stack"))
        names = constant([_variable_name(v) for v in variables])
        places = apply_one("Squeeze", apply_one("Where", missing), squeeze_dims=[1])
        return apply_one("GatherV2", names, places, 0)
