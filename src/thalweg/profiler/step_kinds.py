"""What a step of a program is for: its steady work, initialization, or saving and restoring.

Profiles keep them apart: a program initializes once, and that says nothing about its thousand training steps.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, Final

from thalweg.profiler.step_records import Record


class StepKind(enum.Enum):
    """The kinds of steps; their values are headings, in the order of reports."""

    STEADY = "Steps"
    INITIALIZATION = "Initialization"
    SAVING = "Saving and restoring"


# Ops that only checkpoints use, and ops of steps that prepare a session.
_SAVING: Final = frozenset({
    "Save", "SaveSlices", "SaveV2", "Restore", "RestoreSlice", "RestoreV2", "MergeV2Checkpoints", "ShardedFilename",
})  # fmt: skip
_PREPARING: Final = frozenset({
    "InitializeTable", "InitializeTableV2", "InitializeTableFromTextFile", "InitializeTableFromTextFileV2",
    "IsVariableInitialized", "VarIsInitializedOp", "MakeIterator",
})  # fmt: skip
_COLLECTIONS: Final = ("variables", "local_variables", "model_variables", "metric_variables")


class StepKinds:
    """Tells the kinds of a program's steps."""

    def __init__(self) -> None:
        self._initializers: dict[int, frozenset[str]] = {}

    def kind(self, records: Iterable[Record], graph: Any) -> StepKind:
        """The kind of a step, by the nodes that ran in it."""
        initializers = self._initializers_of(graph)
        found = StepKind.STEADY
        for record in records:
            if record.op in _SAVING:
                return StepKind.SAVING
            if record.op in _PREPARING or record.node in initializers:
                found = StepKind.INITIALIZATION
        return found

    def _initializers_of(self, graph: Any) -> frozenset[str]:
        found = self._initializers.get(id(graph))
        if found is None:
            variables = [each for name in _COLLECTIONS for each in graph.get_collection(name)]
            operations = [getattr(variable, "initializer", None) for variable in variables]
            found = self._initializers[id(graph)] = frozenset(op.name for op in operations if op is not None)
        return found
