"""`python -m thalweg.dist.launch.task_main PARENT script arguments…`: runs a program that ends with its parent process.

For launchers with threads, which must not fork a copy of themselves (`child_process.py`).
"""

from __future__ import annotations

import sys

from thalweg.dist.launch.child_process import run_program_to_end, set_death_signal


def main() -> None:
    """Has the kernel kill this process when the parent dies, and becomes the program."""
    set_death_signal(int(sys.argv[1]))
    run_program_to_end(sys.argv[2:])


if __name__ == "__main__":
    main()
