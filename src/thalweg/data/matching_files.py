"""The names of the files that match a pattern, checked when they are used: for `Dataset.list_files`."""

from __future__ import annotations

from typing import Any

from thalweg.data.arguments import int64
from thalweg.graph import dtypes
from thalweg.graph.apply import apply
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.tensor import Tensor


def matching_files(file_pattern: Any) -> tuple[Tensor, Tensor]:
    """A vector of names and its length; running either fails if there is no such file."""
    patterns = convert_to_tensor(file_pattern, dtypes.string, name="file_pattern")
    found = apply("MatchingFiles", patterns)
    count = apply("Size", found, out_type=dtypes.int64)
    some = apply("Greater", count, int64(0, "zero"), name="match_found")
    # A message that names the pattern is worth a node.
    message = apply("StringJoin", ["No files matched pattern: ", apply("ReduceJoin", patterns, 0, separator=", ")
                                   if patterns.shape.ndims != 0 else patterns])  # fmt: skip
    checked = apply("Assert", some, [message], summarize=1, name="assert_not_empty")
    with get_default_graph().control_dependencies([checked]):
        found = apply("Identity", found)
    return found, count
