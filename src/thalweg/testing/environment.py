"""The environment of tests: a temporary folder, the available devices, the kind of build."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from unittest import mock as mock

_temp_dir: str | None = None


def get_temp_dir() -> str:
    """A folder for the files of this process's tests, removed at its end; TEST_TMPDIR says where, if set."""
    global _temp_dir
    if _temp_dir is None or not os.path.isdir(_temp_dir):
        base = os.environ.get("TEST_TMPDIR")
        if base:
            os.makedirs(base, exist_ok=True)
        _temp_dir = tempfile.mkdtemp(prefix="thalweg_test_", dir=base)
        atexit.register(shutil.rmtree, _temp_dir, ignore_errors=True)
    return _temp_dir


def test_src_dir_path(relative_path: str) -> str:
    """An absolute path below the folder of the program, or of TEST_SRCDIR if that is set."""
    base = os.environ.get("TEST_SRCDIR") or os.path.dirname(os.path.abspath(sys.argv[0]))
    return os.path.join(base, relative_path)


# Not a test, whatever its name suggests to test runners.
test_src_dir_path.__test__ = False  # type: ignore[attr-defined]


def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: tuple[int, int] | None = None) -> bool:
    """Whether a GPU can be used: not in this version."""
    return False


def gpu_device_name() -> str:
    """The name of a GPU, or '' if there is none."""
    return ""


def is_built_with_cuda() -> bool:
    """Whether this build knows CUDA: no."""
    return False


def is_built_with_rocm() -> bool:
    """Whether this build knows ROCm: no."""
    return False


def is_built_with_gpu_support() -> bool:
    """Whether this build knows any GPU: no."""
    return False


def is_built_with_xla() -> bool:
    """Whether this build compiles with XLA: no."""
    return False
