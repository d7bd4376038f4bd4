"""The arguments that functions of users take: model functions and functions for the input name those they want."""

from __future__ import annotations

import functools
import inspect
from typing import Any


def argument_names(function: Any) -> set[str]:
    """The names of the arguments that a function takes by name."""
    bound = function if isinstance(function, functools.partial) else None
    target = bound.func if bound is not None else function
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return set()
    names = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if bound is not None:
        names = [name for name in names[len(bound.args) :] if name not in bound.keywords]
    return set(names)
