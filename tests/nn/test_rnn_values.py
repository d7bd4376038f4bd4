"""Recurrent networks compute what TensorFlow computes, and name their variables alike."""

from __future__ import annotations

import numpy as np
import pytest
from tests.data.make_rnn_values import NETWORKS, VALUES, evaluate

import thalweg as tf


@pytest.fixture(scope="module")
def values() -> dict[str, np.ndarray]:
    with np.load(VALUES) as file:
        return dict(file)


@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_and_gradients_equal_those_of_tensorflow(name: str, values: dict[str, np.ndarray]) -> None:
    names, result = evaluate(tf, NETWORKS[name])
    assert names == values[name + ":names"].tolist()
    np.testing.assert_allclose(result, values[name], rtol=1e-4, atol=1e-5)
