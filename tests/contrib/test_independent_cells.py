"""Cells of tf.contrib.rnn against NumPy (formulas that agree with TensorFlow 1.15), and their variables' names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import thalweg as tf

rnn: Any = tf.contrib.rnn
X = np.random.RandomState(0).rand(2, 6).astype(np.float32)
C = np.random.RandomState(1).rand(2, 6).astype(np.float32)
H = np.random.RandomState(2).rand(2, 6).astype(np.float32)


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _stepped(cell: Any, state: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Output, state and variables of one step, with random variables."""
    output, after = cell(tf.constant(X), state)
    with tf.Session() as session:
        for i, v in enumerate(tf.global_variables()):
            v.load(np.random.RandomState(10 + i).uniform(-1, 1, v.shape.as_list()), session)
        found = session.run({v.op.name: v for v in tf.global_variables()})
        return *session.run((output, after)), found


def _lstm(i: Any, j: Any, f: Any, o: Any) -> tuple[Any, Any]:
    c = _sigmoid(f + 1) * C + _sigmoid(i) * np.tanh(j)
    return _sigmoid(o) * np.tanh(c), c


def _ind(v: Any) -> Any:
    return np.tanh(X @ v["kernel_w"] + H * v["kernel_u"] + v["bias"])


def _indy_gru(v: Any) -> Any:
    gates = _sigmoid(X @ v["gates/kernel_w"] + np.tile(H, 2) * v["gates/kernel_u"] + v["gates/bias"])
    r, u = np.split(gates, 2, 1)
    new = np.tanh(X @ v["candidate/kernel"] + r * H * v["candidate/kernel_u"] + v["candidate/bias"])
    return u * H + (1 - u) * new


def _intersection(v: Any) -> Any:
    _, _, gate, y = np.split(np.concatenate([X, H], 1) @ v["kernel"] + v["bias"], 4, 1)
    return _sigmoid(gate + 1) * X + (1 - _sigmoid(gate + 1)) * np.maximum(y, 0)


def _sru(v: Any) -> Any:
    x, f, r, highway = np.split(X @ v["kernel"], 4, 1)
    f, r = _sigmoid(f + v["bias"][:6]), _sigmoid(r + v["bias"][6:])
    return r * np.tanh(f * H + (1 - f) * x) + (1 - r) * highway


@pytest.mark.parametrize(
    ("cell", "scope", "reference"),
    [
        ("IndRNNCell", "ind_rnn_cell", _ind), ("IndyGRUCell", "indy_gru_cell", _indy_gru),
        ("SRUCell", "sru_cell", _sru), ("IntersectionRNNCell", "intersection_rnn_cell", _intersection),
    ],
)  # fmt: skip
def test_cells_with_one_state(cell: str, scope: str, reference: Callable[[Any], Any]) -> None:
    output, _, variables = _stepped(getattr(rnn, cell)(6), tf.constant(H))
    expected = reference({name.removeprefix(f"{scope}/"): value for name, value in variables.items()})
    np.testing.assert_allclose(output, expected, rtol=2e-5, atol=1e-6)


def test_an_lstm_of_independent_units() -> None:
    output, state, v = _stepped(rnn.IndyLSTMCell(6), rnn.LSTMStateTuple(tf.constant(C), tf.constant(H)))
    v = {name.removeprefix("indy_lstm_cell/"): value for name, value in v.items()}
    h, c = _lstm(*np.split(X @ v["kernel_w"] + np.tile(H, 4) * v["kernel_u"] + v["bias"], 4, 1))
    np.testing.assert_allclose(output, h, rtol=2e-5)
    np.testing.assert_allclose(state.c, c, rtol=2e-5)


@pytest.mark.parametrize("projected", [None, 3])
def test_an_lstm_of_groups(projected: int | None) -> None:
    before = H[:, : projected or 6]
    cell = rnn.GLSTMCell(6, num_proj=projected, number_of_groups=3)
    output, state, v = _stepped(cell, rnn.LSTMStateTuple(tf.constant(C), tf.constant(before)))
    v = {name.removeprefix("glstm_cell/"): value for name, value in v.items()}
    groups = [
        np.split(np.concatenate([x, m], 1) @ v[f"group{k}/kernel"], 4, 1)
        for k, (x, m) in enumerate(zip(np.split(X, 3, 1), np.split(before, 3, 1), strict=True))
    ]
    gates = [np.concatenate(part, 1) + v[f"bias_{name}"] for part, name in zip(zip(*groups), "ijfo")]  # noqa: B905
    h, c = _lstm(*gates)
    np.testing.assert_allclose(state.c, c, rtol=2e-5)
    np.testing.assert_allclose(output, h if projected is None else h @ v["projection/kernel"], rtol=2e-5, atol=1e-6)
    with pytest.raises(ValueError, match="divisible"):
        rnn.GLSTMCell(6, number_of_groups=4)
    with pytest.raises(ValueError, match="groups"):
        rnn.GLSTMCell(8, number_of_groups=4)(tf.constant(X), cell.zero_state(2, tf.float32))


@pytest.mark.parametrize("coupled", [True, False])
def test_gates_of_a_highway_are_variables_of_the_callers_scope(coupled: bool) -> None:
    cell = rnn.HighwayWrapper(tf.nn.rnn_cell.GRUCell(6), coupled)
    tf.nn.dynamic_rnn(cell, tf.zeros([2, 5, 6]), dtype=tf.float32)
    names = {v.op.name for v in tf.global_variables() if "gru" not in v.name}
    more = set() if coupled else {"rnn/transform_w", "rnn/transform_b"}
    assert names == {"rnn/carry_w", "rnn/carry_b"} | more
