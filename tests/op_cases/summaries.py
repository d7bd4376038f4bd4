"""Cases of the summary ops."""

from __future__ import annotations

from tests.op_cases import covered_elsewhere

covered_elsewhere(
    "their results are messages; tests/summary compares them field by field",
    "ScalarSummary",
    "HistogramSummary",
    "MergeSummary",
    "ImageSummary",
    "AudioSummary",
    "AudioSummaryV2",
    "TensorSummary",
    "TensorSummaryV2",
)
