"""tf.device: strings, functions and None, nested and merged as TensorFlow does; its interplay with colocate_with."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

import thalweg as tf


def gpu(op: Any) -> str:
    return "/device:GPU:3"


def by_name(op: Any) -> str:
    return f"/job:w/task:{len(op.name)}"


def empty(op: Any) -> str:
    return ""


def spec(op: Any) -> Any:
    return tf.DeviceSpec(job="x", device_type="CPU", device_index=2)


def keep(op: Any) -> str:
    return str(op.device)


# Blocks from the outermost to the innermost, and the device of an operation called "c" in them.
CASES: list[tuple[list[Any], str]] = [
    (["/cpu:0"], "/device:CPU:0"),
    (["/Gpu:1"], "/device:GPU:1"),
    (["cpu:0"], "/device:CPU:0"),
    (["/gpu"], "/device:GPU:*"),
    (["/device:CPU:*"], "/device:CPU:*"),
    (["/device:XLA_CPU:0"], "/device:XLA_CPU:0"),
    (["/job:ps/device:*:*"], "/job:ps/device:*:*"),
    (["/task:3"], "/task:3"),
    (["/job:ps/task:1", "/cpu:0"], "/job:ps/task:1/device:CPU:0"),
    (["/job:ps/task:1", "/job:w"], "/job:w/task:1"),
    (["/cpu:0", "/job:ps"], "/job:ps/device:CPU:0"),
    (["/job:ps/replica:1/task:2/device:GPU:3", "/device:CPU:0"], "/job:ps/replica:1/task:2/device:CPU:0"),
    (["/job:a/cpu:0", "/job:b/gpu:*"], "/job:b/device:GPU:0"),
    (["/cpu:1", "/cpu:*"], "/device:CPU:1"),
    (["/cpu:0", ""], "/device:CPU:0"),
    (["/cpu:0", None], ""),
    (["/cpu:0", None, "/job:w"], "/job:w"),
    ([gpu], "/device:GPU:3"),
    ([gpu, "/cpu:0"], "/device:GPU:3"),
    (["/cpu:0", gpu], "/device:GPU:3"),
    (["/job:ps", gpu], "/job:ps/device:GPU:3"),
    ([gpu, "/job:ps"], "/device:GPU:3"),
    ([gpu, None, by_name], "/job:w/task:1"),
    ([gpu, by_name], "/device:GPU:3"),
    ([by_name, gpu], "/job:w/task:1"),
    (["/cpu:1", by_name], "/job:w/task:1/device:CPU:1"),
    (["/cpu:1", empty], "/device:CPU:1"),
    ([empty, "/cpu:1"], ""),
    (["/gpu:0", spec], "/job:x/device:CPU:2"),
    ([keep, "/cpu:1"], "/device:CPU:1"),
]


@pytest.mark.parametrize(("blocks", "device"), CASES)
def test_blocks_are_merged(blocks: list[Any], device: str) -> None:
    with contextlib.ExitStack() as stack:
        for block in blocks:
            stack.enter_context(tf.device(block))
        assert tf.constant(1.0, name="c").device == device


@pytest.mark.parametrize("name", ["/job:ps/task:x", "/foo:1", "nonsense", "/cpu:a", "/cpu:0/gpu:0", "/device:"])
def test_malformed_device_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="device spec"), tf.device(name):
        pass


def test_specs_are_changed_copied_and_merged() -> None:
    one = tf.DeviceSpec(job="ps", task=1)
    one.device_type = "gpu"
    assert one.to_string() == "/job:ps/task:1/device:GPU:*"
    assert one.replace(task=None, device_index=2).to_string() == "/job:ps/device:GPU:2"
    assert one.make_merged_spec(tf.DeviceSpec.from_string("/job:w/cpu:0")).to_string() == "/job:w/task:1/device:CPU:0"
    assert one.to_string() == "/job:ps/task:1/device:GPU:*"


def test_a_colocated_operation_has_the_device_of_the_other() -> None:
    with tf.device("/cpu:1"):
        a = tf.constant(1.0)
    b = tf.constant(2.0)
    with tf.colocate_with(a.op), tf.device("/cpu:7"):
        assert tf.constant(1.0).device == "/device:CPU:1"
    with tf.device("/cpu:7"), tf.colocate_with(a.op):
        assert tf.constant(1.0).device == "/device:CPU:1"
    with tf.colocate_with(b.op), tf.device("/cpu:7"):
        assert tf.constant(1.0).device == "/device:CPU:7"


def test_any_type_of_device_will_do_for_a_star() -> None:
    with tf.device("/device:*:*"):
        x = tf.constant(1.0) + tf.placeholder_with_default(1.0, [])
    with tf.Session() as sess:
        assert sess.run(x) == 2.0
