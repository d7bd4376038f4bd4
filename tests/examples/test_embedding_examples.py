"""The models with embeddings among the examples: small runs, alone and with their embeddings on PS tasks."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.dist.processes import ROOT, environment_of

import thalweg as tf
from thalweg.datasets import census

EXAMPLES = ROOT / "examples"
SMALL = {
    "wide_deep.py": ["--steps", "150"],
    "deep_fm.py": ["--steps", "150", "--distinct", "20000", "--rows", "26000", "--batch", "256", "--held_out", "3000"],
    "two_tower.py": ["--steps", "400", "--users", "200", "--items", "300", "--batch", "128", "--held_out", "1000"],
    "streamed_word2vec.py": ["--steps", "300", "--batch", "128", "--units", "16", "--rows", "5000"],
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs an example in this process, and returns what it prints."""
    started: list[Any] = []
    start_task = tf.distribute.start_task
    monkeypatch.setattr(tf.distribute, "start_task", lambda: started.append(start_task()) or started[-1])

    def run(name: str, *more: str) -> str:
        monkeypatch.setattr(sys, "argv", [name, *SMALL[name], *more])
        monkeypatch.syspath_prepend(str(EXAMPLES))
        with tf.Graph().as_default():
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        started.pop().server.stop()  # A program ends with its process.
        return capsys.readouterr().out

    return run


def _number(pattern: str, output: str) -> float:
    found = re.search(pattern, output)
    assert found, output
    return float(found.group(1))


def test_wide_and_deep_ranks_incomes(run: Any) -> None:
    assert _number(r"held out: ([\d.]+)\.", run("wide_deep.py")) > 0.85


@pytest.mark.parametrize("more", [(), ("--tables",)])
def test_deep_fm_learns_hidden_weights(run: Any, more: tuple[str, ...]) -> None:
    output = run("deep_fm.py", *more)
    assert 0.57 < _number(r"another day: ([\d.]+) ", output) < _number(r"hidden weights: ([\d.]+)\)", output)


@pytest.mark.parametrize("more", [(), ("--plain",)])
def test_two_towers_beat_popularity(run: Any, more: tuple[str, ...]) -> None:
    output = run("two_tower.py", *more)
    assert _number(r"for ([\d.]+)% of", output) > 1.2 * _number(r"most popular: ([\d.]+)%", output)


def test_streamed_word_vectors_run(run: Any) -> None:
    assert 0.0 < _number(r"told from others: ([\d.]+)%", run("streamed_word2vec.py")) < 100.0


def test_streamed_word_vectors_with_open_ids_tell_neighbours_from_other_words(run: Any) -> None:
    # The shipped chapters are short: 50 would be chance, the whole book gives 56.
    output = run("streamed_word2vec.py", "--tables", "--steps", "2500")
    assert 50.5 < _number(r"told from others: ([\d.]+)%", output) < 100.0


@pytest.mark.processes
@pytest.mark.parametrize("name", ["wide_deep.py", "deep_fm.py"])
def test_embeddings_are_trained_on_parameter_servers(name: str) -> None:
    command = [sys.executable, "-m", "thalweg", "launch", "--ps", "2", "--workers", "2", str(EXAMPLES / name)]
    done = subprocess.run(
        [*command, *SMALL[name]], capture_output=True, text=True, timeout=120, env=environment_of(), cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    area = _number(r"(?:held out|another day): (\d\.\d+)", done.stdout + done.stderr)
    assert area > (0.85 if name == "wide_deep.py" else 0.57)


def test_equal_scores_count_half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from ranking import area_under_curve  # type: ignore[import-not-found]

    labels = np.array([0.0, 1.0, 0.0, 1.0])
    assert area_under_curve(labels, np.array([1.0, 2.0, 1.5, 3.0])) == 1.0
    assert area_under_curve(labels, np.array([1.0, 1.0, 1.0, 1.0])) == 0.5
    assert area_under_curve(labels, np.array([1.0, 0.0, 3.0, 2.0])) == 0.25


def test_the_click_log_is_a_power_law_and_the_same_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from click_log import FEATURES, draw  # type: ignore[import-not-found]

    lines, again = (draw(20_000, np.random.default_rng(3)) for _ in range(2))
    assert lines.ids.shape == (20_000, FEATURES) and lines.ids.dtype == np.int64 and lines.ids.min() >= 0
    for a, b in zip(lines, again, strict=True):
        np.testing.assert_array_equal(a, b)
    _, counts = np.unique(lines.ids[:, -1], return_counts=True)
    assert counts.max() > 200 and np.sum(counts == 1) > 4000  # of the largest feature
    assert 0.1 < lines.clicks.mean() < 0.5


def test_the_census_is_read_from_files_and_bad_lines_are_named(tmp_path: Path) -> None:
    line = "39,Private,77516,Bachelors,13,Never-married,Adm-clerical,Not-in-family,White,Male,2174,0,40,Cuba,"
    (tmp_path / "adult.data").write_text(f"{line}<=50K\n{line}>50K.\n\n")
    (tmp_path / "adult.test").write_text(f"|1x3 Cross validator\n{line}<=50K.\n")
    train, test = census.load(tmp_path)
    assert list(train.labels) == [0.0, 1.0] and list(test.labels) == [0.0]
    assert train.features["age"].dtype == np.float32 and test.features["native_country"][0] == b"Cuba"
    (tmp_path / "adult.test").write_text(f"{line}<=50K\n1,2,3\n")
    with pytest.raises(ValueError, match=r"adult.test, line 2: 3 fields instead of 15"):
        census.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        census.load(tmp_path / "nothing")
