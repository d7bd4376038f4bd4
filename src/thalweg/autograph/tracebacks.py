"""Tracebacks through converted code: without the frames of AutoGraph, only those of the program."""

from __future__ import annotations

import os
from typing import Any, Final

_FOLDER: Final = os.path.dirname(os.path.abspath(__file__)) + os.sep
_FLOW: Final = os.path.join(os.path.dirname(os.path.dirname(_FOLDER)), "control_flow") + os.sep


class clean:
    """A block: an exception that leaves it shows the lines of the program, and not those of AutoGraph between them."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if error is not None:
            error.__traceback__ = shortened(traceback)


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
