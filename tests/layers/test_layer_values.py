"""Layers compute what TensorFlow computes, and name their variables alike."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tf
from tests.data.make_layer_values import NETWORKS, SHAPE, VALUES
from tests.data.make_rnn_values import evaluate


@pytest.fixture(scope="module")
def values() -> dict[str, np.ndarray]:
    with np.load(VALUES) as file:
        return dict(file)


@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_and_gradients_equal_those_of_tensorflow(name: str, values: dict[str, np.ndarray]) -> None:
    names, result = evaluate(tf, NETWORKS[name], SHAPE)
    assert names == values[name + ":names"].tolist()
    np.testing.assert_allclose(result, values[name], rtol=1e-3, atol=1e-4)
