"""Where in the user's program an operation was created: captured cheaply, resolved to lines on demand.

The core notes (code, instruction) pairs; line numbers and source text are looked up only for an error message. Code
objects are kept alive by the program anyway; frames are not held.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable
from types import CodeType
from typing import Any, Final

Capture = tuple[Any, ...]
"""Code object and offset of the last instruction of each frame, alternating, innermost first.

Flat, because a graph keeps one per node, and every tuple in it would be one more object for the garbage collector.
"""

Source = Capture | str
"""Where an operation was created: as it was captured, or, if it comes from another process, as text."""

_PACKAGE_FOLDER: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def _load_and_capture(skip: int) -> Capture:
    """Replaces itself by the core's function at the first node, and calls that."""
    global capture
    # Start-up time: programs that build no graph load no core.
    from thalweg._native import core

    capture = core.capture_stack
    return capture(skip + 1)


capture: Callable[[int], Capture] = _load_and_capture
"""Notes the call stack from its `skip`-th innermost frame on: 1 is the caller's."""


def _line_of(code: CodeType, instruction: int) -> int:
    for start, end, line in code.co_lines():
        if start <= instruction < end:
            return line or code.co_firstlineno
    return code.co_firstlineno


def resolve(captured: Capture) -> list[tuple[str, int, str, str]]:
    """Turns a capture into (file, line, function, text), outermost first, without Thalweg's own innermost frames."""
    pairs = list(zip(captured[::2], captured[1::2], strict=True))
    inner = 0
    while inner < len(pairs) and pairs[inner][0].co_filename.startswith(_PACKAGE_FOLDER):
        inner += 1
    frames = []
    for code, instruction in reversed(pairs[inner:]):
        line = _line_of(code, instruction)
        frames.append((code.co_filename, line, code.co_name, linecache.getline(code.co_filename, line).strip()))
    return frames


def describe(captured: Capture) -> str:
    """One line for an error message: the innermost place in the user's program, or '' if there is none."""
    frames = resolve(captured)
    if not frames:
        return ""
    file, line, function, text = frames[-1]
    place = f'File "{file}", line {line}, in {function}'
    return f"{place}\n    {text}" if text else place


def source_line(source: Source) -> str | None:
    """`file:line, in function` of the innermost place in the user's program, or None if that is not known."""
    if isinstance(source, str):
        return source or None
    frames = resolve(source)
    return "{}:{}, in {}".format(*frames[-1][:3]) if frames else None
