"""Pyright sees in the stubs what mypy does (`make lint` runs that one). Left out unless pyright is installed."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("sample_program.py")
SOURCE = Path(__file__).resolve().parents[2] / "src"


@pytest.mark.skipif(importlib.util.find_spec("pyright") is None, reason="needs pyright")
def test_pyright_finds_the_errors_of_a_program_and_no_others(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.read_text(encoding="utf-8"), encoding="utf-8")
    settings = {"extraPaths": [str(SOURCE)], "reportUnnecessaryTypeIgnoreComment": "error"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    found = [(each["range"]["start"]["line"] + 1, each["message"]) for each in report["generalDiagnostics"]]
    assert report["summary"]["filesAnalyzed"] == 1
    assert found == []
