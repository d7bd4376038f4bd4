"""Threads that run, time out, close, grow, start over and fork at random (chaos.py): no crash, hang or wrong value."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fuzz.chaos import ACTIONS

ROOT = Path(__file__).parents[2]


@pytest.mark.processes
@pytest.mark.timeout(0)
def test_chaos(fuzz_seconds: float) -> None:
    end = time.monotonic() + fuzz_seconds
    outcomes: dict[str, int] = {}
    seed = 0
    while time.monotonic() < end or not {action.__name__ for action in ACTIONS} <= set(outcomes):
        seconds = min(max(end - time.monotonic(), 2.0), 20.0)
        done = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.chaos", str(seed), str(seconds)],
            cwd=ROOT, capture_output=True, text=True, timeout=seconds + 240, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"seed {seed} ended with {done.returncode}:\n{done.stderr}"
        for name, count in json.loads(done.stdout).items():
            outcomes[name] = outcomes.get(name, 0) + count
        seed += 1
        assert seed < 10 + fuzz_seconds, f"some actions never end well: {outcomes}"
