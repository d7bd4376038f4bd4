"""Fused chains of casts, comparisons, selections and arithmetic in other types than float32: the bits of the ops."""

from typing import Any

import numpy as np
import pytest
from tests.passes.test_fusion import run_both

import thalweg as tf
from thalweg._native import core
from thalweg.passes.fusion import fuse
from thalweg.passes.prune import prune

NARROW = [tf.float32, tf.int32, tf.float16, tf.bfloat16, tf.uint8, tf.int8, tf.uint16, tf.int16]
ARITHMETIC = [tf.float32, tf.int32, tf.float16, tf.bfloat16, tf.float64, tf.int64]
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, 6e-8, 3e38, -3e38, 65504.0, 70000.0, -300.0, 1e10]


def draw(rng: np.random.Generator, dtype: tf.DType, shape: Any) -> np.ndarray:
    x = np.asarray(rng.standard_normal(shape) * 50)
    if dtype.is_floating and x.size > 100:
        x.flat[rng.integers(0, x.size, len(SPECIAL))] = SPECIAL
    if dtype is tf.bool:
        return np.asarray(x > 0)
    with np.errstate(all="ignore"):
        return x.astype(dtype.as_numpy_dtype) if dtype.is_floating else np.abs(x).astype(dtype.as_numpy_dtype)


def bits(x: np.ndarray) -> np.ndarray:
    """The bits of an array, with equal ones for all NaNs."""
    if x.dtype.kind not in "iub":
        nan = np.isnan(x.astype(np.float64))
        x = np.where(nan, np.zeros_like(x), x).view(f"u{x.dtype.itemsize}") * 2 + nan
    return x


def ops_after(fetches: list[tf.Tensor], feeds: list[tf.Tensor]) -> list[str]:
    graph = fuse(prune(feeds, fetches, []), core.operands_of_rows, core.can_record)
    return [node.op for node in graph.nodes.values()]


def assert_one_chain(result: tf.Tensor, feeds: dict[Any, np.ndarray]) -> None:
    assert [op for op in ops_after([result], list(feeds)) if op not in ("_Arg", "Const")] == ["_FusedElementwise"]
    fused, separate = run_both(result, feeds)
    assert fused.dtype == separate.dtype
    np.testing.assert_array_equal(bits(fused), bits(separate))


@pytest.mark.parametrize("size", [256, 1003])
@pytest.mark.parametrize("to", [*NARROW, tf.bool], ids=lambda d: d.name)
@pytest.mark.parametrize("source", [*NARROW, tf.bool], ids=lambda d: d.name)
def test_casts(source: tf.DType, to: tf.DType, size: int) -> None:
    rng = np.random.default_rng(3)
    x, y = tf.placeholder(source, [size]), tf.placeholder(tf.float32, [size])
    chosen = tf.where_v2(y > 0.5, tf.cast(x, to), tf.cast(y, to))
    assert_one_chain(chosen, {x: draw(rng, source, size), y: draw(rng, tf.float32, size)})


@pytest.mark.parametrize("dtype", ARITHMETIC, ids=lambda d: d.name)
def test_arithmetic_comparison_and_selection(dtype: tf.DType) -> None:
    rng = np.random.default_rng(5)
    x, y = (tf.placeholder(dtype, [70_001]) for _ in range(2))
    k = tf.placeholder(dtype, [])
    both = (x + k) - tf.maximum(x, y)
    inside = tf.logical_and(x <= y, tf.logical_not(tf.equal(x, k)))
    result = tf.where_v2(inside, both, tf.minimum(y, k)) + y
    feeds = {x: draw(rng, dtype, 70_001), y: draw(rng, dtype, 70_001), k: draw(rng, dtype, ())}
    assert_one_chain(result, feeds)
    assert_one_chain(tf.not_equal(result, y), feeds)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16], ids=lambda d: d.name)
def test_reduced_floats_are_rounded_after_each_op(dtype: tf.DType) -> None:
    rng = np.random.default_rng(6)
    x = tf.placeholder(dtype, [5000])
    result = tf.tanh(x * x + x) * tf.sigmoid(x) - tf.exp(x)
    assert_one_chain(result, {x: draw(rng, dtype, 5000)})


@pytest.mark.parametrize("shape", [(40, 7, 3), (9, 300), (1000, 48), (5, 1)])
def test_short_rows_and_columns(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(7)
    x = tf.placeholder(tf.uint8, shape)
    mean, deviation = tf.placeholder(tf.float32, shape[-1:]), tf.placeholder(tf.float32, shape[-1:])
    result = (tf.cast(x, tf.float32) - mean) / deviation
    feeds = {x: draw(rng, tf.uint8, shape), **{t: draw(rng, tf.float32, shape[-1:]) for t in (mean, deviation)}}
    fused, separate = run_both(result, feeds)
    np.testing.assert_array_equal(bits(fused), bits(separate))
    column = tf.placeholder(tf.float32, (*shape[:-1], 1))
    other = tf.cast(x, tf.float32) * column + mean
    feeds[column] = draw(rng, tf.float32, (*shape[:-1], 1))
    del feeds[deviation]
    fused, separate = run_both(other, feeds)
    np.testing.assert_array_equal(bits(fused), bits(separate))


def test_reduction_behind_a_mask() -> None:
    rng = np.random.default_rng(8)
    x = tf.placeholder(tf.float32, [300, 500])
    hits = tf.reduce_sum(tf.cast(tf.logical_and(x > 0.5, x < 1.5), tf.float32), 1)
    assert "Sum" not in ops_after([hits], [x])
    fused, separate = run_both(hits, {x: draw(rng, tf.float32, (300, 500))})
    np.testing.assert_array_equal(fused, separate)


@pytest.mark.parametrize("seed", range(20))
def test_random_chains(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.choice([300, 1025, 4099]))
    wide = seed % 4 == 0
    dtypes = [tf.float64] if wide else [tf.float32, tf.int32, tf.float16, tf.bfloat16]
    feeds = {}
    made: list[tf.Tensor] = []
    for _ in range(4):
        dtype = dtypes[rng.integers(len(dtypes))]
        shape = [] if rng.random() < 0.2 else [size]
        made.append(tf.placeholder(dtype, shape))
        feeds[made[-1]] = draw(rng, dtype, shape)
    for _ in range(12):
        a, b, c = (made[int(i)] for i in rng.integers(max(0, len(made) - 6), len(made), 3))
        b, c = tf.cast(b, a.dtype), tf.cast(c, a.dtype)
        kind = rng.integers(4)
        if kind == 0:
            made.append(tf.where_v2(b < c, a, b))
        elif kind == 1:
            made.append(a * b + c)
        elif kind == 2:
            made.append(tf.cast(tf.logical_or(a > b, tf.equal(a, c)), dtypes[rng.integers(len(dtypes))]))
        else:
            made.append(tf.maximum(tf.abs(a), -b))
    wanted = made[-1] + tf.cast(tf.placeholder_with_default(np.zeros(size, np.float32), [size]), made[-1].dtype)
    fused, separate = run_both(wanted, feeds)
    np.testing.assert_array_equal(bits(fused), bits(separate))


def test_vector_that_chooses_rows_is_left_alone() -> None:
    rows, x = tf.placeholder(tf.bool, [30]), tf.placeholder(tf.float32, [30, 30])
    result = tf.where(rows, x + 1.0, x * 2.0) * 0.5
    feeds = {rows: np.arange(30) % 3 == 0, x: np.arange(900, dtype=np.float32).reshape(30, 30)}
    fused, separate = run_both(result, feeds)
    np.testing.assert_array_equal(fused, separate)
    expected = np.where(feeds[rows][:, None], feeds[x] + 1, feeds[x] * 2) * 0.5
    np.testing.assert_array_equal(fused, expected)


def test_sizes_that_do_not_fit_are_refused() -> None:
    x, y = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int32, [None])
    result = tf.cast(x * y + x, tf.float32) * 0.5
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="300"):
        sess.run(result, {x: np.ones(300, np.int32), y: np.ones(301, np.int32)})


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64], ids=lambda d: d.name)
def test_selections_pass_subnormal_numbers_on(dtype: tf.DType) -> None:
    x, y = tf.placeholder(dtype, [400]), tf.placeholder(dtype, [400])
    tiny = np.full(400, np.finfo(dtype.as_numpy_dtype).tiny / 4, dtype.as_numpy_dtype)
    assert_one_chain(tf.where_v2(x > y, x, y), {x: tiny, y: -tiny})


@pytest.mark.parametrize("op", [tf.nn.relu, tf.nn.relu6])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.bfloat16], ids=lambda d: d.name)
def test_rectifiers_take_the_sign_of_subnormal_numbers(dtype: tf.DType, op: Any) -> None:
    tiny = 1e-310 if dtype is tf.float64 else 1e-40
    x = tf.placeholder(dtype, [1003])
    given = np.resize([tiny, -tiny, np.nan, -np.nan, -0.0, np.inf, -np.inf, 7.0, -7.0], 1003).astype(
        dtype.as_numpy_dtype
    )
    wide = given.astype(np.float64)
    wanted = np.minimum(np.where(np.signbit(given) & ~np.isnan(given), 0.0, wide), 6.0 if op is tf.nn.relu6 else np.inf)
    with tf.Session() as sess:
        np.testing.assert_array_equal(sess.run(op(x), {x: given}).astype(np.float64), wanted)
        np.testing.assert_array_equal(sess.run(op(x[:9]), {x: given}).astype(np.float64), wanted[:9])
        np.testing.assert_array_equal(sess.run(-op(-tf.negative(x)), {x: given}).astype(np.float64), -wanted)
    assert_one_chain(-op(-tf.abs(-x)) + op(x), {x: given})
