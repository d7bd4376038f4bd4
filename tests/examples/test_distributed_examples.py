"""The examples for clusters train under `thalweg launch`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.examples.test_examples import number_after, run

pytestmark = pytest.mark.processes

MODES = {
    "asynchronous": (("--ps", "2", "--workers", "2"), ()),
    "with a chief": (("--ps", "1", "--workers", "1", "--chief"), ()),
    "synchronous": (("--ps", "2", "--workers", "2"), ("--sync",)),
    "synchronous with a chief": (("--ps", "1", "--workers", "1", "--chief"), ("--sync",)),
    "with a backup worker": (("--ps", "1", "--workers", "3"), ("--backup", "1")),
    "in-graph": (("--ps", "1", "--workers", "2"), ("--in-graph",)),
}


@pytest.mark.parametrize("mode", MODES)
def test_digits_are_learned(mode: str) -> None:
    cluster, arguments = MODES[mode]
    program = ("examples/distributed_mnist.py", "--steps", "80", "--batch", "32", *arguments)
    output = run("-m", "thalweg", "launch", "--restarts", "0", *cluster, *program)
    assert 50 < number_after("Held-out accuracy: ", output) <= 100


def test_the_program_runs_alone() -> None:
    output = run("examples/distributed_mnist.py", "--steps", "80", "--batch", "32")
    assert 50 < number_after("Held-out accuracy: ", output) <= 100


LANGUAGE_MODEL = ("--steps", "40", "--units", "16", "--batch", "8", "--window", "8", "--words", "500")


@pytest.mark.parametrize("sampled", ["0", "32"])
def test_the_language_model_learns_over_parameter_servers(sampled: str) -> None:
    program = ("examples/distributed_language_model.py", *LANGUAGE_MODEL, "--sampled", sampled)
    output = run("-m", "thalweg", "launch", "--restarts", "0", "--ps", "2", "--workers", "2", *program)
    assert 10 < number_after("Held-out perplexity: ", output) < 350  # 500 words.


def test_the_language_model_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    program = ("examples/distributed_language_model.py", *LANGUAGE_MODEL, "--model_dir", str(tmp_path))
    run(*program)
    output = run(*program, "--steps", "45")
    assert "has run 5 steps" in output
    assert 10 < number_after("Held-out perplexity: ", output) < 350


@pytest.mark.parametrize("microbatches", ["1", "4"])
def test_layers_on_several_tasks_learn_digits(microbatches: str) -> None:
    program = ("examples/model_parallel.py", "--steps", "60", "--units", "64", "--microbatches", microbatches)
    output = run("-m", "thalweg", "launch", "--restarts", "0", "--ps", "0", "--workers", "3", *program)
    assert "Layers on 3 tasks" in output
    assert 40 < number_after("Held-out accuracy: ", output) <= 100


def test_the_layered_model_runs_alone() -> None:
    output = run("examples/model_parallel.py", "--steps", "60", "--units", "64")
    assert 50 < number_after("Held-out accuracy: ", output) <= 100
