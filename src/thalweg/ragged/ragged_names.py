"""The public names of ragged tensors; to import this module installs the functions that dispatch on them."""

from __future__ import annotations

from thalweg.ragged import ragged_dispatch as ragged_dispatch
from thalweg.ragged.ragged_functions import (
    boolean_mask,
    constant,
    constant_value,
    map_flat_values,
    placeholder,
    range,
    row_splits_to_segment_ids,
    segment_ids_to_row_splits,
    stack,
)
from thalweg.ragged.ragged_tensor import RaggedTensor, RaggedTensorValue, is_ragged

__all__ = [
    "RaggedTensor", "RaggedTensorValue", "boolean_mask", "constant", "constant_value", "is_ragged", "map_flat_values",
    "placeholder", "range", "row_splits_to_segment_ids", "segment_ids_to_row_splits", "stack",
]  # fmt: skip
