"""Readers and files: all of them work on files outside the graph."""

from __future__ import annotations

from tests.op_cases import covered_elsewhere
from thalweg.graph.definitions.op_registry import all_ops

_READERS = ("WholeFileReader", "IdentityReader", "TextLineReader", "TFRecordReader", "FixedLengthRecordReader")

covered_elsewhere(
    "works on a reader; see tests/files/test_readers.py",
    *[op.name for op in all_ops() if op.name.removesuffix("V2") in _READERS or op.name.startswith("Reader")],
)
covered_elsewhere("works on files; see tests/files/test_file_ops.py", "ReadFile", "WriteFile", "MatchingFiles")
