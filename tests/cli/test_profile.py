"""`thalweg profile` runs a program, tells about its steps however it ends, and passes its exit code on."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from thalweg.cli.main import main

PROGRAM = """
import sys
import thalweg as tf
import beside
x = tf.placeholder(tf.float32, [2])
y = tf.tanh(x * beside.FACTOR, name="result")
with tf.Session() as session:
    for _ in range(5):
        values = session.run(y, {x: [1.0, 2.0]})
print("arguments", sys.argv[1:], __name__)
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "beside.py").write_text("FACTOR = 3.0\n")
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_a_program_runs_with_its_arguments_and_is_profiled(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv, path = list(sys.argv), list(sys.path)
    trace = program.parent / "trace.json"
    assert main(["profile", "--top", "5", "--output", str(trace), str(program), "--top", "9", "more"]) == 0
    assert (sys.argv, sys.path) == (argv, path)
    out = capsys.readouterr().out
    assert "arguments ['--top', '9', 'more'] __main__" in out
    assert "5 steps took" in out
    assert "result" in out
    assert "program.py:6" in out
    names = {event["args"].get("name") for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"}
    assert "result" in names


def test_steps_can_be_sampled_and_the_report_go_to_a_file(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = program.parent / "report.txt"
    assert main(["profile", "--every", "2", "--steps", "2", "--report", str(report), str(program)]) == 0
    assert "Op type" not in capsys.readouterr().out
    text = report.read_text()
    assert "5 steps took" in text
    assert "median of 1 run)" in text


def test_an_exception_is_shown_and_the_profile_too(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program.write_text(PROGRAM + "raise KeyError('lost')\n")
    assert main(["profile", str(program)]) == 1
    captured = capsys.readouterr()
    assert "KeyError: 'lost'" in captured.err
    assert "runpy" not in captured.err
    assert "5 steps took" in captured.out


@pytest.mark.parametrize(("end", "code", "said"), [
    ("sys.exit(3)", 3, ""), ("sys.exit()", 0, ""), ("sys.exit('sorry')", 1, "sorry"),
    ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
])  # fmt: skip
def test_the_exit_code_is_the_programs(
    program: Path, capsys: pytest.CaptureFixture[str], end: str, code: int, said: str
) -> None:
    program.write_text(PROGRAM + end + "\n")
    assert main(["profile", str(program)]) == code
    captured = capsys.readouterr()
    assert said in captured.err
    assert "5 steps took" in captured.out


def test_a_step_that_fails_is_the_programs_error(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program.write_text(PROGRAM.replace("[1.0, 2.0]", "[1.0, 2.0, 3.0]"))
    assert main(["profile", str(program)]) == 1
    captured = capsys.readouterr()
    assert "Cannot feed value of shape" in captured.err
    assert "0 of 1 steps were traced, not these: result:0 (1 times)." in captured.out


def test_a_program_without_steps_is_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "empty.py"
    program.write_text("print('done')\n")
    assert main(["profile", str(program)]) == 0
    assert capsys.readouterr().out == "done\n\nThe program ran no step.\n"


def test_a_missing_program_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(tmp_path / "nothing.py")]) == 1
    assert capsys.readouterr().err.startswith("thalweg profile: there is no program")


def test_a_program_that_is_none_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "broken.py"
    program.write_text("def (:\n")
    assert main(["profile", str(program)]) == 1
    assert "SyntaxError" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [["--every", "0"], ["--steps", "-1"], ["--top", "x"], []])
def test_wrong_options_are_refused(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["profile", *wrong])
    assert "usage: thalweg profile" in capsys.readouterr().err
