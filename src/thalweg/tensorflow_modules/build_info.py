"""`tensorflow.python.platform.build_info`: what the core was built for."""

from __future__ import annotations

from typing import Final

is_cuda_build: Final = False
is_rocm_build: Final = False
cuda_build_info: Final[dict[str, str]] = {}
build_info: Final[dict[str, bool]] = {"is_cuda_build": False, "is_rocm_build": False, "is_tensorrt_build": False}
cuda_version_number: Final = ""
cudnn_version_number: Final = ""
