"""Random graphs give the same bits on any number of devices. More of them: `python -m tests.devices.random_graphs`."""

from __future__ import annotations

import pytest

from tests.devices.random_graphs import COUNTS, check


@pytest.mark.parametrize("seed", range(45))
def test_random_graphs_give_the_same_bits_on_any_number_of_devices(seed: int) -> None:
    check(seed, COUNTS[seed % len(COUNTS)])
