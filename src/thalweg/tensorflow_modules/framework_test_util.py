"""Names of `tensorflow.python.framework.test_util`: the base class of tests, and decorators without effect."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

from thalweg.testing.test_case import TestCase

TensorFlowTestCase = TestCase


def _unchanged(function: Any) -> Any:
    return function


run_v1_only = run_deprecated_v1 = deprecated_graph_mode_only = run_all_in_graph_and_eager_modes = _unchanged
run_all_without_tensor_float_32 = disable_xla = disable_tfrt = _unchanged


def run_in_graph_and_eager_modes(function: Any = None, **_: Any) -> Any:
    """Runs a test in a graph."""
    return _unchanged if function is None else function


def skip_if_error(*_: Any) -> Callable[[Any], Any]:
    """Leaves the test as it is: errors are errors."""
    return _unchanged


def gpu_device_name() -> str:
    """The name of a GPU: there is none."""
    return ""


def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: Any = None) -> bool:
    """Whether there is a GPU: no."""
    return False


def run_gpu_only(function: Any = None) -> Any:
    """Skips a test that needs a GPU."""
    return unittest.skip("needs a GPU")(function)
