"""The examples in the docstrings of public functions and classes run and print what they say."""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
import tempfile
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg import lazy_spaces
from thalweg.graph.definitions.op_registry import exports


def _documented() -> dict[str, Any]:
    """Public objects with examples, and their methods, each once."""
    tf.Session  # noqa: B018 (bound at first use)
    lazy_spaces.load_all()
    found: dict[str, Any] = {}
    single = {
        name: getattr(importlib.import_module(source), name.rpartition(".")[2])
        for name, source in lazy_spaces.single_names().items()
        if source.startswith("thalweg.")
    }
    for name, value in sorted({**exports(), **single}.items()):
        if not (inspect.isroutine(value) or inspect.isclass(value) or inspect.ismodule(value)):
            continue  # The docstring of a constant is that of its class.
        members = inspect.getmembers(value, inspect.isfunction) if inspect.isclass(value) else []
        for label, each in [(name, value), *((f"{name}.{m}", f) for m, f in members)]:
            text = getattr(each, "__doc__", None) or ""
            if ">>>" in text and not any(text is getattr(other, "__doc__", None) for other in found.values()):
                found[label] = each
    return found


_DOCUMENTED = _documented()


@pytest.mark.parametrize("name", list(_DOCUMENTED))
def test_the_example_of_a_docstring_runs(name: str) -> None:
    text = inspect.cleandoc(_DOCUMENTED[name].__doc__)
    module = inspect.getmodule(_DOCUMENTED[name])
    names = {**vars(module), "tf": tf, "np": np, "os": os, "tempfile": tempfile}
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    output: list[str] = []
    with tf.Graph().as_default():
        result = doctest.DocTestRunner(optionflags=options).run(test, out=output.append)
    assert result.failed == 0, "".join(output)


def test_there_are_examples() -> None:
    assert len(_DOCUMENTED) > 10
