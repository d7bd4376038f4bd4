"""The machine code of fused chains computes the same bits as the ops one by one."""

import concurrent.futures
import gc
import os
import platform
import subprocess
import sys

import numpy as np
import pytest
from tests.passes.test_fusion import ops_after, run_both

import thalweg as tf
from thalweg._native import core
from thalweg.graph.apply import apply
from thalweg.graph.definitions.op_registry import all_ops

SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, -1e-40, 3e38, -3e38, 100.0, -100.0, 1.0, -1.0]


def values(rng: np.random.Generator, size: int) -> np.ndarray:
    found = rng.standard_normal(size).astype(np.float32) * np.float32(3)
    found[rng.integers(0, size, len(SPECIAL))] = SPECIAL
    return found


def fusible(operands: int) -> list[str]:
    return sorted(op.name for op in all_ops() if core.operands_of_rows(op.name) == operands)


def assert_same_bits(fused: np.ndarray, separate: np.ndarray) -> None:
    assert fused.shape == separate.shape
    nan = np.isnan(fused)
    np.testing.assert_array_equal(nan, np.isnan(separate))
    np.testing.assert_array_equal(fused.view(np.int32)[~nan], separate.view(np.int32)[~nan])


@pytest.mark.parametrize("op", fusible(1) + fusible(2))
def test_every_op_with_its_neighbours(op: str) -> None:
    rng = np.random.default_rng(7)
    x, y = (tf.placeholder(tf.float32, [None]) for _ in range(2))
    kept = tf.placeholder(tf.float32, [])
    # Values wait in registers and in the frame while the op is computed.
    before, scaled = x * kept, y - x
    result = apply(op, *[before, scaled][: core.operands_of_rows(op)])
    total = (result + before) * scaled - result
    assert ops_after([total], [x, y, kept]).count("_FusedElementwise") == 1
    feeds = {x: values(rng, 2051), y: values(rng, 2051), kept: np.float32(0.75)}
    assert_same_bits(*run_both(total, feeds))


@pytest.mark.parametrize("seed", range(30))
def test_random_chains(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.choice([1024, 1025, 1031, 4096, 70_001]))
    inputs = [tf.placeholder(tf.float32, [] if rng.random() < 0.3 else [size]) for _ in range(rng.integers(1, 7))]
    inputs.append(tf.placeholder(tf.float32, [size]))
    feeds = {t: values(rng, size) if t.shape.rank else np.float32(rng.standard_normal()) for t in inputs}
    plain = ["AddV2", "Sub", "Mul", "Sqrt", "Abs", "Neg", "Square", "Relu", "Tanh", "Sigmoid", "Maximum"]
    ops = plain if seed % 2 else plain + fusible(1) + fusible(2)
    made = list(inputs)
    for _ in range(rng.integers(2, 28)):
        op = str(rng.choice(ops))
        chosen = rng.integers(max(0, len(made) - 12), len(made), core.operands_of_rows(op))
        operands = [made[i] for i in chosen]
        if op.endswith("Grad") and operands[0].shape.rank != operands[1].shape.rank:
            continue  # These take no scalar beside an array.
        made.append(apply(op, *operands))
    # All values are combined at the end: many are alive at once.
    total = made[-1]
    for value in made[-9:-1]:
        total = total + value
    assert_same_bits(*run_both(total + inputs[-1], feeds))


def test_more_values_than_registers() -> None:
    x = tf.placeholder(tf.float32, [None])
    alive = [x * float(i) for i in range(1, 15)] + [tf.abs(x)]
    total = alive[0]
    for i, value in enumerate(alive[1:]):
        total = tf.tanh(total) * value if i == 7 else total - value
    assert ops_after([total], [x]).count("_FusedElementwise") == 1
    assert_same_bits(*run_both(total, {x: values(np.random.default_rng(3), 3000)}))


def executable_bytes() -> int:
    """How many bytes of memory hold code that comes from no file. Sessions of earlier tests are collected first.

    Regions are not counted: the system joins those that happen to lie side by side.
    """
    gc.collect()
    total = 0
    with open("/proc/self/maps") as maps:
        for line in maps:
            addresses, permissions, _, _, inode = line.split()[:5]
            if permissions == "r-xp" and inode == "0":
                first, last = (int(address, 16) for address in addresses.split("-"))
                total += last - first
    return total


def test_more_arrays_than_registers_for_their_addresses() -> None:
    inputs = [tf.placeholder(tf.float32, [None]) for _ in range(20)]
    total = tf.tanh(inputs[0])
    for i, x in enumerate(inputs[1:]):
        total = [total - x, x * total, tf.maximum(x, total) + x][i % 3]
    assert ops_after([total], inputs).count("_FusedElementwise") == 1
    rng = np.random.default_rng(4)
    assert_same_bits(*run_both(total, {x: values(rng, 3001) for x in inputs}))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="code is made for x86-64 only")
def test_code_is_made_and_goes_with_the_session() -> None:
    x = tf.placeholder(tf.float32, [None])
    before = executable_bytes()
    with tf.Session() as session:
        session.run(tf.tanh(x * 2.0) - x, {x: np.ones(5000, np.float32)})
        assert executable_bytes() > before
    del session
    assert executable_bytes() == before


WITHOUT_NEW_CODE = """
import ctypes, sys
import numpy as np
import thalweg as tf
x = tf.placeholder(tf.float32, [None])
session = tf.Session()
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) != 0:  # PR_SET_MDWE: memory that was writable never becomes executable
    sys.exit(77)
values = np.linspace(-3, 3, 5000).astype(np.float32)
result = session.run(tf.tanh(x * 2.0) - x, {x: values})
np.testing.assert_allclose(result, np.tanh(2 * values) - values, atol=1e-6)
"""


def test_chains_run_where_the_system_allows_no_new_code() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_NEW_CODE], capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip("this kernel cannot forbid it")
    assert done.returncode == 0, done.stderr


BITS_OF_FUNCTIONS = """
import hashlib

import numpy as np

import thalweg as tf

digest = hashlib.sha256()
for dtype in (np.float32, np.float64, np.float16):
    x = tf.placeholder(dtype, [None])
    values = np.random.default_rng(3).standard_normal(20_011) * 9
    values[:9] = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 6e4, -6e4]
    chain = tf.tanh(x) * tf.exp(-x) + tf.where(x > 1, tf.atan(x), x * x)
    with tf.Session() as session:
        for found in session.run([tf.sin(x), tf.cos(x), tf.tan(x), tf.erfc(x), tf.sqrt(x), chain], {x: values}):
            digest.update(np.where(np.isnan(found), 0, found).tobytes() + np.isnan(found).tobytes())
print(digest.hexdigest())
"""


def test_functions_and_chains_have_the_same_bits_without_avx512() -> None:
    digests = set()
    for environment in ({}, {"ONEDNN_MAX_CPU_ISA": "AVX2"}):
        done = subprocess.run(
            [sys.executable, "-c", BITS_OF_FUNCTIONS],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        digests.add(done.stdout)
    assert len(digests) == 1


def test_scalars_keep_the_sign_of_zero() -> None:
    x, scalar = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [])
    result = tf.abs(x) * tf.negative(scalar) / scalar
    fused, separate = run_both(result, {x: np.ones(2000, np.float32), scalar: np.float32(-0.0)})
    assert_same_bits(fused, separate)


def test_several_threads_run_one_chain() -> None:
    x = tf.placeholder(tf.float32, [None])
    y = tf.tanh(x * 0.5) + tf.sqrt(tf.abs(x))
    with tf.Session() as session, concurrent.futures.ThreadPoolExecutor(4) as threads:
        arrays = [values(np.random.default_rng(i), 5000) for i in range(32)]
        together = list(threads.map(lambda array: session.run(y, {x: array}), arrays))
        for array, result in zip(arrays, together, strict=True):
            assert_same_bits(result, session.run(y, {x: array}))


BROADCAST = [
    [(40, 100), (100,), (40, 1), ()],
    [(40, 100), (1, 100), (40, 1)],
    [(33, 65), (65,), (33, 65)],
    [(4, 10, 70), (70,), (4, 10, 1), (1, 1, 1)],
    [(4, 10, 70), (10, 70), (4, 1, 1)],
    [(100,), (40, 1)],  # an outer product
    [(4, 1, 70), (1, 10, 70)],  # neither rows nor columns: op by op
    [(300, 5), (5,)],  # rows too short
    [(0, 100), (100,)],
]


@pytest.mark.parametrize("shapes", BROADCAST, ids=str)
@pytest.mark.parametrize("reduced", [None, -1, 0])
def test_rows_and_columns_are_broadcast(shapes: list[tuple[int, ...]], reduced: int | None) -> None:
    rng = np.random.default_rng(11)
    inputs = [tf.placeholder(tf.float32, shape) for shape in shapes]
    total = inputs[0]
    for x in inputs[1:]:
        total = tf.tanh(total * x) + tf.square(x) * 0.5 - total
    total = tf.nn.relu(total) * inputs[-1] + tf.exp(inputs[0])
    if reduced is not None:
        total = tf.reduce_sum(total, reduced)
    feeds = {x: rng.standard_normal(shape).astype(np.float32) for x, shape in zip(inputs, shapes, strict=True)}
    assert "_FusedElementwise" in ops_after([total], inputs)
    assert_same_bits(*run_both(total, feeds))


def test_broadcast_operands_that_do_not_fit_are_an_error_of_their_op() -> None:
    x, y = tf.placeholder(tf.float32, [None, None]), tf.placeholder(tf.float32, [None])
    total = tf.tanh(tf.multiply(x, y, name="scaled")) + 1.0
    with tf.Session() as session:
        session.run(total, {x: np.ones([20, 100]), y: np.ones(100)})
        with pytest.raises(tf.errors.InvalidArgumentError, match="Incompatible shapes") as error:
            session.run(total, {x: np.ones([20, 100]), y: np.ones(99)})
        assert error.value.op.name == "scaled"
