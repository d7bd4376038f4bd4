"""Mutated GraphDefs and planned steps give errors or results, and end no process; `make fuzz` does this for longer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.processes
@pytest.mark.parametrize(
    ("module", "seed"), [("hostile_graphs", 1), ("hostile_graphs", 1_000_000), ("hostile_steps", 1)]
)
def test_mutated_graphs_and_steps_end_no_process(module: str, seed: int, fuzz_seconds: float) -> None:
    program = ["-X", "faulthandler", "-m", f"tests.fuzz.{module}", str(seed), str(fuzz_seconds / 2)]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    done = subprocess.run(
        [sys.executable, *program], cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
        check=False, timeout=fuzz_seconds + 100,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"{lines[-1:]}: exit code {done.returncode}\n{done.stderr[-3000:]}"
    assert lines[-1].startswith("done ")
    assert int(lines[-1].split()[1]) > 10
    assert "'ran'" in lines[-1]  # Not every mutant is refused: some reach the kernels.
