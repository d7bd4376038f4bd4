"""Devices outside of the package: the example device, and plug-ins that break the rules."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.devices import plugins

ROOT = Path(__file__).parents[2]
COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")

TOY = "/device:TOY:0"


def build(source: Path, to: Path, *flags: str) -> Path:
    assert COMPILER is not None
    command = [COMPILER, "-std=c++17", "-O1", "-shared", "-fPIC", "-pthread", "-I", tf.sysconfig.get_include()]
    subprocess.run([*command, *flags, str(source), "-o", str(to)], check=True)
    return to


@pytest.fixture(scope="module", autouse=True)
def forget_plugins() -> Any:
    """Sessions of other tests do not have the devices of these tests."""
    yield
    plugins.loaded.clear()


@pytest.fixture(scope="module")
def toy(tmp_path_factory: Any) -> str:
    source = ROOT / "examples" / "devices" / "toy_device.cc"
    return tf.load_device_library(build(source, tmp_path_factory.mktemp("toy") / "libtoy.so"))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: Any) -> Any:
    path = build(Path(__file__).with_name("hostile_device.cc"), tmp_path_factory.mktemp("hostile") / "libhostile.so")
    assert tf.load_device_library(path) == "BAD"
    return ctypes.CDLL(str(path))


def config(**options: Any) -> Any:
    return tf.ConfigProto(device_count={"CPU": 2, "BAD": 0}, **options)


# The example device.


def test_the_devices_of_a_plugin_are_listed(toy: str) -> None:
    assert toy == "TOY"
    with tf.Session(config=config()) as sess:
        found = {device.name[-5:]: device for device in sess.list_devices()}
        assert list(found) == ["CPU:0", "CPU:1", "TOY:0", "TOY:1"]
        assert found["TOY:1"].device_type == "TOY"
        assert found["TOY:1"].memory_limit_bytes == 64 << 20
    with tf.Session(config=tf.ConfigProto(device_count={"TOY": 1, "BAD": 0})) as sess:
        assert len(sess.list_devices()) == 2


def test_the_page_about_devices_tells_the_truth(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "write_a_device.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    build(ROOT / "examples" / "devices" / "toy_device.cc", tmp_path / "libtoy_device.so")
    environment = {**os.environ, "PYTHONPATH": str(Path(tf.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == re.search(r"print\(.*#\s*(.*)", code)[1]  # type: ignore[index]


def test_advice_says_that_a_plugins_time_is_not_known(toy: str, capsys: Any) -> None:
    with tf.device(TOY):
        y = tf.matmul(tf.placeholder_with_default(np.ones((2, 2), np.float32), [2, 2]), tf.ones([2, 2]))
    metadata = tf.RunMetadata()
    with tf.Session(config=config(allow_soft_placement=True)) as sess:
        sess.run(y, None, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata)
    check = "AcceleratorUtilizationChecker"
    (report,) = tf.profiler.advise(tf.get_default_graph(), metadata, {check: {}}).checkers[check].reports
    assert TOY in report
    assert "not known" in report


def test_loading_twice_is_loading_once(toy: str) -> None:
    path = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libtoy.so" in line)
    assert tf.load_device_library(path) == toy


def test_a_plugin_computes_the_results_of_the_host(toy: str) -> None:
    rng = np.random.default_rng(1)
    x = tf.placeholder(tf.float32, [None, 5])
    w1, w2 = (tf.constant(rng.normal(size=shape), tf.float32) for shape in ([5, 4], [3, 4]))

    def net() -> Any:
        hidden = tf.nn.relu(tf.matmul(x, w1) * 2.0 - 0.5)
        return tf.matmul(hidden, w2, transpose_b=True) + 1.0

    with tf.device(TOY):
        there = net()
    here = net()
    with tf.Session(config=config()) as sess:
        for batch in (1, 7, 0):
            value = rng.normal(size=[batch, 5])
            got, want = sess.run([there, here], {x: value})
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
            assert got.shape == (batch, 3)


def test_tensors_stay_there_between_its_kernels(toy: str) -> None:
    x = tf.placeholder(tf.float32, [4])
    with tf.device(TOY):
        y = x
        for _ in range(20):
            y = y + x
    run_metadata = tf.RunMetadata()
    with tf.Session(config=config()) as sess:
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        got = sess.run(y, {x: [1, 2, 3, 4]}, options, run_metadata)
    np.testing.assert_array_equal(got, [21, 42, 63, 84])
    nodes = {
        stats.device[-5:]: [node.node_name.rsplit("/", 1)[-1] for node in stats.node_stats]
        for stats in run_metadata.step_stats.dev_stats
    }
    assert sum("_recv" in name for name in nodes["TOY:0"]) == 1
    assert sum("_recv" in name for name in nodes["CPU:0"]) == 1


def test_numeric_checks_leave_its_memory_alone(toy: str) -> None:
    x = tf.placeholder(tf.float32, [4])
    with tf.device(TOY):
        y = x
        for _ in range(20):
            y = y * x
    z = tf.negative(y, name="here")
    metadata = tf.RunMetadata()
    with tf.Session(config=config()) as sess:
        options = tf.debugging.check_numerics_options()
        np.testing.assert_array_equal(sess.run(z, {x: [1, 1, -1, 2]}, options), [-1, -1, 1, -(2**21)])
        assert np.isinf(sess.run(z, {x: [1, 2, 3, 1e30]}, options, metadata)[3])
    # Values computed on the device are checked when they arrive at the host.
    assert "1 infinite of 4" in tf.debugging.non_finite_origins(metadata)[0].what


def test_steps_span_the_host_and_both_devices(toy: str) -> None:
    x = tf.placeholder(tf.float32, [3])
    with tf.device("/device:TOY:0"):
        a = x * 2.0
    with tf.device("/cpu:1"):
        b = tf.exp(a)
    with tf.device("/device:TOY:1"):
        c = a + tf.constant([1.0, 1.0, 1.0])
        d = b + c
    with tf.Session(config=config()) as sess:
        value = np.array([0.5, 1, 2], np.float32)
        np.testing.assert_allclose(sess.run(d, {x: value}), np.exp(2 * value) + 2 * value + 1, rtol=1e-6)


def test_partial_runs_feed_and_fetch_it(toy: str) -> None:
    a, b = (tf.placeholder(tf.float32, [2], name=name) for name in "ab")
    with tf.device(TOY):
        x = tf.nn.relu(a)
        y = x + b
    with tf.Session(config=config()) as session:
        handle = session.partial_run_setup([x, y], [a, b])
        assert session.partial_run(handle, x, {a: [-1.0, 2.0]}).tolist() == [0.0, 2.0]
        assert session.partial_run(handle, y, {b: [1.0, 1.0]}).tolist() == [1.0, 3.0]


def test_an_input_for_the_host_is_given_there(toy: str) -> None:
    x, shape = tf.placeholder(tf.float32, [6]), tf.placeholder(tf.int32, [None])
    with tf.device(TOY):
        fed = tf.reshape(x * 2.0, shape)
        constant = tf.reshape(x * 3.0, [2, -1])
    with tf.Session(config=config()) as sess:
        got = sess.run([fed, constant], {x: np.arange(6), shape: [3, 2]})
        np.testing.assert_array_equal(got[0], (np.arange(6) * 2).reshape(3, 2))
        np.testing.assert_array_equal(got[1], (np.arange(6) * 3).reshape(2, 3))
        with pytest.raises(tf.errors.InvalidArgumentError, match="6 elements"):
            sess.run(fed, {x: np.arange(6), shape: [4, 2]})


def test_conditionals_and_loops_reach_it(toy: str) -> None:
    x, flag = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.bool, [])
    step = tf.constant([1.0, 10.0])

    def body(i: Any, y: Any) -> Any:
        with tf.device(TOY):
            return i + 1, y + step * 2.0

    def branch(factor: float) -> Callable[[], Any]:
        def build_branch() -> Any:
            with tf.device(TOY):
                return x * factor

        return build_branch

    looped = tf.while_loop(lambda i, y: i < 5, body, [0, x])[1]
    chosen = tf.cond(flag, branch(2.0), branch(3.0))
    with tf.Session(config=config(allow_soft_placement=True)) as sess:
        np.testing.assert_array_equal(sess.run(looped, {x: [1, 2]}), [11, 102])
        np.testing.assert_array_equal(sess.run(chosen, {x: [1, 2], flag: True}), [2, 4])
        np.testing.assert_array_equal(sess.run(chosen, {x: [1, 2], flag: False}), [3, 6])


def test_gradients_and_training_use_it(toy: str) -> None:
    rng = np.random.default_rng(5)
    x, y = tf.placeholder(tf.float32, [16, 3]), tf.placeholder(tf.float32, [16, 1])
    w = tf.get_variable("w", [3, 1], initializer=tf.zeros_initializer(), use_resource=True)
    with tf.device(TOY):
        error = tf.matmul(x, w) - y
    loss = tf.reduce_mean(tf.square(error))
    train = tf.train.GradientDescentOptimizer(0.2).minimize(loss)
    truth = np.array([[1.0], [-2.0], [0.5]])
    with tf.Session(config=config(allow_soft_placement=True)) as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(150):
            value = rng.normal(size=[16, 3])
            sess.run(train, {x: value, y: value @ truth})
        np.testing.assert_allclose(sess.run(w), truth, atol=1e-3)


def test_ops_without_a_kernel_go_to_the_host_or_are_errors_that_name_op_and_device(toy: str) -> None:
    one, ones = tf.placeholder_with_default(1.0, []), tf.placeholder_with_default([1, 1], [2])
    with tf.device(TOY):
        root = tf.sqrt(tf.constant([1.0, 4.0]) * one, name="root")
        whole = tf.add(tf.constant([1, 2]), ones, name="whole")
    with tf.Session(config=config(allow_soft_placement=True)) as sess:
        np.testing.assert_array_equal(sess.run(root), [1, 2])
        np.testing.assert_array_equal(sess.run(whole), [2, 3])
    with tf.Session(config=config()) as sess:
        for fetch in (root, whole):
            with pytest.raises(tf.errors.InvalidArgumentError) as failure:
                sess.run(fetch)
            for part in (fetch.op.name, "TOY", "CPU:0"):
                assert part in str(failure.value)


def test_only_nodes_that_ask_for_a_plugin_go_there(toy: str) -> None:
    with tf.Session(config=config(log_device_placement=False)) as sess:
        compiled = sess._resolve(tf.constant(1.0) + tf.placeholder_with_default(1.0, []), None)[3].compiled
        assert compiled.num_parts == 1


def test_the_memory_of_a_plugin_is_accounted_limited_and_given_back(toy: str) -> None:
    x = tf.placeholder(tf.float32, [None])
    with tf.device(TOY):
        y = (x + 1.0) * (x - 1.0)
    limited = config()
    tf.experimental.set_memory_limit(limited, TOY, 1 << 20)
    with tf.Session(config=limited) as sess:
        sess.run(y, {x: np.ones(1000)})
        info = tf.experimental.get_memory_info(sess, TOY)
        assert info["limit"] == 1 << 20
        assert 3 * 4000 <= info["peak"] < 20 * 4000
        assert info["current"] <= 8  # the constants
        for _ in range(300):  # the device's thread must have released them when the step ends
            sess.run(y, {x: np.ones(1000)})
            assert tf.experimental.get_memory_info(sess, TOY)["current"] <= 8
        with pytest.raises(tf.errors.ResourceExhaustedError, match=r"TOY:0.*limit of 1048576"):
            sess.run(y, {x: np.ones(1 << 20)})
        np.testing.assert_array_equal(sess.run(y, {x: [3.0]}), [8])
        assert tf.experimental.get_memory_info(sess, TOY)["current"] <= 8
    with tf.Session(config=config()) as sess, pytest.raises(tf.errors.ResourceExhaustedError, match="TOY"):
        sess.run(y, {x: np.ones(20 << 20, np.float32)})


def test_errors_of_a_plugin_fail_the_step_and_leave_the_next_alone(toy: str) -> None:
    a, b, c = (
        tf.placeholder(tf.float32, [None, None]),
        tf.placeholder(tf.float32, [None, None]),
        tf.placeholder(tf.float32),
    )
    with tf.device(TOY):
        product = tf.matmul(a, b, name="product")
        total = tf.add(c, b, name="total")
    with tf.Session(config=config()) as sess:
        with pytest.raises(tf.errors.InvalidArgumentError, match="3 columns by 2 rows") as failure:
            sess.run(product, {a: np.ones([2, 3]), b: np.ones([2, 3])})
        assert failure.value.op.name == "product"
        with pytest.raises(tf.errors.InvalidArgumentError, match="ranks 1 and 2"):
            sess.run(total, {c: np.ones([2]), b: np.ones([2, 2])})
        assert sess.run(product, {a: [[2.0]], b: [[3.0]]}) == [[6.0]]


def test_operations_run_for_their_effect_are_waited_for(toy: str) -> None:
    a = tf.placeholder(tf.float32, [None, None])
    with tf.device(TOY):
        product = tf.matmul(a, a, name="product")
    with tf.Session(config=config()) as sess:
        sess.run(product.op, {a: np.ones([2, 2])})
        with pytest.raises(tf.errors.InvalidArgumentError, match="3 columns by 2 rows"):
            sess.run(product.op, {a: np.ones([2, 3])})


# Plug-ins that are none.


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["-DENTRY=something_else"], "does not export thalweg_device_plugin"),
        (["-DVERSION=99"], "version 99 .* this is version 1"),
        (["-DNULL_TABLE"], "cannot work here"),
        (['-DTYPE="cpu lower"'], "'cpu lower'"),
        (['-DTYPE="CPU"'], "are taken"),
        (["-DNO_ALLOCATE", '-DTYPE="B1"'], "leaves out one of"),
        (["-DNO_ISSUE", '-DTYPE="B2"'], "kernel without issue"),
    ],
)
def test_a_library_that_does_not_fit_is_refused(tmp_path: Path, flags: list[str], message: str) -> None:
    path = build(Path(__file__).with_name("hostile_device.cc"), tmp_path / "lib.so", *flags)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message) as failure:
        tf.load_device_library(path)
    assert str(path) in str(failure.value)


def test_files_that_are_no_plugins_are_refused(tmp_path: Path) -> None:
    with pytest.raises(tf.errors.NotFoundError, match=r"nothing\.so"):
        tf.load_device_library(tmp_path / "nothing.so")
    (tmp_path / "text.so").write_text("not a library")
    with pytest.raises(tf.errors.NotFoundError, match=r"text\.so"):
        tf.load_device_library(tmp_path / "text.so")


def test_a_second_library_for_a_type_is_refused(hostile: Any, tmp_path: Path) -> None:
    path = build(Path(__file__).with_name("hostile_device.cc"), tmp_path / "again.so")
    with pytest.raises(tf.errors.AlreadyExistsError, match="BAD"):
        tf.load_device_library(path)


# Plug-ins that break the contract of the interface.


def bad(op: Any, value: Any = (1.0, 4.0), timeout: int = 0) -> Any:
    x = tf.placeholder(tf.float32)
    with tf.device("/device:BAD:0"):
        y = op(x, name="culprit")
    made = tf.ConfigProto(device_count={"BAD": 1, "TOY": 0}, operation_timeout_in_ms=timeout)
    with tf.Session(config=made) as sess:
        return sess.run(y, {x: value})


def test_a_device_that_does_not_open_fails_the_session(hostile: Any) -> None:
    with pytest.raises(tf.errors.UnavailableError, match="BAD:1: the second one is broken"):
        tf.Session(config=tf.ConfigProto(device_count={"BAD": 2}))


def test_work_reported_twice_does_no_harm(hostile: Any) -> None:
    np.testing.assert_array_equal(bad(tf.abs), [1, 4])


@pytest.mark.parametrize(
    ("op", "error", "message"),
    [
        (tf.negative, tf.errors.InternalError, "overheated x"),
        (tf.exp, tf.errors.InternalError, "left output 0 unset"),
        (tf.log, tf.errors.InvalidArgumentError, "-3|negative"),
        (tf.tanh, tf.errors.UnknownError, "no, thank you"),
    ],
)
def test_a_failing_kernel_fails_its_step_and_is_named(hostile: Any, op: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message) as failure:
        bad(op)
    assert failure.value.op.name == "culprit"


def test_a_refused_allocation_is_an_error(hostile: Any) -> None:
    with pytest.raises(tf.errors.ResourceExhaustedError, match="BAD did not allocate 8388608 bytes"):
        bad(tf.abs, np.ones(1 << 21, np.float32))


def test_late_work_is_waited_for(hostile: Any) -> None:
    np.testing.assert_array_equal(bad(tf.sqrt), [1, 4])
    assert hostile.late_work() == 0
    assert hostile.harmed_late_work() == 0


def test_a_step_that_times_out_does_not_wait_for_the_device(hostile: Any) -> None:
    with pytest.raises(tf.errors.DeadlineExceededError):
        bad(tf.square, timeout=50)
    hostile.hold_late_work(1)
    timeout = 50
    try:
        while hostile.late_work() == 0:  # a busy machine may not come so far in time
            with pytest.raises(tf.errors.DeadlineExceededError):
                bad(tf.sqrt, timeout=timeout)  # its memory must outlive the session: the device still reads it
            timeout *= 2
        gc.collect()
    finally:
        hostile.hold_late_work(0)
    while hostile.late_work() > 0:
        time.sleep(0.01)
    assert hostile.harmed_late_work() == 0


def test_a_copy_that_never_ends_can_be_cancelled(hostile: Any) -> None:
    hostile.set_lose_copies(1)
    try:
        with pytest.raises(tf.errors.DeadlineExceededError):
            bad(tf.abs, timeout=50)
    finally:
        hostile.set_lose_copies(0)


def test_the_device_is_closed_with_its_last_session(toy: str, hostile: Any) -> None:
    bad(tf.abs)
    gc.collect()
    # Work that never ended keeps its device open: that one may be left.
    assert hostile.open_devices() <= 1
