"""The functions that pool: their forms of arguments, names, dilations, and special values."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tf


def _run(tensor):
    with tf.Session() as session:
        return session.run(tensor)


def test_sizes_may_be_numbers_pairs_or_one_per_dimension() -> None:
    x = tf.constant(np.arange(48, dtype=np.float32).reshape(1, 4, 6, 2))
    forms = [2, [2], [2, 2], [1, 2, 2, 1]]
    results = [_run(tf.nn.max_pool(x, form, form, "VALID")) for form in forms]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
    assert results[0].shape == (1, 2, 3, 2)
    assert tf.nn.max_pool(x, 2, 2, "VALID", name="named").op.name == "named"
    with pytest.raises(ValueError, match="length 1, 2 or 4"):
        tf.nn.max_pool(x, [2, 2, 2], 1, "VALID")


def test_value_has_a_second_name() -> None:
    x = np.ones((1, 4, 4, 1), np.float32)
    assert tf.nn.max_pool(input=x, ksize=2, strides=2, padding="SAME").shape == (1, 2, 2, 1)
    assert tf.nn.avg_pool(input=x, ksize=2, strides=2, padding="SAME").shape == (1, 2, 2, 1)


@pytest.mark.parametrize("data_format", ["NWC", "NCW"])
def test_pooling_over_one_dimension(data_format: str) -> None:
    x = np.arange(12, dtype=np.float64).reshape(1, 6, 2)
    value = x if data_format == "NWC" else x.transpose(0, 2, 1)
    largest = tf.nn.max_pool1d(value, 2, 2, "VALID", data_format)
    average = tf.nn.avg_pool1d(value, [2], [2], "VALID", data_format)
    assert largest.op.name == "MaxPool1d/Squeeze"
    got = _run([largest, average])
    if data_format == "NCW":
        got = [g.transpose(0, 2, 1) for g in got]
    np.testing.assert_array_equal(got[0], x[:, 1::2])
    np.testing.assert_array_equal(got[1], x.reshape(1, 3, 2, 2).mean(2))


@pytest.mark.parametrize(("kind", "reduce"), [("MAX", np.max), ("AVG", np.mean)])
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_pool_with_gaps_inside_the_windows(kind: str, reduce, data_format: str) -> None:
    x = np.random.default_rng(0).normal(size=(2, 7, 8, 3))
    expected = np.stack(
        [[reduce(x[:, r : r + 4 : 3, c : c + 3 : 2], (1, 2)) for c in range(6)] for r in range(4)]
    ).transpose(2, 0, 1, 3)
    value = x if data_format == "NHWC" else x.transpose(0, 3, 1, 2)
    got = _run(tf.nn.pool(value, [2, 2], kind, "VALID", dilation_rate=[3, 2], data_format=data_format))
    np.testing.assert_allclose(got if data_format == "NHWC" else got.transpose(0, 2, 3, 1), expected)
    hidden = tf.placeholder_with_default(value, [None] * 4)
    again = _run(tf.nn.pool(hidden, [2, 2], kind, "VALID", dilations=[3, 2], data_format=data_format))
    np.testing.assert_array_equal(again, got)


def test_pool_refuses_what_it_cannot_do() -> None:
    x = np.zeros((1, 4, 4, 1), np.float32)
    with pytest.raises(ValueError, match="2-D FOO pooling"):
        tf.nn.pool(x, [2, 2], "FOO", "VALID")
    with pytest.raises(ValueError, match="strides"):
        tf.nn.pool(x, [2, 2], "MAX", "VALID", strides=[2, 2], dilation_rate=[2, 2])
    with pytest.raises(ValueError, match="'SAME'"):
        tf.nn.pool(x, [2, 2], "MAX", "SAME", dilation_rate=[2, 2])
    with pytest.raises(ValueError, match="rank 5"):
        tf.nn.pool(x, [2, 2, 2], "MAX", "SAME")


def test_nan_is_never_the_largest_and_infinities_are_kept() -> None:
    x = np.array([np.nan, 1, np.nan, -np.inf, -np.inf, -np.inf, np.inf, 0], np.float32).reshape(1, 8, 1, 1)
    value = tf.constant(x)
    pooled = tf.nn.max_pool(value, [2, 1], [2, 1], "VALID")
    got, grad = _run([pooled, tf.gradients(pooled, value)[0]])
    np.testing.assert_array_equal(got.ravel(), [1, -np.inf, -np.inf, np.inf])
    np.testing.assert_array_equal(grad.ravel(), [0, 1, 1, 0, 1, 0, 1, 0])


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_gradients_of_large_images_do_not_depend_on_how_they_are_split(stride: int) -> None:
    rng = np.random.default_rng(stride)
    x = rng.normal(size=(2, 61, 40, 24)).astype(np.float32)
    value = tf.constant(x)
    pooled = tf.nn.max_pool(value, 3, stride, "SAME")
    weights = rng.normal(size=pooled.shape.as_list()).astype(np.float32)
    grads = tf.gradients(pooled, value, weights)[0]
    with tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=1)) as alone:
        expected = alone.run(grads)
    np.testing.assert_array_equal(_run(grads), expected)
    np.testing.assert_allclose(expected.sum(), weights.sum(), rtol=1e-3)
    largest = _run(pooled)
    assert np.isin(largest, x[expected != 0]).all()
