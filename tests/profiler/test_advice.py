"""tf.profiler.advise: what the checkers say of graphs and traced steps, and in which form."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import thalweg as tf

ALL = {"AcceleratorUtilizationChecker", "ExpensiveOperationChecker", "JobChecker", "OperationChecker"}


def traced(fetch: Any) -> Any:
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(fetch, None, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata)
    return metadata


def product() -> Any:
    w = tf.Variable(np.ones((64, 64), np.float32), name="w")
    return tf.matmul(tf.random_uniform([512, 64], name="x"), w, name="product")


def step(device: str, busy: int, whole: int) -> Any:
    """A RunMetadata by hand: a node on a device, and one on the host that lasts for the whole step."""
    metadata = tf.RunMetadata()
    for name, where, length in (("node", device, busy), ("other", "/device:CPU:0", whole)):
        node = metadata.step_stats.dev_stats.add(device=where).node_stats.add(node_name=name)
        node.timeline_label = f"{name} = MatMul()"
        node.all_start_micros, node.all_start_nanos = 10, 10_000
        node.op_end_rel_nanos = node.all_end_rel_nanos = length
    return metadata


def test_the_most_expensive_types_nodes_and_lines_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    y = product()
    advice = tf.profiler.advise(tf.get_default_graph(), traced(y))
    assert isinstance(advice, tf.profiler.AdviceProto)
    assert set(advice.checkers) == ALL
    types, nodes, lines = advice.checkers["ExpensiveOperationChecker"].reports
    assert types.startswith("top 1 operation type: ")
    assert "operation type: MatMul, cpu: " in types
    assert "graph node: product, cpu: " in nodes
    assert "tf.matmul(" in lines
    printed = capsys.readouterr().out
    assert all(f"{name}:" in printed for name in ALL)
    assert types in printed


def test_checkers_can_be_chosen() -> None:
    advice = tf.profiler.Profiler(tf.Graph()).advise({"OperationChecker": {}})
    assert list(advice.checkers) == ["OperationChecker"]
    assert list(tf.profiler.advise(tf.Graph(), options={}).checkers) == []
    with pytest.raises(ValueError, match=r"'Nope'.*OperationChecker"):
        tf.profiler.advise(tf.Graph(), options={"Nope": {}})


def test_without_a_step_only_the_graph_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    product()
    advice = tf.profiler.advise()
    assert not any(advice.checkers[name].reports for name in ALL)
    assert "Missing run_meta" in capsys.readouterr().err


def test_batch_normalization_of_small_ops_is_found_where_a_fused_one_would_do() -> None:
    images, rows = tf.placeholder(tf.float32, [2, 4, 4, 3]), tf.placeholder(tf.float32, [2, 3])
    with tf.name_scope("of_rows"):
        tf.nn.batch_normalization(rows, 0.0, 1.0, 0.0, 1.0, 1e-3)
    tf.nn.fused_batch_norm(images, tf.ones([3]), tf.ones([3]))
    check = {"OperationChecker": {}}
    assert list(tf.profiler.advise(options=check).checkers["OperationChecker"].reports) == []
    with tf.name_scope("of_images"):
        tf.nn.batch_normalization(images, 0.0, 1.0, 0.0, 1.0, 1e-3)
    (report,) = tf.profiler.advise(options=check).checkers["OperationChecker"].reports
    assert "FusedBatchNorm" in report
    assert "of_images" in report
    assert "of_rows" not in report


def test_convolutions_on_accelerators_should_have_channels_first() -> None:
    images = tf.placeholder(tf.float32, [1, 8, 8, 3])
    check = {"OperationChecker": {}}
    tf.nn.conv2d(images, np.ones((3, 3, 3, 1)), 1, "SAME", name="here")
    assert list(tf.profiler.advise(options=check).checkers["OperationChecker"].reports) == []
    with tf.device("/device:GPU:0"):
        tf.nn.conv2d(images, np.ones((3, 3, 3, 1)), 1, "SAME", name="there")
    (report,) = tf.profiler.advise(options=check).checkers["OperationChecker"].reports
    assert "NCHW" in report
    assert report.endswith(": there")


@pytest.mark.parametrize(("busy", "reports"), [(100, ["device: /device:GPU:0 low utilization: 0.10"]), (900, [])])
def test_accelerators_that_wait_are_reported(busy: int, reports: list[str]) -> None:
    check = {"AcceleratorUtilizationChecker": {}}
    advice = tf.profiler.advise(tf.Graph(), step("/device:GPU:0", busy, 1000), check)
    assert list(advice.checkers["AcceleratorUtilizationChecker"].reports) == reports
    hosts = tf.profiler.advise(tf.Graph(), step("/job:w/task:0/device:CPU:1", 1, 1000), check)
    assert list(hosts.checkers["AcceleratorUtilizationChecker"].reports) == []


def test_time_on_accelerators_is_counted_as_such() -> None:
    options = tf.profiler.ProfileOptionBuilder().with_empty_output().build()
    root = tf.profiler.profile(tf.Graph(), step("/device:GPU:0", 3000, 5000), cmd="graph", options=options)
    assert (root.total_accelerator_exec_micros, root.total_cpu_exec_micros, root.total_exec_micros) == (3, 5, 8)


def test_advice_is_tensorflows_message() -> None:
    advice = tf.profiler.AdviceProto()
    advice.checkers["a"].reports.append("b")
    assert advice.SerializeToString() == b"\n\x08\n\x01a\x12\x03\x12\x01b"
    assert tf.profiler.AdviceProto.DESCRIPTOR.full_name == "tensorflow.tfprof.AdviceProto"
    assert SimpleNamespace(**{field.name: field.number for field in advice.DESCRIPTOR.fields}).checkers == 1
