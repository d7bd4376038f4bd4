"""Which code objects conversion has made."""

from __future__ import annotations

import weakref
from types import CodeType
from typing import Final

_made: Final[weakref.WeakSet[CodeType]] = weakref.WeakSet()


def note(code: CodeType) -> None:
    """Notes that conversion made a code object."""
    _made.add(code)


def is_converted(code: CodeType) -> bool:
    """Whether a code object is a result of conversion."""
    return code in _made
