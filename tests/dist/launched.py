"""`thalweg launch` as a process of a test: its lines, its end, and proof that it leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from tests.dist.processes import ROOT

# Set in a launch's environment. Programs write it into their output and into the files that tests look at.
MARK = "THALWEG_TEST_MARK"


class Launched:
    """One launch; use it in a `with` block."""

    def __init__(self, folder: Path, program: str, *options: str, arguments: tuple[str, ...] = ()) -> None:
        """Starts it.

        Args:
            folder: A folder for the program; also that of temporary files.
            program: The text of the program.
            options: Options of `thalweg launch`.
            arguments: Arguments of the program.
        """
        self.folder = folder
        self._mark = uuid.uuid4().hex
        script = folder / "program.py"
        script.write_text(program)
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'src'}",
            "TMPDIR": str(folder),
            "PIDS": str(folder),
            "OMP_NUM_THREADS": "1",
            MARK: self._mark,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "thalweg", "launch", *options, str(script), *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd=folder,
        )  # fmt: skip
        self.lines: list[str] = []

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Reads lines until one matches."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            found = re.search(pattern, line)
            if found:
                return found
        raise AssertionError(f"no line like {pattern!r} in:\n" + "\n".join(self.lines))

    def end(self) -> int:
        """Reads all lines, waits for the end: the exit code."""
        assert self.process.stdout is not None
        self.lines.extend(line.rstrip("\n") for line in self.process.stdout)
        return self.process.wait()

    @property
    def output(self) -> str:
        """All lines so far."""
        return "\n".join(self.lines)

    @property
    def final_value(self) -> float:
        """The number that the chief of a training program prints at its end."""
        found = re.search(r"^\w+ \d +\| chief ends (-?[\d.]+)$", self.output, re.MULTILINE)
        assert found, self.output
        return float(found[1])

    def left_behind(self) -> list[str]:
        """Processes with the mark of this launch in their environment that are still there, after some patience."""
        found: list[str] = []

        def is_clean() -> bool:
            found[:] = [each for each in self._marked() if int(each.split()[0]) != self.process.pid]
            return not found

        wait_until(is_clean)
        return found

    def _marked(self) -> list[str]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if self._mark.encode() in (entry / "environ").read_bytes():
                        found.append(f"{entry.name} {(entry / 'comm').read_text().strip()}")
                except OSError:
                    continue
        return found

    def __enter__(self) -> Launched:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.communicate()
        if self.process.stdout is not None:
            self.process.stdout.close()


def wait_until(condition: Callable[[], bool], seconds: float = 15.0) -> bool:
    """Waits until a condition holds: whether it does."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
