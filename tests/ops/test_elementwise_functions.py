"""Element-wise functions beyond their ops: operators and their node names, Python's division, casts, norms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import thalweg as tf

OPERATORS: dict[str, tuple[Callable[[Any, Any, Any, Any], Any], list[tuple[str, str]]]] = {
    "x / y": (lambda x, y, i, b: x / y, [("truediv", "RealDiv")]),
    "i / i": (
        lambda x, y, i, b: i / i,
        [("truediv/Cast", "Cast"), ("truediv/Cast_1", "Cast"), ("truediv", "RealDiv")],
    ),
    "1 / x": (lambda x, y, i, b: 1 / x, [("truediv/x", "Const"), ("truediv", "RealDiv")]),
    "x // y": (lambda x, y, i, b: x // y, [("floordiv", "FloorDiv")]),
    "x % y": (lambda x, y, i, b: x % y, [("mod", "FloorMod")]),
    "x ** 2": (lambda x, y, i, b: x**2, [("pow/y", "Const"), ("pow", "Pow")]),
    "b & b": (lambda x, y, i, b: b & b, [("and", "LogicalAnd")]),
    "i & i": (lambda x, y, i, b: i & i, [("and/BitwiseAnd", "BitwiseAnd")]),
    "b | b": (lambda x, y, i, b: b | b, [("or", "LogicalOr")]),
    "b ^ b": (
        lambda x, y, i, b: b ^ b,
        [("xor/LogicalOr", "LogicalOr"), ("xor/LogicalAnd", "LogicalAnd"), ("xor/LogicalNot", "LogicalNot"),
         ("xor", "LogicalAnd")],
    ),
    "~b": (lambda x, y, i, b: ~b, [("LogicalNot", "LogicalNot")]),
    "~i": (lambda x, y, i, b: ~i, [("Invert", "Invert")]),
    "abs(x)": (lambda x, y, i, b: abs(x), [("Abs", "Abs")]),
    "-x": (lambda x, y, i, b: -x, [("Neg", "Neg")]),
    "x < y": (lambda x, y, i, b: x < y, [("Less", "Less")]),
    "1.0 > x": (lambda x, y, i, b: 1.0 > x, [("Less/y", "Const"), ("Less", "Less")]),  # noqa: SIM300
    "2.0 - x": (lambda x, y, i, b: 2.0 - x, [("sub/x", "Const"), ("sub", "Sub")]),
}  # fmt: skip


@pytest.mark.parametrize("text", OPERATORS)
def test_operators_give_nodes_the_names_that_tensorflow_gives(text: str) -> None:
    call, expected = OPERATORS[text]
    with tf.Graph().as_default() as graph:
        x, y = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.float32, [2])
        i, b = tf.placeholder(tf.int32, [2]), tf.placeholder(tf.bool, [2])
        call(x, y, i, b)
        assert [(op.name, op.type) for op in graph.get_operations()[4:]] == expected


def test_equality_of_tensors_is_identity() -> None:
    with tf.Graph().as_default():
        x = tf.constant(1.0)
        assert (x == x) is True
        assert (x == tf.constant(1.0)) is False


def run(build: Callable[[], Any]) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(build())


def test_division_of_integers_follows_python() -> None:
    a, b = np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)
    true, floor, mod, div = run(
        lambda: [tf.constant(a) / b, tf.constant(a) // b, tf.constant(a) % b, tf.div(tf.constant(a), b)]
    )
    np.testing.assert_array_equal(true, a / b)
    assert true.dtype == np.float64
    np.testing.assert_array_equal(floor, a // b)
    np.testing.assert_array_equal(mod, a % b)
    np.testing.assert_array_equal(div, a // b)
    assert run(lambda: tf.constant([1], tf.int8) / 2).dtype == np.float32


def test_true_division_of_different_types_is_refused() -> None:
    with tf.Graph().as_default(), pytest.raises(TypeError, match="float32"):
        tf.truediv(tf.constant(1.0), tf.constant(1))


def test_cast_to_the_same_type_adds_no_node() -> None:
    with tf.Graph().as_default():
        x = tf.constant(1.0)
        assert tf.cast(x, tf.float32) is x
        assert tf.round(tf.constant(1)).op.type == "Const"
        assert tf.real(x) is x
        assert tf.conj(x) is x


def test_saturate_cast_limits_to_the_range() -> None:
    values = np.array([1e12, -1e12, 300.0, -5.0], np.float32)
    as_int, as_byte = run(lambda: [tf.saturate_cast(values, tf.int32), tf.saturate_cast(values, tf.uint8)])
    np.testing.assert_array_equal(as_byte, [255, 0, 255, 0])
    assert as_int[0] >= 2**31 - 256
    assert as_int[1] == -(2**31)
    np.testing.assert_array_equal(as_int[2:], [300, -5])


def test_clip_by_norm_limits_the_norm_and_leaves_small_tensors() -> None:
    big, small = np.array([[3.0, 4.0]], np.float32), np.array([[0.3, 0.4]], np.float32)
    got = run(lambda: [tf.clip_by_norm(big, 1.0), tf.clip_by_norm(small, 1.0), tf.clip_by_norm(big, 2.0, axes=[0])])
    np.testing.assert_allclose(got[0], big / 5, rtol=1e-6)
    np.testing.assert_allclose(got[1], small, rtol=1e-6)
    np.testing.assert_allclose(got[2], [[2.0, 2.0]], rtol=1e-6)


def test_gradient_of_clip_by_norm_is_finite_at_zero() -> None:
    def build() -> Any:
        x = tf.zeros([3])
        return tf.gradients(tf.clip_by_norm(x, 1.0), x)[0]

    np.testing.assert_array_equal(run(build), [1.0, 1.0, 1.0])


def test_clip_by_average_norm() -> None:
    x = np.array([3.0, 4.0], np.float32)  # Its norm per element is 2.5.
    np.testing.assert_allclose(run(lambda: tf.clip_by_average_norm(x, 0.5)), x / 5, rtol=1e-6)
    np.testing.assert_allclose(run(lambda: tf.clip_by_average_norm(x, 5.0)), x, rtol=1e-6)


def test_clip_by_global_norm_scales_all_tensors_alike() -> None:
    a, b = np.array([3.0], np.float32), np.array([[4.0, 12.0]], np.float32)

    def build(limit: float) -> Any:
        clipped, norm = tf.clip_by_global_norm([tf.constant(a), None, tf.constant(b)], limit)
        assert clipped[1] is None
        return [clipped[0], clipped[2], norm]

    first, second, norm = run(lambda: build(6.5))
    np.testing.assert_allclose([norm], [13.0], rtol=1e-6)
    np.testing.assert_allclose(first, a / 2, rtol=1e-6)
    np.testing.assert_allclose(second, b / 2, rtol=1e-6)
    np.testing.assert_allclose(run(lambda: build(20.0))[1], b, rtol=1e-6)


def test_clip_by_global_norm_of_an_infinite_norm_is_nan() -> None:
    clipped = run(lambda: tf.clip_by_global_norm([tf.constant([np.inf, 1.0])], 1.0)[0][0])
    assert np.isnan(clipped).all()


def test_clip_by_global_norm_keeps_slices() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        slices = tf.IndexedSlices(tf.constant([[3.0, 4.0]]), tf.constant([7]))
        (clipped,), _ = tf.clip_by_global_norm([slices], 1.0)
        assert clipped.indices is slices.indices
        np.testing.assert_allclose(session.run(clipped.values), [[0.6, 0.8]], rtol=1e-6)


def test_range_takes_the_widest_type_of_its_arguments() -> None:
    with tf.Graph().as_default():
        assert tf.range(5).dtype == tf.int32
        assert tf.range(0, 5, 2.0).dtype == tf.float32
        assert tf.range(tf.constant(5, tf.int64)).dtype == tf.int64
        assert tf.range(5, dtype=tf.float64).dtype == tf.float64
        assert tf.range(3, 18, 4).shape.as_list() == [4]


def test_where_with_one_argument_gives_coordinates() -> None:
    np.testing.assert_array_equal(run(lambda: tf.where([[True, False], [True, True]])), [[0, 0], [1, 0], [1, 1]])
    with tf.Graph().as_default(), pytest.raises(ValueError, match="both"):
        tf.where([True], [1])


def test_losses_require_named_arguments() -> None:
    with tf.Graph().as_default(), pytest.raises(ValueError, match="named arguments"):
        tf.nn.softmax_cross_entropy_with_logits([1.0], [1.0])


def test_swish_takes_a_slope() -> None:
    x = np.array([-1.0, 2.0], np.float32)
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(tf.nn.silu(x)), x / (1 + np.exp(-x)), rtol=1e-6)
        np.testing.assert_allclose(session.run(tf.nn.swish(x, beta=2.0)), x / (1 + np.exp(-2 * x)), rtol=1e-6)


def test_softmax_along_an_axis_that_is_not_there() -> None:
    for function in (tf.nn.softmax, tf.nn.log_softmax):
        with pytest.raises(tf.errors.InvalidArgumentError, match="axis 4 is out of range"):
            function(tf.zeros([2, 3, 4]), axis=4)


def test_large_tensors_run_in_parallel_and_in_place_alike() -> None:
    x = np.linspace(-3, 3, 300_001).astype(np.float32)
    got = run(lambda: tf.exp(tf.tanh(tf.nn.relu(tf.constant(x) * 2.0)) + 1.0))
    np.testing.assert_allclose(got, np.exp(np.tanh(np.maximum(x * 2, 0)) + 1), rtol=1e-6)
    power = run(lambda: tf.pow(tf.constant(np.abs(x)), tf.constant(x)))
    np.testing.assert_allclose(power, np.abs(x).astype(np.float64) ** x, rtol=1e-6)


@pytest.mark.parametrize("base", [-2.0, -0.0, 0.0, np.inf, -np.inf, np.nan, 1.0, 1e-37])
def test_pow_of_special_numbers_is_that_of_numpy(base: float) -> None:
    exponents = np.array([0.0, -0.0, 1.0, 2.0, 3.0, -1.0, -3.0, 0.5, np.inf, -np.inf, np.nan, 1e30], np.float32)
    bases = np.full_like(exponents, base)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run(lambda: tf.pow(bases, exponents)), np.power(bases, exponents))


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16], ids=lambda d: d.name)
def test_signs_of_all_numbers_of_16_bits(dtype: tf.DType) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype.as_numpy_dtype)
    given = tf.placeholder(dtype, [1 << 16])
    with tf.Session() as session:
        negative = session.run(tf.negative(given), {given: x})
        magnitude = session.run(tf.abs(given), {given: x})
    np.testing.assert_array_equal(negative.view(np.uint16), x.view(np.uint16) ^ 0x8000)
    np.testing.assert_array_equal(magnitude.view(np.uint16), x.view(np.uint16) & 0x7FFF)
