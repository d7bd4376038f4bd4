"""Tracebacks through converted code: without the frames of AutoGraph, only those of the program."""

from __future__ import annotations

import dis
import os
from typing import Any, Final

from thalweg.autograph.converted_code import is_converted

_RAISE: Final = dis.opmap["RAISE_VARARGS"]
_FOLDER: Final = os.path.dirname(os.path.abspath(__file__)) + os.sep
_FLOW: Final = os.path.join(os.path.dirname(os.path.dirname(_FOLDER)), "control_flow") + os.sep


class clean:
    """A block: an exception that leaves it shows the lines of the program, and not those of AutoGraph between them."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if error is not None:
            if isinstance(error, RecursionError) and not hasattr(error, "__notes__"):
                error.add_note(
                    "Both branches of a condition that is a tensor are traced, so that a function which calls itself "
                    "in one of them is traced without end: write it as a loop."
                )
            error.__traceback__ = shortened(traceback)


def explain_raise(error: BaseException) -> None:
    """Adds to an exception of a traced branch that the branch is traced in any case, if the program raises it there."""
    inner = error.__traceback__
    while inner is not None and inner.tb_next is not None:
        inner = inner.tb_next
    if inner is None or hasattr(error, "__notes__") or not is_converted(inner.tb_frame.f_code):
        return
    if inner.tb_frame.f_code.co_code[inner.tb_lasti] == _RAISE:
        error.add_note(
            "Both branches of a condition that is a tensor are traced, so that this `raise` is reached whatever "
            "its value will be: write `assert` for what a step shall check."
        )


def shortened(traceback: Any) -> Any:
    """A traceback without the frames of this package, unless nothing else is left."""
    kept = []
    each = traceback
    while each is not None:
        if not each.tb_frame.f_code.co_filename.startswith((_FOLDER, _FLOW)):
            kept.append(each)
        each = each.tb_next
    if not kept:
        return traceback
    for inner, outer in zip(kept[1:], kept[:-1], strict=True):
        outer.tb_next = inner
    kept[-1].tb_next = None
    return kept[0]
