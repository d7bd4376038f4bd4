"""Scaled dot-product attention and its heads, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf

RANDOM = np.random.RandomState(0)
Q, K, V = (RANDOM.randn(2, *sizes).astype(np.float32) for sizes in ((3, 4), (5, 4), (5, 6)))


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: Any = True) -> np.ndarray:
    scores = np.where(mask, q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True) @ v)


def evaluate(value: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(value, feed)


def test_values() -> None:
    got = tf.nn.scaled_dot_product_attention(Q, K, V)
    assert got.shape.as_list() == [2, 3, 6]
    np.testing.assert_allclose(evaluate(got), attention(Q, K, V), rtol=1e-4, atol=1e-5)


def test_masks() -> None:
    mask = RANDOM.rand(2, 3, 5) > 0.4
    mask[..., 0] = True
    got, added, causal = evaluate(
        [
            tf.nn.scaled_dot_product_attention(Q, K, V, mask),
            tf.nn.scaled_dot_product_attention(Q, K, V, np.where(mask, 0, -1e9).astype(np.float32)),
            tf.nn.scaled_dot_product_attention(Q, K, V, is_causal=True),
        ]
    )
    np.testing.assert_allclose(got, attention(Q, K, V, mask), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(added, got, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(causal, attention(Q, K, V, np.tri(3, 5) > 0), rtol=1e-4, atol=1e-5)


def test_unknown_sizes_and_a_row_that_may_look_nowhere() -> None:
    x = tf.placeholder(tf.float32, [None, None, 4])
    got = tf.nn.scaled_dot_product_attention(x, x, x, is_causal=True)
    np.testing.assert_allclose(evaluate(got, {x: Q}), attention(Q, Q, Q, np.tri(3) > 0), rtol=1e-4, atol=1e-5)
    assert np.isfinite(evaluate(tf.nn.scaled_dot_product_attention(Q, K, V, np.zeros([3, 5], bool)))).all()


@pytest.mark.parametrize("known", [True, False])
def test_heads_see_their_own_part(known: bool) -> None:
    q = tf.placeholder(tf.float32, Q.shape if known else [None, None, 4])
    got = tf.nn.multi_head_attention(q, K, V, 2)
    parts = [attention(Q[..., s], K[..., s], V[..., t]) for s, t in ((slice(2), slice(3)), (slice(2, 4), slice(3, 6)))]
    np.testing.assert_allclose(evaluate(got, {q: Q}), np.concatenate(parts, -1), rtol=1e-4, atol=1e-5)


def test_gradients() -> None:
    q, k, v = (tf.constant(a.astype(np.float64)) for a in (Q, K, V))
    with tf.Session():
        y = tf.nn.multi_head_attention(q, k, v, 2, is_causal=True)
        for x, a in ((q, Q), (k, K), (v, V)):
            assert tf.test.compute_gradient_error(x, a.shape, y, (2, 3, 6), x_init_value=a.astype(np.float64)) < 1e-6


def test_dropout_of_weights() -> None:
    kept, dropped = evaluate(
        [tf.nn.scaled_dot_product_attention(Q, K, V), tf.nn.scaled_dot_product_attention(Q, K, V, dropout_rate=0.5)]
    )
    assert not np.allclose(kept, dropped)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="heads"):
        tf.nn.multi_head_attention(Q, K, V, 3)
    with pytest.raises(ValueError, match="last size"):
        tf.nn.scaled_dot_product_attention(tf.placeholder(tf.float32, [1, 2, None]), K, V)
