"""Cases of the collective ops."""

from __future__ import annotations

from tests.op_cases import covered_elsewhere

covered_elsewhere(
    "their members wait for each other; tests/dist/test_all_reduce.py runs them over devices, tasks and processes",
    "CollectiveReduce",
    "CollectiveReduceScatter",
    "CollectiveGather",
    "CollectiveBcastSend",
    "CollectiveBcastRecv",
    "CollectiveBroadcast",
    "CollectiveBarrier",
)
