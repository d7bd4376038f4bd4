"""tf.profiler.profile: parameters, arithmetic, time and memory as trees, with TensorFlow's names and totals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf

Builder = tf.profiler.ProfileOptionBuilder


def model() -> tuple[Any, Any]:
    x = tf.placeholder(tf.float32, [8, 16], name="x")
    with tf.variable_scope("layer"):
        w, b = tf.get_variable("w", [16, 4]), tf.get_variable("b", [4])
        y = tf.nn.relu(tf.matmul(x, w) + b, name="y")
    tf.get_variable("fixed", [100], trainable=False)
    return x, y


def quiet(options: dict[str, Any]) -> dict[str, Any]:
    built: dict[str, Any] = Builder(options).with_empty_output().build()
    return built


def trace(x: Any, y: Any) -> Any:
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(y, {x: np.ones((8, 16))}, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata)
    return metadata


def test_parameters_are_those_of_trainable_variables() -> None:
    model()
    root = tf.profiler.profile(tf.get_default_graph(), options=quiet(Builder.trainable_variables_parameter()))
    assert root.name == "_TFProfRoot"
    assert root.total_parameters == 68
    (layer,) = root.children
    assert (layer.name, layer.total_parameters) == ("layer", 68)
    assert [(child.name, child.parameters) for child in layer.children] == [("layer/b", 4), ("layer/w", 64)]


def test_float_operations_need_no_step() -> None:
    model()
    root = tf.profiler.profile(options=quiet(Builder.float_operation()), cmd="op")
    assert {child.name: child.float_ops for child in root.children}["MatMul"] == 2 * 8 * 16 * 4
    assert root.total_float_ops >= 1024


def test_operations_of_unknown_size_are_named_or_counted_with_an_assumed_batch(
    capsys: pytest.CaptureFixture[str],
) -> None:
    x = tf.placeholder(tf.float32, [None, 16])
    for units in (8, 4):
        x = tf.layers.dense(x, units, name=f"layer{units}")
    root = tf.profiler.profile(options=Builder.float_operation(), cmd="op")
    out = capsys.readouterr().out
    assert "layer8/MatMul" in root.uncounted
    assert "2 operations with arithmetic left out" in out
    assert "with_assumed_batch" in out
    root = tf.profiler.profile(options=Builder(Builder.float_operation()).with_assumed_batch(10).build(), cmd="op")
    assert {child.name: child.float_ops for child in root.children}["MatMul"] == 2 * 10 * (16 * 8 + 8 * 4)
    assert not root.uncounted
    assert "left out" not in capsys.readouterr().out
    with pytest.raises(ValueError, match="at least 1"):
        Builder().with_assumed_batch(0)


@pytest.mark.parametrize("cmd", ["scope", "op", "graph", "code"])
def test_every_view_has_the_whole_time(cmd: str, capsys: pytest.CaptureFixture[str]) -> None:
    x, y = model()
    metadata = trace(x, y)
    options = Builder(Builder.time_and_memory(min_micros=0, min_bytes=0)).build()
    root = tf.profiler.profile(tf.get_default_graph(), metadata, cmd=cmd, options=options)
    nodes = [node for device in metadata.step_stats.dev_stats for node in device.node_stats]
    assert root.total_exec_micros == sum(round(node.all_end_rel_nanos / 1000) for node in nodes)
    assert root.total_requested_bytes > 0
    text = capsys.readouterr().out
    assert text.startswith("node name | micros | bytes\n_TFProfRoot (--/")
    expected = {"scope": "layer/MatMul", "op": "MatMul", "graph": "layer/MatMul", "code": "tf.matmul"}[cmd]
    assert expected in text


def test_small_nodes_are_left_out_and_the_largest_come_first() -> None:
    x, y = model()
    metadata = trace(x, y)
    everything = quiet(Builder.time_and_memory(min_micros=0, min_bytes=0))
    micros = [child.total_exec_micros for child in tf.profiler.profile(None, metadata, None, "op", everything).children]
    assert micros == sorted(micros, reverse=True)
    nothing = quiet(Builder.time_and_memory(min_micros=10**9))
    assert tf.profiler.profile(None, metadata, None, "op", nothing).children == []


def test_nodes_are_chosen_by_name_type_and_depth() -> None:
    model()
    builder = Builder(quiet(Builder.trainable_variables_parameter()))
    shallow = tf.profiler.profile(options=builder.with_max_depth(1).build())
    assert [child.name for child in shallow.children] == ["layer"]
    assert shallow.children[0].children == []
    assert shallow.total_parameters == 68
    hidden = Builder(quiet(Builder.trainable_variables_parameter())).with_node_names(hide_name_regexes=["layer/w"])
    assert tf.profiler.profile(options=hidden.build()).total_parameters == 4
    products = Builder(quiet(Builder.float_operation())).with_accounted_types(["MatMul"]).build()
    assert tf.profiler.profile(options=products).total_float_ops == 1024


def test_a_profiler_takes_the_mean_of_steps_or_one_of_them() -> None:
    x, y = model()
    profiler = tf.profiler.Profiler(tf.get_default_graph())
    for step in (3, 7):
        profiler.add_step(step, trace(x, y))
    options = Builder(quiet(Builder.time_and_memory(min_micros=0, min_bytes=0)))
    runs = {child.name: child.graph_nodes for child in profiler.profile_operations(options.build()).children}
    assert [node.run_count for node in runs["MatMul"]] == [2]
    runs = {
        child.name: child.graph_nodes for child in profiler.profile_operations(options.with_step(7).build()).children
    }
    assert [node.run_count for node in runs["MatMul"]] == [1]


def test_output_goes_where_it_is_asked_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, y = model()
    metadata = trace(x, y)
    builder = Builder(Builder.time_and_memory())
    tf.profiler.profile(None, metadata, options=builder.with_file_output(str(tmp_path / "text")).build())
    assert (tmp_path / "text").read_text().startswith("node name")
    tf.profiler.profile(None, metadata, options=builder.with_timeline_output(str(tmp_path / "trace")).build())
    assert json.loads((tmp_path / "trace").read_text())["traceEvents"]
    assert capsys.readouterr().out == ""


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="cmd must be one of"):
        tf.profiler.profile(cmd="everything")
    with pytest.raises(ValueError, match="output must be"):
        tf.profiler.profile(options={**Builder().build(), "output": "printer"})
