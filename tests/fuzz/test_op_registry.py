"""Fuzz: random calls of every registered op never crash, hang, or raise anything but the API's errors."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import thalweg

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(0)
def test_random_calls_of_ops_never_end_the_process(fuzz_seconds: float, tmp_path: Path) -> None:
    # A fixed seed in the bounded run of `make test`; a new one each time in `make fuzz`.
    seed = 1 if fuzz_seconds <= 60 else int(time.time())
    log = tmp_path / "calls"
    command = [sys.executable, "-m", "tests.fuzz.worker", "--seed", str(seed), "--seconds", str(fuzz_seconds)]
    package = Path(thalweg.__file__).parents[1]  # that of a sanitizer, if this runs under one
    environment = {**os.environ, "PYTHONPATH": f"{package}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [*command, "--log", str(log)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        timeout=fuzz_seconds + 120,
    )  # fmt: skip
    last = log.read_text().splitlines()[-1] if log.exists() else "(none)"
    assert done.returncode == 0, (
        f"exit code {done.returncode} in the call `python -m tests.fuzz.worker {last} --log /dev/null`\n"
        f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    )
    counts = ast.literal_eval(done.stdout.strip().splitlines()[-1])
    # If nearly no call ran, the test would show nothing.
    assert counts.get("ran", 0) > 0.05 * sum(counts.values()), counts
    assert counts.get("failed", 0) > 0, counts
