"""Loads the native core, after making sure that this processor can run it.

The core is compiled for x86-64-v3 (docs/decisions/0002-instruction-set.md). On an older processor its first
instruction would end the process, so the flags are looked at before the module is loaded; reading them takes some 50
microseconds. Everything in the package reaches the core as `from thalweg._native import core`: it then raises the
exceptions of `thalweg.errors`.
"""

import atexit

from thalweg import errors
from thalweg.platform.cpu_info import PACKAGE_DIR, quiet_openmp, read_cpu_info, require_instructions

require_instructions(read_cpu_info())
quiet_openmp()

try:
    from thalweg import _core as core
except ImportError as error:
    raise ImportError(
        f"Thalweg's native core cannot be loaded from {PACKAGE_DIR}: {error}. In a source tree, run `make build`."
    ) from error


def _best_instruction_set() -> str:
    # Start-up time: the probe is needed only when oneDNN is first used, and imports subprocess.
    from thalweg.platform.cpu_probe import max_isa_once

    return max_isa_once()


def make_error(code: int, message: str, node: str, op: str) -> errors.OpError:
    """Makes the exception for an error of the core, which knows the node's name and type but no Operation."""
    return errors.error_from_code(code, message, node_def=errors.FailedNode(node, op) if node else None)


core.set_error_factory(make_error)

# Daemon threads may be inside of steps when the program ends, such as those of queue runners.
atexit.register(core.end_threads)

# Asked when oneDNN is first used, so that programs which never do pay nothing.
core.set_isa_probe(_best_instruction_set)

__all__ = ["core"]
