"""The exchange of the state of elastic trainings: all variables of a process change together, or none."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tf
from thalweg.horovod.state_exchange import StateExchange, root_of


def test_no_variable_changes_before_all_values_have_arrived() -> None:
    with tf.Graph().as_default() as graph:
        variables = [tf.get_variable(f"v{i}", [i + 1]) for i in range(3)]
        exchange = StateExchange(variables)
        received = {op for op in graph.get_operations() if op.type == "CollectiveBcastRecv"}
        assert len(received) == 3
        assigned = [op for op in exchange._receive.control_inputs if op.type != "NoOp"]
        assert len(assigned) == 3
        for op in assigned:
            assert received <= {*op.control_inputs, *(each.op for each in op.inputs)}


@pytest.mark.parametrize(
    ("progress", "root"),
    [([[0, 0], [0, 0]], 1), ([[0, 9], [1, 3], [1, 5], [1, 5]], 2), ([[0, 0], [1, 0]], 1)],
)
def test_state_comes_from_the_first_of_those_that_are_furthest(progress: list[list[int]], root: int) -> None:
    assert root_of(np.array(progress), 1) == root
