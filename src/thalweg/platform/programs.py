"""Runs a Python program inside of this process, for the commands that inspect its steps or its graph."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any


def run_program(script: str, arguments: Sequence[str] = (), name: str = "__main__") -> dict[str, Any]:
    """Runs a script as `python script arguments` would, with `name` as its `__name__`; returns its global names."""
    argv, path = sys.argv, sys.path[:]
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    try:
        return runpy.run_path(script, run_name=name)
    finally:
        sys.argv, sys.path[:] = argv, path


def exit_code(program: Callable[[], object], script: str) -> int:
    """Calls a function that runs a program: the exit code that the interpreter would end with, messages included."""
    try:
        program()
    except SystemExit as end:
        if end.code is None:
            return 0
        if isinstance(end.code, int):
            return end.code & 0xFF
        print(end.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        traceback.print_exc()
        return 130
    except BaseException as error:
        print_failure(error, script)
        return 1
    return 0


def print_failure(error: BaseException, script: str) -> None:
    """Prints an error of a program without the frames of Thalweg above it."""
    shown = error.__traceback__
    while shown is not None and shown.tb_frame.f_code.co_filename != script:
        shown = shown.tb_next
    traceback.print_exception(type(error), error, shown or error.__traceback__)
