"""The numeric check of a step: it names the operations that make NaN or infinity out of finite inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.runtime import numerics


def _origins(fetches: Any, feeds: Any = None) -> list[numerics.Origin]:
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(fetches, feeds, options=numerics.check_options(), run_metadata=metadata)
    return numerics.origins(metadata)


def test_finite_steps_have_no_origins() -> None:
    x = tf.placeholder(tf.float32, [2])
    assert _origins(tf.exp(x) + tf.sqrt(x), {x: [0.0, 2.0]}) == []
    assert _origins(tf.cast(x, tf.int32), {x: [1.0, 2.0]}) == []


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128])
def test_every_floating_type_is_checked(dtype: Any) -> None:
    x = tf.placeholder(dtype, [3], name="x")
    y = tf.identity(tf.div(x, x, name="quotient") * x, name="later")
    [origin] = _origins(y, {x: np.array([1.0, 0.0, 2.0])})
    assert origin.node == "quotient"
    assert "1 NaN of 3 elements" in origin.what
    assert dtype.name in origin.what


def test_infinity_counts_and_a_nan_made_of_it_is_not_the_origin() -> None:
    x = tf.placeholder(tf.float32, [2])
    grown = tf.exp(x, name="grown")
    [origin] = _origins(tf.subtract(grown, grown, name="nan"), {x: [1.0, 1000.0]})
    assert origin == numerics.Origin("grown", "output 0, float32[2]: 1 infinite of 2 elements")


def test_independent_origins_are_all_found_in_order() -> None:
    x = tf.placeholder(tf.float32, [])
    first = tf.log(x, name="first")
    with tf.control_dependencies([first]):
        second = tf.sqrt(tf.identity(x), name="second")
    assert [o.node for o in _origins([second + first], {x: -1.0})] == ["first", "second"]


def test_a_fed_nan_is_named_with_its_reader() -> None:
    x = tf.placeholder(tf.float32, [2])
    [origin] = _origins(tf.square(tf.negative(x, name="reader")), {x: [np.nan, 1.0]})
    assert origin.node == "reader"
    assert "fed or constant" in origin.what


def test_a_variable_that_is_not_finite_is_named_by_its_read() -> None:
    v = tf.Variable([1.0, np.inf], name="v")
    [origin] = _origins(v * 2.0)
    assert "v" in origin.node or "Read" in origin.node


def test_a_fed_nan_without_a_computed_one_is_no_origin() -> None:
    x = tf.placeholder(tf.float32, [2], name="x")
    kept = tf.where(tf.is_finite(x), x, tf.zeros_like(x))
    assert _origins(tf.reduce_sum(kept), {x: [np.inf, 1.0]}) == []


def test_a_scalar_that_is_fed_is_not_taken_for_what_its_reader_made() -> None:
    x = tf.placeholder(tf.float64, [], name="x")  # copied into the step, which may write over it
    [origin] = _origins(tf.sin(tf.negative(x, name="reader")), {x: np.float64("nan")})
    assert origin.node == "reader"
    assert "fed or constant" in origin.what


def test_a_chain_that_runs_as_one_names_its_member() -> None:
    x = tf.placeholder(tf.float32, [5000], name="x")
    y = tf.square(x * 2.0)
    y = tf.log(y - 1.0, name="culprit")
    y = tf.tanh(y * 0.5, name="end")
    values = np.full(5000, 3.0, np.float32)
    values[4321] = 0.1
    assert [o.node for o in _origins(y, {x: values})] == ["culprit"]


def test_a_fused_product_is_named_with_the_ops_fused_into_it() -> None:
    x = tf.placeholder(tf.float32, [2, 3], name="x")
    w = tf.Variable(np.full((3, 4), 1e30, np.float32), name="w")
    y = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w, name="product"), tf.ones([4]), name="biased"), name="cut")
    [origin] = _origins(tf.reduce_sum(y), {x: np.full((2, 3), 1e30)})
    assert origin.node == "product"
    if "as one" in origin.what:
        assert "biased" in origin.what and "cut" in origin.what


def test_a_checked_step_is_the_step_that_runs_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    from thalweg.runtime import engine as module

    install, compiled = module.install, []
    monkeypatch.setattr(module, "install", lambda *args: compiled.append(install(*args)) or compiled[-1])
    x = tf.placeholder(tf.float32, [1000], name="x")
    y = tf.tanh(tf.exp(x * 0.3) - 0.7)
    values = np.random.default_rng(1).standard_normal(1000).astype(np.float32)
    with tf.Session() as session:
        plain = session.run(y, {x: values})
        checked = session.run(y, {x: values}, options=numerics.check_options())
    assert np.array_equal(plain, checked)
    assert len(compiled) == 1


def test_nodes_of_called_functions_are_checked() -> None:
    @tf.experimental.Defun(tf.float32, func_name="inner", noinline=True)
    def inner(x: Any) -> Any:
        return tf.log(x - 1.0, name="inside") * 2.0

    x = tf.placeholder(tf.float32, [3], name="x")
    y = tf.reduce_sum(inner(x))
    assert [o.node for o in _origins(y, {x: [2.0, 0.5, 3.0]})] == ["inside"]
    assert _origins(y, {x: [2.0, 1.5, 3.0]}) == []


def test_an_origin_on_another_device_is_named_once() -> None:
    x = tf.placeholder(tf.float32, [100], name="x")
    with tf.device("/cpu:1"):
        bad = tf.log(x, name="bad")
    with tf.device("/cpu:0"):
        there = tf.reduce_sum(tf.sqrt(tf.abs(x), name="fine") + bad)
    with tf.device("/cpu:1"):
        back = there * 2.0 + tf.reduce_max(bad)
    metadata = tf.RunMetadata()
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
        for _ in range(20):
            metadata.Clear()
            values = {x: np.linspace(-1.0, 1.0, 100)}
            session.run(back, values, options=numerics.check_options(), run_metadata=metadata)
            assert [o.node for o in numerics.origins(metadata)] == ["bad"]


def test_a_tensor_in_the_place_of_one_that_was_not_finite_is_looked_at_anew() -> None:
    x = tf.placeholder(tf.float32, [100_000], name="x")
    first = tf.log(x, name="first")
    stored = tf.reverse(first, [0])  # Not part of a fused chain, in which the selection would hide the NaNs.
    with tf.control_dependencies([tf.reduce_sum(tf.where(tf.is_nan(stored), tf.ones_like(stored), stored))]):
        # The allocator reuses the memory of freed tensors by now.
        second = tf.sqrt(tf.identity(x), name="second")
    assert [o.node for o in _origins(tf.reduce_sum(second), {x: np.full(100_000, -1.0)})] == ["first", "second"]


def test_in_place_results_do_not_hide_the_origin() -> None:
    x = tf.placeholder(tf.float32, [1000])
    y = tf.add(x, 1.0)
    for _ in range(3):
        y = tf.negative(y)
    y = tf.log(y, name="bad")
    for i in range(3):
        y = tf.negative(y, name=f"after{i}")
    assert [o.node for o in _origins(y, {x: np.ones(1000, np.float32)})] == ["bad"]


def test_nodes_of_loops_and_conditionals_are_checked() -> None:
    n = tf.placeholder(tf.int32, [])
    _, z = tf.while_loop(
        lambda i, z: i < n, lambda i, z: (i + 1, tf.sqrt(z - 1.0, name="root")), (0, tf.constant(3.0)), name="loop"
    )
    origins = _origins(z, {n: 4})
    assert origins[0].node == "loop/root"
    y = tf.cond(n > 1, lambda: tf.log(tf.to_float(-n), name="taken"), lambda: 0.0)
    assert [o.node for o in _origins(y, {n: 2})] == ["cond/taken"]
    assert _origins(y, {n: 1}) == []


def test_without_metadata_the_step_raises_with_the_line_of_the_program() -> None:
    x = tf.placeholder(tf.float32, [])
    bad = tf.log(x, name="bad")
    with tf.Session() as session:
        assert session.run(bad, {x: 1.0}, options=numerics.check_options()) == 0.0
        with pytest.raises(tf.errors.InvalidArgumentError, match="NaN") as info:
            session.run(bad, {x: -1.0}, options=numerics.check_options())
    assert info.value.op is bad.op
    assert "test_numerics.py" in str(info.value)


def test_a_check_and_a_trace_can_be_had_together() -> None:
    x = tf.placeholder(tf.float32, [])
    y = tf.log(x, name="bad") + 1.0
    options = numerics.check_options(tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE))
    assert numerics.check_options(options) is options
    assert len(options.debug_options.debug_tensor_watch_opts) == 1
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        session.run(y, {x: -1.0}, options=options, run_metadata=metadata)
    assert [o.node for o in numerics.origins(metadata)] == ["bad"]
    assert {n.node_name for n in metadata.step_stats.dev_stats[0].node_stats} >= {"bad", "add"}
