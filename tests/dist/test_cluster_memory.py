"""Memory of tasks: parameters exist once on a host, and steps leave nothing behind. The long form is a benchmark."""

from __future__ import annotations

import pytest
from bench.cluster_memory import MB, growth, serving

pytestmark = pytest.mark.processes


def test_workers_read_parameters_where_the_parameter_server_has_them() -> None:
    (ps, *workers), _ = serving(megabytes=512, workers=2, steps=3, updates=False)
    assert ps.arena >= 512 * MB
    assert ps.own < 1.5 * 512 * MB
    for worker in workers:
        assert worker.mapped > 256 * MB  # pages that the system moves meanwhile are not counted
        assert worker.own < 256 * MB  # the interpreter and its modules


def test_copies_that_updates_made_are_given_back_when_nobody_needs_them() -> None:
    _, at_rest = serving(megabytes=512, workers=2, steps=3, updates=True)
    assert 512 * MB <= at_rest.arena < 1.15 * 512 * MB


def test_tasks_do_not_grow_with_the_number_of_steps() -> None:
    # Threads that come to be needed take some hundred KB once; an entry in a table for each step would be more.
    for grown in growth(before=5_000, steps=40_000):
        assert grown < 40_000 * 40
