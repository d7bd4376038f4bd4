"""`tensorflow.python.util.tf_inspect`: Python's `inspect`, with functions that Python 3 has dropped."""

from __future__ import annotations

import inspect
from collections import namedtuple
from inspect import (
    currentframe,
    getcallargs,
    getdoc,
    getfile,
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


def getfullargspec(obj: Any) -> inspect.FullArgSpec:
    """The arguments of a function, or of what a decorator wrapped; TensorFlow's functions have no annotations."""
    spec = inspect.getfullargspec(inspect.unwrap(obj, stop=lambda f: hasattr(f, "__signature__")))
    module = getattr(obj, "__module__", None) or ""
    return spec._replace(annotations={}) if module.partition(".")[0] == "thalweg" else spec


def getargspec(obj: Any) -> ArgSpec:
    """The arguments of a function, without those that are keywords only."""
    spec = getfullargspec(obj)
    return ArgSpec(spec.args, spec.varargs, spec.varkw, spec.defaults)
