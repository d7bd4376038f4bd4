"""How a variable is kept in step between replicas: recorded with it, and acted on by distributed training."""

from __future__ import annotations

import enum

from thalweg.graph.definitions.op_registry import export


@export("VariableSynchronization")
class VariableSynchronization(enum.Enum):
    """When copies of a variable are brought together."""

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


@export("VariableAggregation")
class VariableAggregation(enum.Enum):
    """How updates of copies of a variable are combined."""

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3


def is_trainable(
    trainable: bool | None,
    synchronization: VariableSynchronization = VariableSynchronization.AUTO,
    name: str | None = None,
) -> bool:
    """Whether a variable counts as trainable: yes, unless it says otherwise or is only brought together when read."""
    on_read = synchronization is VariableSynchronization.ON_READ
    if on_read and trainable:
        raise ValueError(
            "Synchronization value can be set to VariableSynchronization.ON_READ only for non-trainable variables. "
            f"You have specified trainable=True and synchronization=VariableSynchronization.ON_READ (variable {name})."
        )
    return not on_read if trainable is None else bool(trainable)
