"""The language models of the examples run for a few steps, on the text that the package ships."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

import thalweg as tf

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs an example in this process, which saves importing everything again, and returns what it prints."""

    def run(name: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        with tf.Graph().as_default():
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        tf.summary.FileWriterCache.clear()
        return capsys.readouterr().out

    return run


def number(pattern: str, output: str) -> float:
    found = re.search(pattern, output)
    assert found, output
    return float(found.group(1))


def test_the_character_model_learns_frequencies_and_writes(run: Any, tmp_path: Path) -> None:
    small = ["--units", "16", "--batch", "16", "--window", "16", "--rate", "0.03", "--write", "20"]
    output = run("char_rnn.py", "--steps", "30", *small, "--model_dir", str(tmp_path))
    assert number(r"perplexity: ([\d.]+) per character", output) < 35  # 76 characters.
    assert len(output.split("Call me Ishmael. ")[1].split("Held-out")[0]) == 21


@pytest.mark.parametrize("sampled", ["0", "32"])
def test_the_word_model_learns_with_the_full_and_with_the_sampled_softmax(run: Any, sampled: str) -> None:
    small = ["--units", "16", "--batch", "8", "--window", "8", "--words", "500", "--rate", "0.02"]
    output = run("word_lm.py", "--steps", "30", *small, "--sampled", sampled)
    assert number(r"perplexity: (\d+) per word", output) < 350  # 500 words.


def test_word_vectors_find_neighbours(run: Any) -> None:
    output = run(
        "word2vec.py", "--steps", "100", "--units", "16", "--words", "500", "--batch", "128", "--sampled", "16"
    )
    assert number(r"Loss: (\d+\.\d+)", output) < 6.0
    assert 40.0 < number(r"told from other words: ([\d.]+)%", output) <= 100.0
    assert re.search(r"whale: \S+, \S+", output)
