"""Control-flow ops: no record fits, because their effect shows only in whole graphs."""

from __future__ import annotations

from tests.op_cases import covered_elsewhere

covered_elsewhere(
    "tests/executor runs graphs of them",
    "Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "ControlTrigger", "Abort",
)  # fmt: skip
covered_elsewhere(
    "reference twins for imported graphs; the kernels are those of their namesakes",
    "RefSwitch", "RefMerge", "RefEnter", "RefExit", "RefNextIteration",
)  # fmt: skip
