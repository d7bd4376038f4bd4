"""`tensorflow.python.util.tf_inspect`: Python's `inspect`, with functions that Python 3 has dropped."""

from __future__ import annotations

import inspect
from collections import namedtuple
from inspect import (
    currentframe,
    getcallargs,
    getdoc,
    getfile,
    getfullargspec,
    getmembers,
    getmodule,
    getmro,
    getsource,
    getsourcefile,
    getsourcelines,
    isabstract,
    isbuiltin,
    isclass,
    isfunction,
    isgenerator,
    isgeneratorfunction,
    ismethod,
    ismodule,
    isroutine,
    signature,
    stack,
)
from typing import Any

__all__ = [
    "ArgSpec", "FullArgSpec", "currentframe", "getargspec", "getcallargs", "getdoc", "getfile", "getfullargspec",
    "getmembers", "getmodule", "getmro", "getsource", "getsourcefile", "getsourcelines", "isabstract", "isbuiltin",
    "isclass", "isfunction", "isgenerator", "isgeneratorfunction", "ismethod", "ismodule", "isroutine", "signature",
    "stack",
]  # fmt: skip

ArgSpec = namedtuple("ArgSpec", "args varargs keywords defaults")
FullArgSpec = inspect.FullArgSpec


def getargspec(obj: Any) -> ArgSpec:
    """The arguments of a function, without those that are keywords only."""
    spec = getfullargspec(obj)
    return ArgSpec(spec.args, spec.varargs, spec.varkw, spec.defaults)
