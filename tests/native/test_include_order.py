"""The folders of core/ form an order: a file includes only what is in its own folder or in one before it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "core"

# From the bottom to the top. Folders in one line do not include each other. A file in core/ itself goes by its name.
ORDER = """
    error, kept_statics
    strings, memory, regex, code
    thread
    tensor
    io, random
    checkpoint
    resource
    embedding
    device
    kernel
    executor
    plugin, eager
    function
    session
    step_program
    net
    compute/lanes
    compute/elementwise, compute/fourier, compute/sparse
    compute/copies, compute/products, compute/random
    compute/reduction, compute/winograd
    compute/weights
    compute/onednn
    compute/matmul
    compute/convolution, compute/images, compute/linear, compute/parsing, compute/training, compute/windows
    kernels, data
    python
"""
LEVELS = {folder.strip(): level for level, line in enumerate(ORDER.strip().splitlines()) for folder in line.split(",")}


def folder_of(path: str) -> str:
    """The entry of ORDER that a file of core/ belongs to."""
    parts = path.split("/")
    if len(parts) == 1:
        return parts[0].split(".")[0]
    return "/".join(parts[:2]) if parts[0] == "compute" else parts[0]


def wrong_includes(path: str, text: str) -> list[str]:
    """The includes of a file of core/ that go against the order."""
    here = folder_of(path)
    if here not in LEVELS:
        return [f"{path}: the folder {here} is not in ORDER"]
    wrong = []
    for included in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.MULTILINE):
        if not (CORE / included).exists():
            continue  # of another library, or of the interface for plug-ins
        there = folder_of(included)
        if there != here and LEVELS.get(there, len(LEVELS)) >= LEVELS[here]:
            wrong.append(f"{path} includes {included}: {there} is not below {here}")
    return wrong


def test_folders_include_only_lower_folders() -> None:
    files = [file for suffix in ("*.h", "*.cc") for file in CORE.rglob(suffix)]
    assert len(files) > 100
    wrong = [line for file in files for line in wrong_includes(file.relative_to(CORE).as_posix(), file.read_text())]
    assert not wrong, "\n".join(["Includes against the order of the folders:", *sorted(wrong)])


@pytest.mark.parametrize(
    ("path", "included"),
    [
        ("thread/parallel.cc", "tensor/tensor.h"),
        ("tensor/tensor.h", "kernel/kernel.h"),
        ("memory/account.cc", "strings/hash.h"),
        ("compute/onednn/matmul.cc", "compute/matmul/product.h"),
        ("compute/copies/gather.cc", "kernels/null_kernel.h"),
        ("executor/executor.cc", "session.h"),
        ("unknown/file.cc", "error.h"),
    ],
)
def test_an_include_against_the_order_is_found(path: str, included: str) -> None:
    assert (CORE / included).exists()
    assert wrong_includes(path, f'#include "{included}"\n')
