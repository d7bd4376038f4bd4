"""Ops that call functions: their result depends on the function, so that no record fits them."""

from __future__ import annotations

from tests.op_cases import covered_elsewhere

covered_elsewhere(
    "they call functions; see tests/functions",
    "PartitionedCall", "StatefulPartitionedCall", "RemoteCall", "SymbolicGradient", "If", "StatelessIf", "Case",
    "StatelessCase", "While", "StatelessWhile", "For",
)  # fmt: skip
