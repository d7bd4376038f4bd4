"""`thalweg checkpoint` lists, shows, compares, averages and renames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thalweg as tf
from thalweg.cli.main import main
from thalweg.train.checkpoints.checkpoint_tools import write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two checkpoints of a model."""
    w = tf.get_variable("w", [2, 3], initializer=tf.zeros_initializer())
    step = tf.train.get_or_create_global_step()
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for number in (1, 2):
            session.run([w.assign(np.full([2, 3], float(number))), step.assign(number)])
            saver.save(session, str(tmp_path / "model"), number)
    return tmp_path


def test_checkpoints_are_listed_and_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "list", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ", 1)[1] for line in lines] == ["model-1", "model-2  (latest)"]
    assert main(["checkpoint", "show", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "w            float32   [2, 3]               24 B" in out
    assert "2 variables, 7 elements, 32 B" in out
    assert main(["checkpoint", "show", str(folder / "model-1"), "--values", "w"]) == 0
    assert "w = array([[1., 1., 1.]" in capsys.readouterr().out


def test_differences_are_told_and_give_the_exit_code(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = str(folder / "model-1"), str(folder / "model-2")
    assert main(["checkpoint", "diff", first, first]) == 0
    assert "same variables and values" in capsys.readouterr().out
    assert main(["checkpoint", "diff", first, second]) == 1
    out = capsys.readouterr().out
    assert "w: values: 6 of 6 elements, at most 1" in out
    other = str(folder / "other")
    write(other, {"w": np.zeros([3, 2], np.float32), "more": np.array([np.nan], np.float32), "global_step": 1.0})
    assert main(["checkpoint", "diff", first, other]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "global_step: type: int64 and float32",
        "more: only in the second",
        "w: shape: [2, 3] and [3, 2]",
    ]
    assert main(["checkpoint", "diff", other, other]) == 0  # NaN is NaN.


def test_the_mean_is_written_and_restored(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(folder / "mean")
    assert main(["checkpoint", "average", *(str(folder / f"model-{i}") for i in (1, 2)), "--output", target]) == 0
    assert "global_step" in capsys.readouterr().out
    reader = tf.train.load_checkpoint(target)
    np.testing.assert_array_equal(reader.get_tensor("w"), np.full([2, 3], 1.5, np.float32))
    assert reader.get_tensor("global_step") == 2
    with tf.Session() as session:
        tf.train.Saver().restore(session, target)
    write(target, {"w": np.zeros([3], np.float32)})
    assert main(["checkpoint", "average", str(folder), target, "--output", str(folder / "wrong")]) == 1
    assert "differ in 2 variables" in capsys.readouterr().err


def test_variables_get_other_names(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(folder / "renamed")
    rule = ["--rule", "^w$", "layer/kernel"]
    assert main(["checkpoint", "rename", str(folder), "--output", target, *rule]) == 0
    assert "w -> layer/kernel" in capsys.readouterr().out
    assert sorted(name for name, _ in tf.train.list_variables(target)) == ["global_step", "layer/kernel"]
    for wrong, said in ((["--rule", ".*", "same"], "would both be"), (["--rule", "(", "x"], "is not a rule")):
        assert main(["checkpoint", "rename", str(folder), "--output", target, *wrong]) == 1
        assert said in capsys.readouterr().err


def test_what_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "list", str(tmp_path)]) == 1
    assert "has no checkpoints" in capsys.readouterr().err
    (tmp_path / "model.index").touch()
    assert main(["checkpoint", "list", str(tmp_path / "model")]) == 1
    assert "try `thalweg checkpoint show`" in capsys.readouterr().err
    assert main(["checkpoint", "show", str(tmp_path / "nothing")]) == 1
    assert capsys.readouterr().err.count("\n") == 1
