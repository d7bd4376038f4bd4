"""Runs simulations by their seeds, from tests and from the command line."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable


def run_each(run: Callable[[int], None], module: str, first: int, count: int) -> None:
    """Runs simulations; a seed that fails is in the message of the error.

    Args:
        run: Runs the simulation of a seed.
        module: The module of this package that replays it.
        first: The first seed.
        count: How many.
    """
    for seed in range(first, first + count):
        try:
            run(seed)
        except Exception as e:
            raise AssertionError(
                f"The simulation with seed {seed} failed: {e!r}. Replay it: "
                f"python -m tests.dist.{module} --seed {seed} --verbose"
            ) from e


def main_of(run_seeds: Callable[[int, int, bool], None], doc: str | None) -> None:
    """The command line of a simulation."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first one")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--verbose", action="store_true", help="print every event")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        run_seeds(arguments.seed, 1, arguments.verbose)
        return
    begun = time.monotonic()
    for first in range(arguments.first, arguments.first + arguments.seeds, 1000):
        run_seeds(first, min(1000, arguments.first + arguments.seeds - first), False)
        done = min(first + 1000 - arguments.first, arguments.seeds)
        print(f"{done} seeds, {time.monotonic() - begun:.0f} s", flush=True)
