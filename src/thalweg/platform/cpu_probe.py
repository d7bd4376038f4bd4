"""Finds the best instruction set that oneDNN can really use here: `max_isa()`.

Processor flags alone are not to be trusted: virtual machines exist that announce AMX and then trap on it, and oneDNN's
own choice ends the process there. So the announced instruction sets are tried from the best down, each in a child
process that may die (cpu_probe_child.py), and the first that survives is the answer. It is cached in a small file per
user, keyed by processor, kernel and oneDNN library; later processes read that file and nothing else.

The core calls `max_isa` before its first use of oneDNN, so a program that never needs oneDNN pays nothing. Machines
without AVX-512 and AMX, where no such trap is known, get their answer from the flags and never start a child.
"""

import functools
import hashlib
import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from thalweg.platform.cpu_info import PACKAGE_DIR, CpuInfo, read_cpu_info

ENVIRONMENT_VARIABLE = "ONEDNN_MAX_CPU_ISA"
CHILD = Path(__file__).with_name("cpu_probe_child.py")
CHILD_SECONDS = 60
WRONG_RESULT = 10
"""The child's exit code when it survived but computed something wrong."""

_AVX512 = frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl"})
# oneDNN's names, best first, with the flags that announce them.
_PROBED: tuple[tuple[str, frozenset[str]], ...] = (
    ("AVX512_CORE_AMX_FP16", _AVX512 | {"avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16"}),
    ("AVX512_CORE_AMX", _AVX512 | {"avx512_fp16", "amx_tile", "amx_int8", "amx_bf16"}),
    ("AVX512_CORE_FP16", _AVX512 | {"avx512_vnni", "avx512_bf16", "avx512_fp16"}),
    ("AVX512_CORE_BF16", _AVX512 | {"avx512_vnni", "avx512_bf16"}),
    ("AVX512_CORE_VNNI", _AVX512 | {"avx512_vnni"}),
    ("AVX512_CORE", _AVX512),
)
_TRUSTED: tuple[tuple[str, frozenset[str]], ...] = (
    ("AVX2_VNNI_2", frozenset({"avx2", "fma", "avx_vnni", "avx_vnni_int8", "avx_ne_convert"})),
    ("AVX2_VNNI", frozenset({"avx2", "fma", "avx_vnni"})),
    ("AVX2", frozenset({"avx2", "fma"})),
    ("SSE41", frozenset()),
)


class Inconclusive(Exception):
    """The child could not try: it did not start, did not load the core, or did not end."""


@functools.cache
def max_isa() -> str:
    """The value for ONEDNN_MAX_CPU_ISA: the best instruction set that works on this machine.

    A value that the user has set in the environment wins, unread. Never raises: where nothing can be found out, the
    answer is the best that is safe without a probe.
    """
    chosen = os.environ.get(ENVIRONMENT_VARIABLE)
    if chosen:
        return chosen
    return decide(read_cpu_info(), _cache_file, run_child)


_probe_lock = threading.Lock()


def max_isa_once() -> str:
    """`max_isa` for the core, whose threads may call it at the same time: the first probes, the others wait."""
    with _probe_lock:
        return max_isa()


def decide(cpu: CpuInfo, cache_file: Callable[[CpuInfo], Path | None], probe: Callable[[str], bool]) -> str:
    """The decision behind `max_isa`, with its surroundings passed in.

    Args:
        cpu: The processor's model and flags.
        cache_file: The file that caches the answer for this processor, or None.
        probe: Tells whether an instruction set works; raises Inconclusive if it cannot tell.

    Returns:
        oneDNN's name of an instruction set.
    """
    safe = next(isa for isa, flags in _TRUSTED if flags <= cpu.flags)
    candidates = [isa for isa, flags in _PROBED if flags <= cpu.flags]
    if not candidates:
        return safe
    path = cache_file(cpu)
    cached = _read(path)
    if cached in candidates or cached == safe:
        return cached
    try:
        answer = next((isa for isa in candidates if probe(isa)), safe)
    except Inconclusive:
        return safe  # Not cached: the next process tries again.
    _write(path, answer)
    return answer


def run_child(isa: str, command: list[str] | None = None) -> bool:
    """Tries an instruction set in a child process; False if the child died of a signal or computed nonsense."""
    if command is None:
        if not sys.executable:
            raise Inconclusive("no Python interpreter to start a child with")
        # -P: the folder of the script holds modules named like the standard library's.
        command = [sys.executable, "-P", str(CHILD), _core_file()]
    environment: Mapping[str, str] = {**os.environ, ENVIRONMENT_VARIABLE: isa, "OMP_NUM_THREADS": "1"}
    try:
        child = subprocess.run(
            [*command, isa],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=CHILD_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Inconclusive(str(error)) from error
    if child.returncode > 0 and child.returncode != WRONG_RESULT:
        raise Inconclusive(f"{command} ended with exit code {child.returncode}")
    return child.returncode == 0


def _core_file() -> str:
    """The path of the native module, which the caller has loaded or is about to load."""
    spec = importlib.util.find_spec("thalweg._core")
    if spec is None or spec.origin is None:
        raise Inconclusive("the native module is not where the package is")
    return spec.origin


def _cache_file(cpu: CpuInfo) -> Path | None:
    """The file that holds the answer for this processor, kernel and oneDNN library."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if not os.path.isabs(base):
        return None
    try:
        library = (PACKAGE_DIR / "libdnnl.so.3").stat()
    except OSError:
        return None
    identity = (cpu.model, sorted(cpu.flags), os.uname().release, library.st_size, library.st_mtime_ns)
    return Path(base, "thalweg", "cpu-isa-" + hashlib.sha256(repr(identity).encode()).hexdigest()[:16])


def _read(path: Path | None) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip() if path else None
    except (OSError, UnicodeDecodeError):
        return None


def _write(path: Path | None, answer: str) -> None:
    """Keeps an answer; a reader sees all of it or nothing, and a folder that cannot be written costs only time."""
    if path is None:
        return
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(answer + "\n", encoding="ascii")
        temporary.replace(path)
    except OSError:
        pass
