"""Display: the merged logs of all tasks with prefixes, and below them a table of tasks that is kept up to date."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from typing import IO, Final, NamedTuple

from thalweg.dist.launch.plan import Task, label_width

_COLOURS: Final = {"ps": (33, 93), "chief": (35, 95), "worker": (36, 32, 34, 96, 92, 94)}
_BOLD: Final = 1
_HEADINGS: Final = ("task", "state", "pid", "restarts", "cpu", "memory", "steps", "steps/s")


class Row(NamedTuple):
    """One row of the table. None: not known."""

    task: Task
    state: str
    pid: int | None = None
    restarts: int = 0
    cpu: float | None = None  # of one core, 1.0 is all of it
    memory: int | None = None  # bytes
    steps: int | None = None
    steps_per_second: float | None = None
    place: str = ""  # the host, if there are several


class Display:
    """Writes to a terminal or to a file; not thread-safe."""

    def __init__(self, stream: IO[str], tasks: Sequence[Task], log_dir: str | None = None, plain: bool = False) -> None:
        """Opens the log files.

        Args:
            stream: Where to write; colours and the table need a terminal.
            tasks: All tasks.
            log_dir: A folder for one log file a task, which is made if it does not exist.
            plain: No colours and no table, whatever the stream is.
        """
        self._stream = stream
        self._width = label_width(tasks)
        self._is_terminal = stream.isatty() and not plain
        self._table_lines = 0
        self._rows: list[Row] = []
        self._files: dict[Task, IO[str]] = {}
        if log_dir is not None:
            os.makedirs(log_dir, exist_ok=True)
            for task in tasks:
                path = os.path.join(log_dir, f"{task.file_stem}.log")
                self._files[task] = open(path, "a", encoding="utf-8", errors="replace")  # noqa: SIM115

    @property
    def has_table(self) -> bool:
        """Whether rows are shown."""
        return self._is_terminal

    def lines(self, task: Task, lines: Iterable[str]) -> None:
        """Shows lines of a task's output."""
        written = list(lines)
        if not written:
            return
        file = self._files.get(task)
        if file is not None:
            file.writelines(f"{line}\n" for line in written)
            file.flush()
        palette = _COLOURS.get(task.job, (37,))
        prefix = self._coloured(f"{task!s:{self._width}} |", palette[task.index % len(palette)])
        self._print([f"{prefix} {line}" for line in written])

    def note(self, text: str) -> None:
        """Shows a line of the launcher itself."""
        self._print([self._coloured(f"{'launch':{self._width}} | {text}", _BOLD)])

    def rows(self, rows: Sequence[Row]) -> None:
        """Shows the table."""
        if self._is_terminal:
            self._rows = list(rows)
            self._print([])

    def silence(self) -> None:
        """Writes to the log files only from now on: the stream is gone."""
        self._stream = open(os.devnull, "w")  # noqa: SIM115
        self._is_terminal = False

    def close(self) -> None:
        """Closes the log files; the last table stays on the terminal."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _coloured(self, text: str, colour: int) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._is_terminal else text

    def _print(self, lines: list[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        if self._is_terminal:
            erase = f"\x1b[{self._table_lines}A\x1b[J" if self._table_lines else ""
            table = format_table(self._rows, shutil.get_terminal_size().columns) if self._rows else []
            self._table_lines = len(table)
            text = erase + text + "".join(f"{line}\n" for line in table)
        self._stream.write(text)
        self._stream.flush()


def format_table(rows: Sequence[Row], width: int) -> list[str]:
    """The lines of the table, none longer than the terminal is wide."""
    headings = [*_HEADINGS, *(["host"] if any(row.place for row in rows) else [])]
    cells = [headings, *(_cells(row)[: len(headings)] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(headings))]

    def aligned(line: Sequence[str]) -> str:
        left = {0, 1, len(_HEADINGS)}
        return "  ".join(f"{text:{size}}" if i in left else f"{text:>{size}}"
                         for i, (text, size) in enumerate(zip(line, widths, strict=True)))  # fmt: skip

    return ["", *(aligned(line)[: width - 1].rstrip() for line in cells)]


def _cells(row: Row) -> list[str]:
    def known(value: float | None, text: str) -> str:
        return text.format(value) if value is not None else "-"

    memory = None if row.memory is None else row.memory / 2**20
    return [
        str(row.task), row.state, known(row.pid, "{}"), str(row.restarts), known(row.cpu, "{:.0%}"),
        known(memory, "{:,.0f} MB"), known(row.steps, "{:,}"), known(row.steps_per_second, "{:,.1f}"), row.place,
    ]  # fmt: skip
