"""The examples in docstrings of libraries that are loaded when first used: estimators, ragged tensors, signals."""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
import pkgutil
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import thalweg as tf


def _modules(package: str) -> Iterator[Any]:
    top = importlib.import_module(package)
    for module in pkgutil.walk_packages(top.__path__, package + "."):
        yield importlib.import_module(module.name)


def _examples() -> dict[str, Any]:
    tf.RaggedTensor  # noqa: B018 (bound at first use)
    found = {}
    for package in ("thalweg.estimator", "thalweg.ragged", "thalweg.signal"):
        for module in _modules(package):
            for name, value in vars(module).items():
                own = getattr(value, "__module__", None) == module.__name__
                if own and (inspect.isfunction(value) or inspect.isclass(value)) and ">>>" in (value.__doc__ or ""):
                    found[f"{module.__name__}.{name}"] = value
    return found


@pytest.fixture(autouse=True)
def closed_writers(nothing_left_behind: None) -> Iterator[None]:
    yield
    tf.summary.FileWriterCache.clear()


@pytest.mark.parametrize("name", sorted(_examples()))
def test_the_example_of_a_docstring_runs(name: str) -> None:
    text = inspect.cleandoc(_examples()[name].__doc__)
    names = {"tf": tf, "np": np, "os": os, "tempfile": tempfile}
    test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    output: list[str] = []
    with tf.Graph().as_default():
        result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=output.append)
    assert result.failed == 0, "".join(output)
