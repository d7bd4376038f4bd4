"""CPU time and memory of processes, from /proc."""

from __future__ import annotations

import os
from typing import Final, NamedTuple

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Usage(NamedTuple):
    """What a process has used: seconds of CPU time, and bytes of memory that are resident now."""

    cpu_seconds: float
    memory: int


def usage(pid: int) -> Usage | None:
    """The usage of a process; None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        with open(f"/proc/{pid}/statm", "rb") as file:
            resident = int(file.read().split()[1])
    except (OSError, IndexError):
        return None
    return Usage((int(fields[11]) + int(fields[12])) / _TICKS, resident * _PAGE)
