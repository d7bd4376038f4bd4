"""Loops over scalars and small tensors run as machine code, with the bits, errors and interruptions of their nodes."""

from __future__ import annotations

import mmap
import platform
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.passes.test_elementwise_code import executable_bytes
from tests.passes.test_lower_loops import loop_ops, lowered, plain_session

import thalweg as tf
from thalweg.functions.graph_function import trace
from thalweg.graph.apply import apply

TRIPS = 1500  # More than a loop runs before it is compiled.
FLOATS = [tf.float32, tf.float64]
NUMBERS = [*FLOATS, tf.int32, tf.int64]
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, 1.0, -1.0, 3e38]


def counted(body: Callable[..., Any], start: Any, trips: int = TRIPS) -> Any:
    """Applies `body` to variables so many times."""
    return tf.while_loop(lambda i, *_: i < trips, lambda i, *v: (i + 1, *body(*v)), (0, *start))[1:]


def assert_same_bits(actual: Any, expected: Any) -> None:
    for got, want in zip(tf.nest.flatten(actual), tf.nest.flatten(expected), strict=True):
        got, want = np.asarray(got), np.asarray(want)
        assert got.dtype == want.dtype and got.shape == want.shape
        nan = got != got
        np.testing.assert_array_equal(nan, want != want)
        integers = f"i{got.dtype.itemsize}"
        np.testing.assert_array_equal(got[~nan].view(integers), want[~nan].view(integers))


def check_same_bits(fetches: Any, feeds: Any = None) -> Any:
    """Runs with frames and tokens, and compiled, twice."""
    with plain_session() as slow, tf.Session() as fast:
        expected = slow.run(fetches, feeds)
        for _ in range(2):
            assert_same_bits(fast.run(fetches, feeds), expected)
    return expected


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (8,), (2, 5), (17,)])
def test_arithmetic_on_every_type_and_shape(dtype: Any, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    scale = 3.0 if dtype.is_floating else 1e6
    start = [tf.constant((rng.standard_normal(shape) * scale).astype(dtype.as_numpy_dtype)) for _ in range(2)]
    factor = tf.constant(1.0009 if dtype.is_floating else 3, dtype)

    def body(x: Any, y: Any) -> Any:
        return tf.maximum(y - x, tf.abs(x)) * factor, tf.where(tf.less(x, y), x + factor, -y)

    check_same_bits(counted(body, start))


@pytest.mark.parametrize("op", [
    tf.sqrt, tf.exp, tf.log, tf.tanh, tf.sigmoid, tf.sin, tf.cos, tf.atan, tf.floor, tf.round, tf.sign, tf.square,
    tf.nn.relu, tf.nn.elu, tf.nn.softplus, tf.math.erf, tf.math.rsqrt, tf.math.reciprocal, tf.math.expm1, tf.math.log1p,
    tf.math.lgamma,
])  # fmt: skip
@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_with_instructions_and_without(op: Any, dtype: Any) -> None:
    check_same_bits(
        counted(lambda x, y: (op(x) * 1.25 + y, y * 0.999), (tf.constant(0.7, dtype), tf.constant(1.5, dtype)))
    )
    pair = np.array([0.3, 2.5, -1.0], dtype.as_numpy_dtype)
    check_same_bits(counted(lambda x, y: (op(x) * 1.25 + y, y * 0.999), (tf.constant(pair), tf.constant(1.5, dtype))))


@pytest.mark.parametrize("seed", range(40))
def test_random_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = NUMBERS[seed % 4]
    size = [(), (), (3,), (9,)][seed // 4 % 4]
    unary = [tf.negative, tf.abs, tf.square] + ([tf.tanh, tf.sigmoid, tf.floor] if dtype.is_floating else [])
    binary = [tf.add, tf.subtract, tf.multiply, tf.maximum, tf.minimum]

    def number() -> Any:
        value = rng.choice(SPECIAL) if dtype.is_floating and rng.random() < 0.1 else rng.standard_normal() * 4
        return dtype.as_numpy_dtype(value)

    count = int(rng.integers(1, 14))
    start = [tf.constant(np.full(size if rng.random() < 0.7 else (), number())) for _ in range(count)]

    def body(*variables: Any) -> Any:
        state = np.random.default_rng(seed)
        made = [*variables, tf.constant(number()), tf.constant(number())]
        for _ in range(int(state.integers(2, 30))):
            a, b = (made[i] for i in state.integers(0, len(made), 2))
            kind = state.integers(0, 10)
            if kind < 5:
                made.append(binary[kind](a, b))
            elif kind < 8:
                made.append(unary[state.integers(0, len(unary))](a))
            else:
                # Values keep their shapes.
                made.append(tf.where(a < a * a, a, a + a) if kind == 8 else tf.cast(tf.not_equal(a, a + a), dtype))
        # Every variable gets the last value of its own shape.
        return [next(m for m in reversed(made) if m.shape.as_list() == v.shape.as_list()) for v in variables]

    check_same_bits(counted(body, start, 700))


@pytest.mark.parametrize("source", [*NUMBERS, tf.bool])
@pytest.mark.parametrize("target", [*NUMBERS, tf.bool])
def test_casts(source: Any, target: Any) -> None:
    start = [tf.constant(0.0, tf.float64), tf.cast(tf.constant(1), target)]

    def body(x: Any, y: Any) -> Any:
        return x * 1.3 - 17.7, tf.cast(tf.cast(x, source), target)

    check_same_bits(counted(body, start, 600))


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
@pytest.mark.parametrize("op", [tf.floordiv, tf.floormod, tf.truncatediv, tf.truncatemod])
def test_integer_division(dtype: Any, op: Any) -> None:
    low = dtype.min

    def body(x: Any, y: Any, total: Any) -> Any:
        divisor = tf.where(tf.equal(y, 0), tf.constant(-1, dtype), y)
        return (
            x * 31 + 7,
            tf.floormod(y * 5 + 3, 23) - 11,
            total * 3 + op(x, divisor) + op(tf.constant(low, dtype), divisor),
        )

    check_same_bits(counted(body, [tf.constant(v, dtype) for v in (1, 2, 0)]))


def test_logic() -> None:
    def body(a: Any, b: Any, x: Any) -> Any:
        both = tf.logical_and(a, tf.logical_not(b))
        return tf.logical_or(both, x > 3), tf.logical_xor(a, b), tf.where(both, x - 5, x + 2)

    check_same_bits(counted(body, (True, False, 1)))
    check_same_bits(counted(body, (np.array([True, False, True]), np.array([False, True, True]), np.arange(3))))


def test_more_variables_than_registers_change_places() -> None:
    def body(*v: Any) -> Any:
        return [*v[1:], v[0] * 1.01 - v[5]]

    check_same_bits(counted(body, [tf.constant(float(i)) for i in range(25)]))
    check_same_bits(counted(lambda a, b, c: (c, a, b), (1.0, 2.0, 3.0), 1501))


def test_a_division_by_zero_after_many_iterations_names_the_node() -> None:
    loop = tf.while_loop(lambda i, x: i > -5, lambda i, x: (i - 1, tf.floordiv(x, i, name="divide")), (5000, 7))
    with tf.Session() as session:
        for _ in range(2):
            with pytest.raises(tf.errors.InvalidArgumentError, match="division by zero") as error:
                session.run(loop)
            assert error.value.op.name.endswith("divide")


def test_a_long_loop_can_be_cancelled_and_can_time_out() -> None:
    n = tf.placeholder(tf.int64, [])
    loop = tf.while_loop(lambda i: i < n, lambda i: i + 1, [tf.constant(0, tf.int64)])
    with tf.Session() as session:
        assert session.run(loop, {n: 5000}) == 5000
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(loop, {n: 1 << 60}, options=tf.RunOptions(timeout_in_ms=100))
        failures: list[BaseException] = []

        def run() -> None:
            try:
                session.run(loop, {n: 1 << 60})
            except tf.errors.OpError as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        time.sleep(0.1)
        session.close()
        thread.join(20)
        assert not thread.is_alive() and isinstance(failures[0], tf.errors.CancelledError)


def test_shapes_that_grow_are_left_to_the_nodes() -> None:
    def body(i: Any, x: Any) -> Any:
        return i + 1, tf.concat([x, x[:1] + 1.0], 0)

    loop = tf.while_loop(lambda i, x: i < 600, body, (0, tf.constant([1.0])),
                         shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])))  # fmt: skip
    assert check_same_bits(loop)[1].shape == (601,)


def test_operands_of_other_shapes_get_their_own_code() -> None:
    x = tf.placeholder(tf.float32, None)
    (loop,) = counted(lambda y: [y * 0.99 + 1.0], [x])
    with tf.Session() as session:
        for shape in ((), (3,), (2, 2), (5,), (6,), (7,), (100,), ()):
            value = np.full(shape, 2.0, np.float32)
            expected = value
            for _ in range(TRIPS):
                expected = expected * np.float32(0.99) + np.float32(1.0)
            np.testing.assert_array_equal(session.run(loop, {x: value}), expected)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="code is made for x86-64 only")
def test_code_is_made_for_long_loops_and_goes_with_the_session() -> None:
    n = tf.placeholder(tf.int32, [])
    loops = [
        tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 2.0), (0, 1.0)),
        tf.while_loop(
            lambda i, x: i < n, lambda i, x: (i + 1, tf.cond(x < 9.0, lambda: x + 1.0, lambda: -x)), (0, 1.0)
        ),
    ]
    before = executable_bytes()
    with tf.Session() as session:
        session.run(loops, {n: 10})
        assert executable_bytes() == before
        session.run(loops, {n: 1000})
        assert executable_bytes() >= before + 2 * mmap.PAGESIZE  # one page each, or more
    del session
    assert executable_bytes() == before


def test_a_trace_shows_the_nodes_of_every_iteration() -> None:
    (loop,) = counted(lambda y: [tf.multiply(y, 2.0, name="double")], [1.0], 300)
    with tf.Session() as session:
        session.run(loop)
        session.run(loop)
        metadata = tf.RunMetadata()
        session.run(loop, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
        names = [n.node_name for d in metadata.step_stats.dev_stats for n in d.node_stats]
        assert sum("double" in name for name in names) == 300


def test_gradients_of_loops_keep_their_bits() -> None:
    x = tf.placeholder(tf.float32, [])
    (y,) = counted(lambda y: [tf.tanh(y * 1.1) + x], [x], 400)
    check_same_bits([y, tf.gradients(y, x)[0]], {x: np.float32(0.3)})


@pytest.mark.parametrize("op", ["While", "StatelessWhile"])
def test_functional_loops(op: str) -> None:
    types = [tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.float32), tf.TensorSpec([None], tf.float32)]
    condition = trace(lambda i, x, v: i < 2000, types)
    body = trace(lambda i, x, v: (i + 1, tf.sigmoid(x) * 1.5 - 0.25, v * 0.999 + x), types)
    loop = apply(op, [0, 0.5, np.array([1.0, 2.0, 3.0], np.float32)], cond=condition, body=body)
    check_same_bits(loop)
    before = executable_bytes()
    with tf.Session() as session:
        session.run(loop)
        assert executable_bytes() > before or platform.machine() != "x86_64"


def test_functional_loops_with_resources_and_errors() -> None:
    v = tf.Variable(0)
    types = [tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.resource)]

    def body(i: Any, handle: Any) -> Any:
        with tf.control_dependencies([apply("AssignAddVariableOp", handle, tf.constant(2), dtype=tf.int32)]):
            return tf.floordiv(i, 1) - 1, handle

    loop = apply("While", [700, v.handle], cond=trace(lambda i, h: i > 0, types), body=trace(body, types))
    numbers = [types[0]]
    fails = apply(
        "While",
        [1600],
        cond=trace(lambda i: i > 0, numbers),
        body=trace(lambda i: i - 1 + 0 * (7 // (i - 900)), numbers),
    )
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run(loop)[0] == 0
        assert session.run(v) == 1400
        with pytest.raises(tf.errors.InvalidArgumentError, match="division by zero"):
            session.run(fails)


class TestConditionals:
    """Loops with `cond` inside."""

    def check(self, body: Callable[..., Any], start: Any, feeds: Any = None, is_lowered: bool = True) -> Any:
        loop = counted(body, start)
        assert (loop_ops(lowered(*loop)) == ["_Loop"]) == is_lowered
        return check_same_bits(loop, feeds)

    def test_collatz(self) -> None:
        n = tf.constant(837799, tf.int64)
        loop = tf.while_loop(
            lambda n, k: n > 1,
            lambda n, k: (tf.cond(tf.equal(n % 2, 0), lambda: n // 2, lambda: 3 * n + 1), k + 1),
            (n, 0),
        )
        assert check_same_bits(loop)[1] == 524

    def test_branches_return_constants_captures_and_computed_values(self) -> None:
        def body(x: Any, y: Any) -> Any:
            a, b = tf.cond(x < 5.0, lambda: (y, tf.constant(2.0)), lambda: (x - 10.0, x))
            return a + 1.5, b

        self.check(body, (1.0, 0.5))

    def test_nested(self) -> None:
        def body(x: Any, k: Any) -> Any:
            def small() -> Any:
                return tf.cond(
                    tf.equal(k % 3, 0), lambda: x * 2.0, lambda: tf.cond(x < 0.0, lambda: -x, lambda: x + 1.0)
                )

            return tf.cond(x < 8.0, small, lambda: x - 20.0), k + 1

        self.check(body, (1.0, 0))

    def test_a_division_by_zero_in_the_other_branch_does_not_happen(self) -> None:
        def body(k: Any, total: Any) -> Any:
            divisor = k % 4
            return k + 1, total + tf.cond(tf.equal(divisor, 0), lambda: 1, lambda: 100 // divisor)

        self.check(body, (0, 0))

    def test_a_division_by_zero_in_the_taken_branch_is_an_error(self) -> None:
        loop = counted(lambda k: [tf.cond(k < 1000, lambda: k + 1, lambda: k // (k - 1000))], [0])
        with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="division by zero"):
            session.run(loop)

    def test_nodes_without_code_run_in_the_taken_branch_only(self) -> None:
        calls = tf.Variable(0)

        def body(k: Any, m: Any) -> Any:
            def product() -> Any:
                with tf.control_dependencies([calls.assign_add(1)]):
                    return tf.matmul(m, m) * 0.5

            return k + 1, tf.cond(tf.equal(k % 3, 0), product, lambda: m + 0.125)

        loop = tf.while_loop(lambda k, m: k < 30, body, (0, tf.constant(np.eye(3, dtype=np.float32))))
        with tf.Session() as session:
            session.run(calls.initializer)
            session.run(loop)
            assert session.run(calls) == 10
        with plain_session() as slow, tf.Session() as fast:
            slow.run(calls.initializer)
            fast.run(calls.initializer)
            assert_same_bits(fast.run(loop), slow.run(loop))

    def test_gradients(self) -> None:
        x = tf.placeholder(tf.float32, [])
        (y,) = counted(lambda y: [tf.cond(y > 1.0, lambda: y * 0.4, lambda: tf.tanh(y) + x)], [x], 300)
        check_same_bits([y, tf.gradients(y, x)[0]], {x: np.float32(0.7)})
