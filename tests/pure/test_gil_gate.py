"""The core enters and leaves Python through core/python/gil.h alone, so that no thread is unwound at exit."""

from __future__ import annotations

import re
from pathlib import Path

CORE = Path(__file__).parents[2] / "core"
# They ask for the interpreter's lock behind the gate's back.
OTHER_WAYS = re.compile(
    r"gil_scoped|PyGILState_(Ensure|Release|Check)|PyEval_(Save|Restore)Thread|Py_(BEGIN|END)_ALLOW_THREADS"
)
# They release the lock and take it again while they run.
LONG_CALLS = re.compile(r"(PyArray_FromAny|PyObject_Call\w*|PyErr_CheckSignals)\(")


def sources() -> list[Path]:
    return sorted([*CORE.rglob("*.cc"), *CORE.rglob("*.h")])


def test_only_the_gate_takes_and_gives_the_lock() -> None:
    found = {path.name for path in sources() if OTHER_WAYS.search(path.read_text())}
    assert found == {"gil.h", "gil.cc"}


def test_calls_that_may_lose_the_lock_are_made_through_or_rest() -> None:
    for path in sources():
        text = path.read_text()
        for call in LONG_CALLS.finditer(text):
            before = text[max(0, call.start() - 200) : call.start()]
            assert "or_rest(" in before, f"{path}: {call.group()}...)"
