"""`tensorflow.python.util.protobuf.compare`: whether two messages say the same."""

from __future__ import annotations

import difflib
from typing import Any

from google.protobuf import text_format


def ProtoEq(a: Any, b: Any) -> bool:
    """Whether two messages are equal; entries of maps in any order."""
    return bool(a == b)


def assertProtoEqual(
    self: Any, a: Any, b: Any, check_initialized: bool = True, normalize_numbers: bool = False, msg: str | None = None
) -> None:
    """Fails a test if two messages, or a message and its text, differ; says in which lines."""
    if isinstance(a, str):
        a = text_format.Parse(a, type(b)())
    if isinstance(b, str):
        b = text_format.Parse(b, type(a)())
    if ProtoEq(a, b):
        return
    first, second = (text_format.MessageToString(each).splitlines() for each in (a, b))
    self.fail("\n".join([*([msg] if msg else []), *difflib.unified_diff(first, second, lineterm="")]))
