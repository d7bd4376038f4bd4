"""Normalizing functions: derivatives of the fused ops, statistics, lengths, and the fraction of zeros."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tf

_RNG = np.random.default_rng(5)
_X = _RNG.normal(size=(3, 4, 5, 6))
_SCALE, _OFFSET = _RNG.normal(size=6), _RNG.normal(size=6)
_WEIGHTS = _RNG.normal(size=(3, 4, 5, 6))


def _run(fetches, feeds=None):
    with tf.Session() as session:
        return session.run(fetches, feeds)


def _derivatives(normalize, dtype):
    """First and second derivatives of a weighted sum of the normalized images."""
    x, scale, offset = (tf.constant(v, dtype) for v in (_X, _SCALE, _OFFSET))
    y = normalize(x, scale, offset)
    first = tf.gradients(tf.reduce_sum(y * y * tf.constant(_WEIGHTS, dtype)), [x, scale, offset])
    total = tf.add_n([tf.reduce_sum(g * g) for g in first])
    return _run([y, *first, *tf.gradients(total, [x, scale, offset])])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_derivatives_of_fused_batch_norm_are_those_of_the_plain_formula(training: bool, data_format: str) -> None:
    mean, variance = (None, None) if training else (np.full(6, 0.1), np.full(6, 2.0))

    def plain(x, scale, offset):
        # Not tf.nn.moments: it stops gradients at the mean, which is right for first derivatives only.
        m = tf.reduce_mean(x, [0, 1, 2]) if training else mean
        v = tf.reduce_mean((x - m) ** 2, [0, 1, 2]) if training else variance
        return tf.nn.batch_normalization(x, m, v, offset, scale, 1e-3)

    def fused(x, scale, offset):
        given = {} if training else {"mean": mean.astype(np.float32), "variance": variance.astype(np.float32)}
        if data_format == "NCHW":
            x = tf.transpose(x, [0, 3, 1, 2])
        y = tf.nn.fused_batch_norm(x, scale, offset, is_training=training, data_format=data_format, **given)[0]
        return tf.transpose(y, [0, 2, 3, 1]) if data_format == "NCHW" else y

    for got, want in zip(_derivatives(fused, "float32"), _derivatives(plain, "float64"), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-3 * np.abs(want).max())


def test_derivatives_of_local_response_normalization() -> None:
    def plain(x, *_):
        padded = tf.pad(x * x, [[0, 0], [0, 0], [0, 0], [2, 2]])
        sums = tf.add_n([padded[..., i : i + 6] for i in range(5)])
        return x * (1.5 + 0.3 * sums) ** -0.7

    def fused(x, *_):
        return tf.nn.local_response_normalization(x, 2, 1.5, 0.3, 0.7)

    def derivatives(normalize, dtype):
        x = tf.constant(_X, dtype)
        first = tf.gradients(tf.reduce_sum(normalize(x) * tf.constant(_WEIGHTS, dtype)), x)[0]
        return _run([first, tf.gradients(tf.reduce_sum(first * first), x)[0]])

    for got, want in zip(derivatives(fused, "float32"), derivatives(plain, "float64"), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


def test_statistics_are_precise_far_from_zero() -> None:
    x = (1000 + 0.01 * _RNG.normal(size=(8, 40, 40, 9))).astype(np.float32)
    _, mean, variance = _run(tf.nn.fused_batch_norm(x, np.ones(9, np.float32), np.zeros(9, np.float32)))
    wide = x.astype(np.float64).reshape(-1, 9)
    np.testing.assert_allclose(mean, wide.mean(0), rtol=1e-6)
    np.testing.assert_allclose(variance, wide.var(0, ddof=1), rtol=1e-2)


def test_a_batch_without_elements_has_no_statistics() -> None:
    y, mean, variance = _run(tf.nn.fused_batch_norm(np.zeros((0, 2, 2, 3), np.float32), [1.0] * 3, [0.0] * 3))
    assert y.shape == (0, 2, 2, 3)
    assert np.isnan(mean).all() and np.isnan(variance).all()


def test_fused_batch_norm_needs_statistics_unless_it_trains() -> None:
    with pytest.raises(ValueError, match="must be a 1D tensor"):
        tf.nn.fused_batch_norm(np.zeros((1, 1, 1, 1), np.float32), [1.0], [0.0], is_training=False)


@pytest.mark.parametrize("axes", [[0], [0, 2], [-1], [0, 1, 2, 3]])
@pytest.mark.parametrize("keep", [True, False])
def test_moments(axes: list[int], keep: bool) -> None:
    got = _run(tf.nn.moments(tf.constant(_X), axes, keep_dims=keep))
    want = [_X.mean(tuple(axes), keepdims=keep), _X.var(tuple(axes), keepdims=keep)]
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape
        np.testing.assert_allclose(g, w)


def test_moments_of_half_precision_are_added_up_in_full() -> None:
    x = np.full((4096, 1), 3.0, np.float16)
    mean, variance = _run(tf.nn.moments(tf.constant(x), [0]))
    assert mean.dtype == np.float16
    assert mean[0] == 3 and variance[0] == 0


def test_weighted_moments() -> None:
    weights = _RNG.integers(0, 4, size=(3, 1, 5, 1))
    got = _run(tf.nn.weighted_moments(tf.constant(_X), [0, 2], weights))
    wide = np.broadcast_to(weights, _X.shape)
    mean = (wide * _X).sum((0, 2)) / wide.sum((0, 2))
    variance = (wide * (_X - mean[None, :, None]) ** 2).sum((0, 2)) / wide.sum((0, 2))
    np.testing.assert_allclose(got[0], mean)
    np.testing.assert_allclose(got[1], variance)


@pytest.mark.parametrize("shift", [None, 0.7])
@pytest.mark.parametrize("known", [True, False])
def test_moments_from_sufficient_statistics(shift: float | None, known: bool) -> None:
    x = tf.placeholder(tf.float64, _X.shape if known else None)
    count, total, squares, given = tf.nn.sufficient_statistics(x, [0, 1], shift)
    mean, variance = _run(tf.nn.normalize_moments(count, total, squares, given), {x: _X})
    np.testing.assert_allclose(mean, _X.mean((0, 1)))
    np.testing.assert_allclose(variance, _X.var((0, 1)))
    assert (given is None) == (shift is None)


def test_batch_normalization_has_tensorflows_nodes_and_takes_numbers() -> None:
    x = np.array([[1.0, 2.0], [3.0, 6.0]], np.float32)
    y = tf.nn.batch_normalization(x, [2.0, 4.0], [1.0, 4.0], [0.5, 0.5], [2.0, 2.0], 0.0)
    assert y.op.name == "batchnorm/add_1"
    names = {op.name for op in tf.get_default_graph().get_operations()}
    assert {"batchnorm/add", "batchnorm/Rsqrt", "batchnorm/mul", "batchnorm/mul_1", "batchnorm/mul_2"} <= names
    centred = tf.nn.batch_normalization(x, 2.0, 4.0, None, None, 0.0)
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(y), [[-1.5, -1.5], [2.5, 2.5]], rtol=1e-6)
        np.testing.assert_allclose(session.run(centred), (x - 2) / 2, rtol=1e-6)


def test_old_batch_normalization_scales_only_if_told_to() -> None:
    args = (_X, _X.mean((0, 1, 2)), _X.var((0, 1, 2)), _OFFSET, _SCALE, 1e-3)
    normal = (_X - args[1]) / np.sqrt(args[2] + 1e-3)
    for scales in (True, False):
        got = _run(tf.nn.batch_norm_with_global_normalization(*args, scale_after_normalization=scales))
        np.testing.assert_allclose(got, normal * (_SCALE if scales else 1) + _OFFSET)


def test_l2_normalize() -> None:
    got = _run(tf.nn.l2_normalize(tf.constant(_X), [1, 2]))
    np.testing.assert_allclose(got, _X / np.sqrt((_X**2).sum((1, 2), keepdims=True)))
    z = np.array([[3 + 4j, 0], [0, 0]])
    got = _run(tf.nn.l2_normalize(z, dim=1))
    np.testing.assert_allclose(got, [[0.6 + 0.8j, 0], [0, 0]])
    assert tf.nn.l2_normalize(tf.constant(_X), name="unit").op.name == "unit"


def test_zero_fraction() -> None:
    assert _run(tf.nn.zero_fraction([0.0, 1.0, 0.0, 2.0])) == 0.5
    assert _run(tf.nn.zero_fraction(tf.constant([0, 0, 3], tf.int64))) == np.float32(2 / 3)
    assert np.isnan(_run(tf.nn.zero_fraction(tf.zeros([0]))))


def test_dropout_draws_what_tensorflow_draws() -> None:
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        ones = tf.ones([2, 3])
        got = _run([tf.nn.dropout(ones, keep_prob=0.5, seed=7), tf.nn.dropout(ones, 0.6, [2, 1], 1)])
    np.testing.assert_array_equal(got[0], [[2, 2, 0], [0, 2, 0]])
    np.testing.assert_allclose(got[1], np.full((2, 3), 1 / 0.6), rtol=1e-6)


def test_dropout_keeps_the_expected_part_and_its_gradient_agrees() -> None:
    x = tf.ones([200, 100])
    y = tf.nn.dropout(x, rate=0.3, seed=1)
    got, grad = _run([y, tf.gradients(y, x)[0]])
    np.testing.assert_array_equal(got, grad)
    assert abs((got == 0).mean() - 0.3) < 0.02
    np.testing.assert_allclose(got[got != 0], 1 / 0.7, rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "must provide a rate"),
        ({"rate": 0.5, "keep_prob": 0.5}, "both"),
        ({"rate": 1.0}, "range"),
        ({"keep_prob": 1.5}, "range"),
    ],
)
def test_dropout_refuses_bad_rates(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tf.nn.dropout(tf.ones([2]), **arguments)


def test_dropout_of_nothing_returns_its_input() -> None:
    x = tf.ones([2])
    assert tf.nn.dropout(x, rate=0.0) is x
    assert tf.nn.dropout(x, keep_prob=1.0) is x
    with pytest.raises(ValueError, match="floating point"):
        tf.nn.dropout(tf.constant([1, 2]), rate=0.5)


def test_dropout_takes_tensors_as_rate() -> None:
    keep = tf.placeholder(tf.float64, [])
    y = tf.nn.dropout(tf.ones([50], tf.float64), keep_prob=keep, seed=2)
    np.testing.assert_array_equal(_run(y, {keep: 1.0}), np.ones(50))
    assert 0 < (_run(y, {keep: 0.5}) == 0).sum() < 50
