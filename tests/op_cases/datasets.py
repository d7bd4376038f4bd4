"""Datasets: elements are tested where iterators take them out."""

from __future__ import annotations

from tests.op_cases import covered_elsewhere
from thalweg.graph.definitions.op_registry import all_ops

_OTHERS = (
    "_IteratorPosition _RestoreIteratorPosition MakeIterator OptionalFromValue OptionalNone OptionalHasValue "
    "OptionalGetValue DatasetCardinality ExperimentalDatasetCardinality"
)
covered_elsewhere(
    "datasets and iterators are values of their own kind: tests/data_pipeline",
    *(op.name for op in all_ops() if op.name.endswith(("Dataset", "DatasetV2", "DatasetV3", "DatasetV4"))),
    *(op.name for op in all_ops() if "Iterator" in op.name or op.name.startswith("DatasetTo")),
    *_OTHERS.split(),
)
