"""The Python code of each guide runs as printed, its blocks one after the other, as somebody would type them in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What a page's code needs that a test has not.
NOT_RUN = {
    "add_an_op": "files of the sources with an op that is there already",
    "tensorflow_interop": "a cluster of TensorFlow's",
    "tensorflow_programs": "a checkpoint of TensorFlow's",
    "troubleshooting": "its examples fail, one by one: test_troubleshooting.py",
    "write_a_device": "a compiled plug-in: tests/devices/test_plugins.py",
}


def code_of(page: Path) -> str:
    """Its blocks, each at its line in the page, so that an error names the line of the guide."""
    text = page.read_text()
    lines: list[str] = []
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        lines += [""] * (text[: block.start(1)].count("\n") - len(lines))
        lines += block[1].splitlines()
    return "\n".join(lines)


PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if code_of(page)]


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem not in NOT_RUN], ids=lambda page: page.stem)
def test_the_code_of_a_guide_runs(page: Path, tmp_path: Path) -> None:
    program = tmp_path / page.with_suffix(".py").name
    program.write_text(code_of(page))
    done = subprocess.run(
        [sys.executable, program], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_each_page_that_is_not_run_is_there() -> None:
    assert set(NOT_RUN) < {page.stem for page in PAGES}
