"""`python -m thalweg.dist.launch.task_main PARENT script arguments…`: runs a program that ends with its parent process.

For launchers with threads, which must not fork a copy of themselves (`child_process.py`).
"""

from __future__ import annotations

import os
import sys

from thalweg.dist.launch.child_process import run_program_to_end, set_death_signal


def main() -> None:
    """Has the kernel kill this process when the parent dies, and becomes the program."""
    set_death_signal(int(sys.argv[1]))
    _undo_niceness()
    run_program_to_end(sys.argv[2:])


def _undo_niceness() -> None:
    """Ray runs its workers, and so this process, with a niceness of 15: every other process would come first."""
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    if niceness <= 0:
        return
    try:
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    except PermissionError:
        print(
            f"This process has a niceness of {niceness}. Start Ray with RAY_worker_niceness=0 to train at full speed."
        )


if __name__ == "__main__":
    main()
