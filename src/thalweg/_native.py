"""Loads the native core, after making sure that this processor can run it.

The core is compiled for x86-64-v3 (docs/decisions/0002-instruction-set.md). On an older processor its first
instruction would end the process, so the flags are looked at before the module is loaded; reading them takes some 50
microseconds. Everything in the package reaches the core as `from thalweg._native import core`.
"""

import atexit
import os
from pathlib import Path
from typing import NamedTuple

# What x86-64-v3 adds to the baseline, in the kernel's spelling.
REQUIRED_FLAGS = frozenset({"avx2", "fma", "f16c", "bmi1", "bmi2", "movbe", "abm"})
PACKAGE_DIR = Path(__file__).parent


class CpuInfo(NamedTuple):
    """What Linux says about the first processor; empty where it says nothing."""

    model: str
    flags: frozenset[str]


def read_cpu_info(path: str = "/proc/cpuinfo") -> CpuInfo:
    """Reads model and flags of the first processor only: a machine may list hundreds."""
    try:
        with open(path, "rb", buffering=0) as file:
            text = file.read(8192).decode("ascii", "replace")
    except OSError:
        return CpuInfo("", frozenset())
    fields: dict[str, str] = {}
    for line in text.split("\n\n", 1)[0].splitlines():
        name, _, value = line.partition(":")
        fields[name.strip()] = value.strip()
    return CpuInfo(fields.get("model name", ""), frozenset(fields.get("flags", "").split()))


def require_instructions(cpu: CpuInfo, package_dir: Path = PACKAGE_DIR) -> None:
    """Raises ImportError if the processor lacks what the core was compiled for.

    Nothing is claimed where the system lists no flags, or where the core was built for another instruction set
    (CMake leaves its name in `_core.march` beside the module).
    """
    missing = REQUIRED_FLAGS - cpu.flags
    if not cpu.flags or not missing:
        return
    march = package_dir / "_core.march"
    if march.exists() and march.read_text().strip() != "x86-64-v3":
        return
    raise ImportError(
        f"Thalweg's native core needs a processor with x86-64-v3 (AVX2); this one ({cpu.model or 'unknown'}) lacks "
        f"{', '.join(sorted(missing))}. Build it for this machine: "
        "pip install --no-binary thalweg -C cmake.define.THALWEG_MARCH=native thalweg"
    )


def quiet_openmp() -> None:
    """Keeps oneDNN's OpenMP threads from spinning for milliseconds after each kernel.

    Their core is needed by our own threads next (docs/decisions/0005-parallel-loops.md). libgomp reads its settings
    from the environment when it is loaded, and has no other way; whoever has chosen already is left alone.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "2000")


require_instructions(read_cpu_info())
quiet_openmp()

try:
    from thalweg import _core as core
except ImportError as error:
    raise ImportError(
        f"Thalweg's native core cannot be loaded from {PACKAGE_DIR}: {error}. In a source tree, run `make build`."
    ) from error


def _best_instruction_set() -> str:
    from thalweg.platform.cpu_probe import max_isa_once

    return max_isa_once()


# Daemon threads may be inside of steps when the program ends, such as those of queue runners.
atexit.register(core.end_threads)

# Asked when oneDNN is first used, so that programs which never do pay nothing.
core.set_isa_probe(_best_instruction_set)

__all__ = ["core", "CpuInfo", "quiet_openmp", "read_cpu_info", "require_instructions"]
