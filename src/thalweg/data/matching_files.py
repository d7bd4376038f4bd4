"""The names of the files that match a pattern, checked when they are used: for `Dataset.list_files`."""

from __future__ import annotations

from typing import Any

from thalweg.data.arguments import int64
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one, apply_op
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.tensor import Tensor


def matching_files(file_pattern: Any) -> tuple[Tensor, Tensor]:
    """A vector of names and its length; running either fails if there is no such file."""
    patterns = convert_to_tensor(file_pattern, dtypes.string, name="file_pattern")
    found = apply_one("MatchingFiles", patterns)
    count = apply_one("Size", found, out_type=dtypes.int64)
    some = apply_one("Greater", count, int64(0, "zero"), name="match_found")
    # A message that names the pattern is worth a node.
    joined = apply_one("ReduceJoin", patterns, 0, separator=", ") if patterns.shape.ndims != 0 else patterns
    message = apply_one("StringJoin", ["No files matched pattern: ", joined])
    checked = apply_op("Assert", some, [message], summarize=1, name="assert_not_empty")
    with get_default_graph().control_dependencies([checked]):
        found = apply_one("Identity", found)
    return found, count
