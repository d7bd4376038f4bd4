"""The child process of cpu_probe.py: uses oneDNN with one instruction set, and may die of it.

Runs as a script with the native module's path and the instruction set as arguments. It loads that module alone, not the
package: the child then starts in a fraction of the time. Exit code 0 means that the instruction set works.
"""

import importlib.machinery
import importlib.util
import resource
import sys

WRONG_RESULT = 10


def main(core_path: str, isa: str) -> int:
    """Tries the instruction set and returns the exit code."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    loader = importlib.machinery.ExtensionFileLoader("_core", core_path)
    spec = importlib.util.spec_from_file_location("_core", core_path, loader=loader)
    assert spec is not None
    core = importlib.util.module_from_spec(spec)
    loader.exec_module(core)
    return 0 if core.probe_onednn(isa) else WRONG_RESULT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
