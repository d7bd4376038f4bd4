"""The examples for clusters train under `thalweg launch`."""

from __future__ import annotations

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
