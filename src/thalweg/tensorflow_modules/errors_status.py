"""What programs use of `tensorflow.python.pywrap_tensorflow`."""

from __future__ import annotations

from thalweg.contrib.public_names import tf
from thalweg.platform.version import VERSION as __version__  # noqa: F401


def IsGoogleCudaEnabled() -> bool:
    """Whether the build has CUDA: no."""
    return bool(tf.test.is_built_with_cuda())
