"""The processor's model and flags, as Linux reports them, and whether they suffice for the native core."""

import os
from pathlib import Path
from typing import NamedTuple

# The flags that x86-64-v3 adds to the baseline, in the kernel's spelling.
REQUIRED_FLAGS = frozenset({"avx2", "fma", "f16c", "bmi1", "bmi2", "movbe", "abm"})
PACKAGE_DIR = Path(__file__).parents[1]


class CpuInfo(NamedTuple):
    """Model and flags of the first processor, as Linux reports them; empty if it does not."""

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
    """Raises ImportError if the processor lacks instructions that the core was compiled for.

    Does nothing where the system lists no flags, or where the core was built for another instruction set
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
    from the environment when it is loaded, and has no other way; settings that exist are kept.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "2000")
