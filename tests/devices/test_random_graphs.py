"""Random graphs give the same bits on any number of devices. More of them: `python -m tests.devices.random_graphs`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.devices.random_graphs import COUNTS, STRATEGIES, check


@pytest.mark.parametrize("seed", range(45))
def test_random_graphs_give_the_same_bits_on_any_number_of_devices(seed: int) -> None:
    check(seed, COUNTS[seed % len(COUNTS)])


@pytest.mark.parametrize("seed", range(100, 115))
def test_random_graphs_give_the_same_bits_wherever_a_strategy_puts_them(seed: int) -> None:
    check(seed, 4, strategy=STRATEGIES[seed % len(STRATEGIES)])


def test_what_enters_an_inner_loop_for_another_device_only() -> None:
    # A constant Enter that waits for its outer loop, alone in the inner loop on its device: it once came only once.
    check(234, 16)


@pytest.mark.processes
def test_a_process_that_ran_them_ends_quietly() -> None:
    """A thread may still be releasing a step, and the Python objects in it, while the interpreter ends."""
    for _ in range(4):
        done = subprocess.run(
            [sys.executable, "-m", "tests.devices.random_graphs", "3"], capture_output=True, text=True, timeout=100,
            cwd=Path(__file__).parents[2], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
