"""The examples and the code in the documentation run."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_perceptron_learns_digits() -> None:
    output = run("examples/mnist_mlp.py", "--steps", "300")
    accuracy = float(re.search(r"accuracy: ([\d.]+)%", output).group(1))  # type: ignore[union-attr]
    assert accuracy > 88.0


def test_the_tiny_system_learns_xor() -> None:
    assert runpy.run_path(str(ROOT / "docs/tiny.py"))["main"]() < 1e-3


@pytest.mark.parametrize(
    "page",
    ["README.md", "docs/journey.md", "docs/write_an_optimizer.md", "docs/monitored_training.md", "docs/checkpoints.md"],
)
def test_the_code_of_a_page_runs(page: str, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks))
    run(str(script))
