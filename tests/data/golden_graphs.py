"""The golden graphs that TensorFlow wrote (see tests/data/make_graph_defs.py), and how to run their recorded steps."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
from google.protobuf import text_format

import thalweg as tf

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "graph_defs")
NAMES = sorted(name.removesuffix(".pbtxt") for name in os.listdir(FOLDER) if name.endswith(".pbtxt"))


class Step(NamedTuple):
    """One session.run: names of targets, feeds and fetches, with the values that TensorFlow got."""

    targets: list[str]
    feeds: dict[str, Any]
    fetches: dict[str, np.ndarray]


def load(name: str) -> Any:
    """The GraphDef of a golden graph."""
    with open(os.path.join(FOLDER, f"{name}.pbtxt")) as file:
        return text_format.Parse(file.read(), tf.GraphDef())


def steps(name: str) -> list[Step]:
    """The recorded steps of a golden graph."""
    found: dict[int, Step] = {}
    with np.load(os.path.join(FOLDER, f"{name}.npz")) as arrays:
        for key in arrays.files:
            number, kind, element = key.split("/", 2)
            step = found.setdefault(int(number), Step([], {}, {}))
            value = arrays[key]
            if kind == "target":
                step.targets.append(element)
            else:
                getattr(step, f"{kind}es" if kind == "fetch" else "feeds")[element] = (
                    value.astype(object) if value.dtype.kind == "S" else value
                )
    return [found[number] for number in sorted(found)]


def run(session: tf.Session, step: Step, scope: str = "") -> dict[str, Any]:
    """Runs a step; returns the fetched values by name."""
    feeds = {scope + name: value for name, value in step.feeds.items()}
    wanted = {name: scope + name for name in step.fetches}
    values: dict[str, Any] = session.run([wanted, [scope + name for name in step.targets]], feeds)[0]
    return values


def assert_same(actual: Any, expected: np.ndarray, name: str) -> None:
    """Compares a value with TensorFlow's."""
    actual = np.asarray(actual)
    assert actual.shape == expected.shape, name
    assert actual.dtype == expected.dtype, name
    if expected.dtype.kind in "fc":
        tolerance = 1e-2 if expected.dtype.itemsize == 2 else 1e-5
        np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance, err_msg=name)
    else:
        np.testing.assert_array_equal(actual, expected, err_msg=name)
