"""LogLines: cuts the output of a process into lines."""

from __future__ import annotations

from typing import Final

# A longer line is cut: a process may write without end and without line breaks.
_LONGEST: Final = 1 << 16


class LogLines:
    """Bytes in, lines out. Of a line that a progress bar has overwritten (carriage returns) the last state counts."""

    def __init__(self) -> None:
        """Begins with an empty line."""
        self._rest = b""

    def add(self, data: bytes) -> list[str]:
        """The lines that more bytes complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        while len(self._rest) > _LONGEST:
            lines.append(self._rest[:_LONGEST])
            self._rest = self._rest[_LONGEST:]
        return [_text(line) for line in lines]

    def end(self) -> list[str]:
        """The last line, if it has no line break."""
        rest, self._rest = self._rest, b""
        return [_text(rest)] if rest else []


def _text(line: bytes) -> str:
    return line.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", "replace")
