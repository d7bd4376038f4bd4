"""The public names that real programs use are there (tests/data/public_names.txt), the old spellings among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import thalweg as tf
from thalweg.graph.definitions.op_registry import deprecated_exports

_NAMES = (Path(__file__).parents[1] / "data" / "public_names.txt").read_text().split()
_OLD = ["mul", "sub", "neg", "pack", "unpack", "select", "complex_abs", "inv", "listdiff", "batch_matmul",
        "initialize_all_variables"]  # fmt: skip


def _resolve(dotted: str) -> Any:
    value: Any = tf
    for part in dotted.split("."):
        value = getattr(value, part)
    return value


def test_every_name_that_programs_use_exists() -> None:
    missing = []
    for name in _NAMES:
        try:
            _resolve(name)
        except AttributeError:
            missing.append(name)
    assert len(_NAMES) > 400
    assert missing == []


@pytest.mark.parametrize("name", _OLD)
def test_old_spellings_still_work(name: str) -> None:
    assert callable(_resolve(name))


def test_an_old_spelling_names_an_existing_new_one() -> None:
    assert [old for old, new in deprecated_exports().items() if not callable(_resolve(new))] == []


def test_an_unknown_name_suggests_a_near_one() -> None:
    with pytest.raises(AttributeError, match="placeholder"):
        tf.place_holder  # noqa: B018
