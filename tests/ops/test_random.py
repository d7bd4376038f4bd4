"""Random streams: the numbers that TensorFlow draws from the same seeds, on any threads; seeds and sessions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf

# Drawn by TensorFlow 2 with seed=87654321, seed2=7: two successive steps of 7 values, which is no multiple of a block.
_GOLDEN: dict[str, Any] = {
    "RandomUniform float32": [
        [0.48394096, 0.50620306, 0.25514376, 0.12474227, 0.9330101, 0.6646093, 0.22922444],
        [0.6494907, 0.7774228, 0.56091046, 0.6347549, 0.8317703, 0.99999213, 0.3522669],
    ],
    "RandomUniform float16": [
        [0.4443359375, 0.8154296875, 0.1376953125, 0.888671875, 0.21875, 0.4794921875, 0.806640625],
        [0.6279296875, 0.6474609375, 0.978515625, 0.912109375, 0.8623046875, 0.935546875, 0.7705078125],
    ],
    "RandomUniform float64": [
        [0.8715283824246434, 0.041150670730960126, 0.46408134636396414, 0.8337960817743599, 0.1528288341148254,
         0.49167280105730193, 0.6192186123991679],
        [0.19592665466931236, 0.4872840338102633, 0.65416312962769, 0.818135501381994, 0.7791570270144981,
         0.4591935351010843, 0.8529908335823209],
    ],
    "RandomStandardNormal float32": [
        [-0.046945684, -1.2039024, 1.1668352, 1.1706204, -0.32007024, -0.19035114, -1.4242879],
        [-0.91529304, 0.15928648, -0.8055394, -0.71238625, -2.9993565e-05, 0.6069579, -1.4367697],
    ],
    "RandomStandardNormal float64": [
        [0.1340862416655279, 0.5069857732211678, -1.0712938719508789, 0.6226718985830445, 0.10136637694310557,
         -1.9356131555272154, 0.9382441693615889],
        [0.14410460750198448, -1.7997954504360683, -0.8381569592996121, 0.38247870721303723, 0.1791544073379087,
         -0.6833659743881538, 0.5487754524016909],
    ],
    "TruncatedNormal float32": [
        [-0.046945684, -1.2039024, 1.1668352, 1.1706204, 0.7166261, 0.5711335, -0.9265398],
        [-0.91529304, 0.15928648, -0.8055394, -0.71238625, -0.6787532, 1.1107725, 0.5843331],
    ],
    "TruncatedNormal float64": [
        [0.1340862416655279, 0.5069857732211678, -0.3353157984791955, 1.0255299605888106, 1.4898406195903886,
         0.7052722463957878, 0.3898651165627329],
        [0.14410460750198448, -1.7997954504360683, -0.6256741554028492, 1.336519330616595, -0.7593693291133693,
         1.0570515454552132, -0.30063974879075916],
    ],
}  # fmt: skip


def _steps(build: Any, count: int = 2) -> list[Any]:
    with tf.Graph().as_default(), tf.Session() as session:
        tensor = build()
        return [session.run(tensor) for _ in range(count)]


@pytest.mark.parametrize("name", _GOLDEN)
def test_the_stream_is_tensorflows(name: str) -> None:
    op, dtype = name.split()
    got = _steps(lambda: getattr(tf.raw_ops, op)(shape=[7], seed=87654321, seed2=7, dtype=tf.as_dtype(dtype)))
    want = np.array(_GOLDEN[name], np.dtype(dtype))
    if "Uniform" in op:
        np.testing.assert_array_equal(got, want)
    else:  # The C library's logarithm and sine may differ in the last place.
        np.testing.assert_allclose(got, want, rtol=1e-6 if dtype == "float32" else 1e-14)


def test_integers_are_tensorflows() -> None:
    got = _steps(lambda: tf.raw_ops.RandomUniformInt(shape=[9], minval=-5, maxval=17, seed=1, seed2=2))
    assert np.array(got).tolist() == [[0, 0, 1, 4, 12, 9, -2, 4, 6], [3, -1, 13, -1, 8, 2, 0, 0, -3]]
    low, high = np.int64(-(2**62)), np.int64(2**62 + 5)
    got = _steps(lambda: tf.raw_ops.RandomUniformInt(shape=[3], minval=low, maxval=high, seed=1, seed2=2), 1)
    assert got[0].tolist() == [-3680067806584109878, -3888016201593972938, 1946874808246780270]


def test_shuffles_are_tensorflows() -> None:
    got = _steps(lambda: tf.raw_ops.RandomShuffle(value=np.arange(13), seed=3, seed2=4))
    assert got[0].tolist() == [2, 5, 11, 7, 1, 9, 3, 10, 8, 6, 12, 4, 0]
    assert got[1].tolist() == [1, 5, 8, 4, 12, 6, 9, 7, 10, 11, 2, 0, 3]


def test_class_numbers_are_tensorflows() -> None:
    logits = np.random.RandomState(0).randn(5, 6).astype(np.float32)
    logits[1, 2] = -np.inf
    got = _steps(lambda: tf.raw_ops.Multinomial(logits=logits, num_samples=5, seed=3, seed2=4))
    assert got[0].tolist() == [[3, 3, 2, 4, 0], [0, 3, 5, 5, 1], [4, 4, 4, 4, 4], [3, 4, 3, 4, 0], [4, 5, 0, 5, 0]]
    assert got[1].tolist() == [[1, 3, 5, 1, 0], [5, 1, 4, 1, 0], [4, 4, 2, 4, 1], [0, 0, 3, 3, 3], [0, 5, 5, 1, 4]]


def test_gamma_and_poisson_are_tensorflows() -> None:
    alpha = np.array([0.3, 1.0, 2.5, 40.0], np.float32)
    got = _steps(lambda: tf.raw_ops.RandomGamma(shape=[5], alpha=alpha, seed=5, seed2=6), 1)[0]
    np.testing.assert_allclose(got[0], [0.16814682, 0.3040319, 4.862139, 35.62204], rtol=1e-6)
    np.testing.assert_allclose(got[4], [0.25264663, 0.46706346, 3.338146, 45.43792], rtol=1e-6)
    rate = np.array([0.3, 1.0, 9.5, 40.0, 1000.0], np.float32)
    got = _steps(lambda: tf.raw_ops.RandomPoissonV2(shape=[5], rate=rate, seed=5, seed2=6, dtype=tf.float32), 1)[0]
    assert got[:2].tolist() == [[0, 0, 11, 43, 1001], [0, 0, 7, 47, 998]]


def test_stateless_values_are_tensorflows_and_stay_the_same() -> None:
    first, second = _steps(lambda: tf.random.stateless_uniform([7], [3, -9]))
    np.testing.assert_array_equal(first, second)
    want = [0.2106669, 0.15415716, 0.6554965, 0.5014931, 0.7312765, 0.81445074, 0.2884537]
    np.testing.assert_array_equal(first, np.array(want, np.float32))
    got = _steps(lambda: tf.random.stateless_uniform([9], [1, 2], -5, 17, tf.int32), 1)[0]
    assert got.tolist() == [-1, 0, 7, 12, 2, -2, -2, 15, 10]


def test_a_large_draw_does_not_depend_on_the_number_of_threads() -> None:
    def drawn(threads: int) -> Any:
        from thalweg._native import core

        core.set_intra_op_threads(threads)
        try:
            return _steps(lambda: [tf.random_normal([70001], seed=1), tf.truncated_normal([50003], seed=2)], 1)[0]
        finally:
            core.set_intra_op_threads(0)

    for one, two in zip(drawn(1), drawn(2), strict=True):
        np.testing.assert_array_equal(one, two)
        assert abs(float(one.mean())) < 0.02


def test_op_and_graph_seeds_decide_the_stream() -> None:
    def seeds(graph_seed: int | None, op_seed: int | None) -> tuple[int, int]:
        with tf.Graph().as_default():
            tf.set_random_seed(graph_seed)
            op = tf.random_uniform([1], seed=op_seed).op
            return op.get_attr("seed"), op.get_attr("seed2")

    assert seeds(None, None) == (0, 0)
    assert seeds(None, 5) == (87654321, 5)
    assert seeds(7, 5) == (7, 5)
    assert seeds(7, None) == (7, 3)  # The number of ops that TensorFlow has before it: the shape and the bounds.
    assert seeds(0, 0) == (0, 2**31 - 1)
    assert seeds(2**31 - 1, 0) == (0, 2**31 - 1)


def test_each_session_starts_the_stream_again_and_unseeded_ones_differ() -> None:
    with tf.Graph().as_default():
        seeded, free = tf.random_uniform([4], seed=1), tf.random_uniform([4])
        with tf.Session() as a, tf.Session() as b:
            first = a.run(seeded)
            assert not np.array_equal(first, a.run(seeded))
            np.testing.assert_array_equal(first, b.run(seeded))
            assert not np.array_equal(a.run(free), b.run(free))


def test_functions_scale_and_check_their_arguments() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        values = session.run(tf.random_uniform([1000], -3.0, -1.0, seed=1))
        assert values.min() >= -3 and values.max() < -1
        assert tf.random_uniform([2], name="u").name == "u:0"
        with pytest.raises(ValueError, match="Must specify maxval"):
            tf.random_uniform([2], dtype=tf.int32)
        with pytest.raises(ValueError, match="Invalid dtype"):
            tf.random_uniform([2], dtype=tf.string)
        image = tf.constant(np.arange(20).reshape(4, 5))
        crop = session.run(tf.random_crop(image, [2, 3], seed=3))
        assert crop.shape == (2, 3) and crop[1, 0] == crop[0, 0] + 5
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Need value\.shape >= size"):
            session.run(tf.random_crop(tf.placeholder_with_default([1, 2], [None]), [3]))
        gamma = session.run(tf.random_gamma([4000], alpha=[2.0], beta=[[4.0], [8.0]], seed=1))
        np.testing.assert_allclose(gamma.mean(axis=0).ravel(), [0.5, 0.25], rtol=0.1)


@pytest.mark.parametrize("dtype", [tf.float16, tf.float32, tf.float64])
def test_the_gradient_of_gamma_samples_follows_the_quantiles(dtype: tf.DType) -> None:
    from scipy import stats

    alpha, beta = np.array([0.7, 2.0, 9.0]), np.array([1.0, 2.0, 0.5])
    with tf.Graph().as_default(), tf.Session() as session:
        a, b = tf.constant(alpha, dtype), tf.constant(beta, dtype)
        sample = tf.random_gamma([2, 4], a, b, dtype=dtype, seed=3)
        values, slope = session.run([sample, tf.gradients(sample, a)[0]])
    values = values.astype(np.float64) * beta
    # At a fixed quantile q the sample is the inverse of the distribution function.
    q, h = stats.gamma.cdf(values, alpha), 1e-4
    moved = (stats.gamma.ppf(q, alpha + h) - stats.gamma.ppf(q, alpha - h)) / (2 * h)
    np.testing.assert_allclose(slope, (moved / beta).sum((0, 1)), 1e-2 if dtype == tf.float16 else 1e-3)


def test_numbers_of_a_key_and_a_counter_are_tensorflows() -> None:
    raw = tf.raw_ops
    key, counter = raw.StatelessRandomGetKeyCounter(seed=tf.constant([7, 8], tf.int64))
    given = {"shape": [5], "key": key, "counter": counter, "alg": 1}
    with tf.Session() as session:
        assert session.run(key).tolist() == [18211131699702176293]
        assert session.run(counter).tolist() == [0, 18149656166479458529]
        for op, expected in (
            (raw.StatelessRandomUniformV2, [0.041522622, 0.28272271, 0.41700709, 0.30623901, 0.99616539]),
            (raw.StatelessRandomNormalV2, [2.4693768, -0.51498795, 1.2408954, -0.4576931, -0.058106463]),
            (raw.StatelessTruncatedNormalV2, [-0.51498795, 1.2408954, -0.4576931, -0.058106463, -0.74527311]),
        ):
            np.testing.assert_allclose(session.run(op(**given, dtype=tf.float32)), expected, rtol=1e-5)
        integers = raw.StatelessRandomUniformIntV2(**given, minval=tf.constant(-3), maxval=tf.constant(100))
        assert session.run(integers).tolist() == [3, 84, 3, 70, 19]
        bits = session.run(raw.StatelessRandomUniformFullIntV2(**given, dtype=tf.uint64))
        assert bits.tolist()[:2] == [6351254438543708317, 17196769603656966269]
        signed = raw.StatelessRandomUniformFullInt(shape=[3], seed=tf.constant([7, 8], tf.int64), dtype=tf.int64)
        assert session.run(signed).tolist()[1] == -1249974470052585347
