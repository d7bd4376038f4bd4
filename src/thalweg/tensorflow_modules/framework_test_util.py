"""Names of `tensorflow.python.framework.test_util`: the base class of tests, questions, and decorators."""

from __future__ import annotations

import contextlib
import functools
import unittest
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.testing.graph_comparison import assert_equal_graph_def as assert_equal_graph_def
from thalweg.testing.test_case import TestCase

TensorFlowTestCase = TestCase

# Decorators of tests.


def _unchanged(function: Any) -> Any:
    return function


def _unchanged_or(*arguments: Any, **_: Any) -> Any:
    """A decorator that may be written with or without arguments."""
    return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else _unchanged


# Tests run once, in a graph, with conditionals and loops of primitives.
run_v1_only = run_deprecated_v1 = deprecated_graph_mode_only = run_all_in_deprecated_graph_mode_only = _unchanged_or
run_in_graph_and_eager_modes = run_all_in_graph_and_eager_modes = also_run_as_tf_function = _unchanged_or
enable_c_shapes = with_c_api = with_c_shapes = enable_control_flow_v2 = disable_control_flow_v2 = _unchanged_or
with_control_flow_v2 = enable_output_all_intermediates = build_as_function_and_v1_graph = _unchanged_or
# What other compilers and devices do differently.
disable_xla = disable_all_xla = disable_tfrt = disable_mlir_bridge = xla_allow_fallback = _unchanged_or
no_xla_auto_jit = _unchanged_or
run_without_tensor_float_32 = run_all_without_tensor_float_32 = enable_eager_op_as_function = _unchanged_or
# Checks of memory that depend on how TensorFlow holds its objects.
assert_no_new_tensors = assert_no_garbage_created = assert_no_new_pyobjects_executing_eagerly = _unchanged_or


def skip_if(condition: Any) -> Callable[[Any], Any]:
    """Skips a test if a condition, or a function without arguments, is true."""

    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def decorated(self: Any, *args: Any, **kwargs: Any) -> Any:
            if condition() if callable(condition) else condition:
                self.skipTest("the condition of skip_if holds")
            return function(self, *args, **kwargs)

        return decorated

    return decorate


def skip_if_error(*_: Any) -> Callable[[Any], Any]:
    """Leaves the test as it is: errors are errors."""
    return _unchanged


def run_v2_only(function: Any = None, **_: Any) -> Any:
    """Skips a test of TensorFlow 2's behaviour."""
    return unittest.skip("needs TensorFlow 2's behaviour")(function)


def run_gpu_only(function: Any = None) -> Any:
    """Skips a test that needs a GPU."""
    return unittest.skip("needs a GPU")(function)


run_cuda_only = run_gpu_only


def set_producer_version(graph: Any, producer_version: int) -> None:
    """Says which version of TensorFlow made a graph."""
    graph_def = tf.GraphDef()
    graph_def.versions.producer = producer_version
    with graph.as_default():
        tf.import_graph_def(graph_def, name="")


# Questions about the machine and the build: there are CPUs.


def gpu_device_name() -> str:
    """The name of a GPU: there is none."""
    return ""


def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: Any = None) -> bool:
    """Whether there is a GPU: no."""
    return False


def _no() -> bool:
    return False


IsGoogleCudaEnabled = IsBuiltWithROCm = IsMklEnabled = GpuSupportsHalfMatMulAndConv = _no
CudaSupportsHalfMatMulAndConv = _no
IsBuiltWithNvcc = IsBuiltWithXLA = is_xla_enabled = is_mlir_bridge_enabled = is_tfrt_enabled = _no
IsCPUTargetAvailable = is_asan_enabled = is_msan_enabled = is_tsan_enabled = is_ubsan_enabled = _no


def InstallStackTraceHandler() -> None:
    """Has no effect: Python's `faulthandler` shows the stacks of a crash."""


@contextlib.contextmanager
def use_gpu() -> Iterator[None]:
    """A context that prefers a GPU: there is none."""
    yield


force_gpu = use_gpu


@contextlib.contextmanager
def force_cpu() -> Iterator[None]:
    """A context whose operations run on the CPU."""
    with tf.device("/cpu:0"):
        yield


def device(use_gpu: bool) -> Any:
    """A context for operations on a GPU, if asked for and there is one, and on the CPU otherwise."""
    return force_cpu()


# Layouts of images.


def _permuted(tensor: Any, orders: Mapping[int, list[int]]) -> Any:
    """A tensor, or a shape given as a list or array, with its axes in the order for its rank."""
    if isinstance(tensor, tf.Tensor):
        return tf.transpose(tensor, orders[len(tensor.shape.as_list())])
    return [tensor[axis] for axis in orders[len(tensor)]]


def NHWCToNCHW(input_tensor: Any) -> Any:
    """From channels last to channels first, of images or volumes."""
    return _permuted(input_tensor, {4: [0, 3, 1, 2], 5: [0, 4, 1, 2, 3]})


def NCHWToNHWC(input_tensor: Any) -> Any:
    """From channels first to channels last, of images or volumes."""
    return _permuted(input_tensor, {4: [0, 2, 3, 1], 5: [0, 2, 3, 4, 1]})


def assert_ops_in_graph(expected_ops: Mapping[str, str], graph: Any) -> dict[str, Any]:
    """The nodes of a graph whose names are given with their types.

    Raises:
        ValueError: If one is missing, or of another type.
    """
    found = {node.name: node for node in graph.as_graph_def().node if node.name in expected_ops}
    for name, op_type in expected_ops.items():
        if name not in found:
            raise ValueError(f"Expected ops not found in graph: {sorted(expected_ops.keys() - found.keys())}")
        if found[name].op != op_type:
            raise ValueError(f"Expected op for node {name} is different: {op_type} vs {found[name].op}")
    return found
