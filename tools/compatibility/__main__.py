"""Writes `docs/compatibility.md`: which public names of TensorFlow's version 1 API Thalweg has, and which it lacks.

    python -m compatibility            # with tools/ on the path: writes the page
    python -m compatibility --missing  # prints the names that are missing, one a line

The names of TensorFlow are recorded in `tensorflow_names.txt` (see `record.py`).
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import thalweg

NAMES = Path(__file__).parent / "tensorflow_names.txt"
PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"

# Parts of TensorFlow's API that are for something which Thalweg is not, with the reason.
FOREIGN = {
    "config": "TensorFlow 2's settings of its eager runtime; sessions take a `tf.ConfigProto`.",
    "experimental": "TensorFlow 2's extension types and dispatch.",
    "lite": "TensorFlow Lite is a separate product.",
    "mlir": "TensorFlow's own compiler.",
    "tpu": "Google's TPUs.",
    "types": "TensorFlow 2's type annotations.",
    "xla": "TensorFlow's own compiler.",
}


class Names(NamedTuple):
    """The recorded names of one TensorFlow."""

    version: str
    names: dict[str, str]


def recorded() -> Names:
    """Reads the recorded names."""
    first, *lines = NAMES.read_text().splitlines()
    return Names(first.rpartition("TensorFlow ")[2].partition(":")[0], dict(line.split() for line in lines))


def is_there(name: str) -> bool:
    """Whether Thalweg has a public name."""
    value: Any = thalweg
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            return False
    return True


def missing(names: dict[str, str]) -> list[str]:
    """The names that Thalweg lacks, in alphabetical order."""
    return sorted((name for name in names if not is_there(name)), key=lambda name: (name.lower(), name))


def space_of(name: str) -> str:
    """The namespace under which the page lists a name: its first part, or '' at the top."""
    return name.partition(".")[0] if "." in name else ""


def page() -> str:
    """The text of the page."""
    version, names = recorded()
    lacking = missing(names)
    total, gone = Counter(map(space_of, names)), Counter(map(space_of, lacking))
    by_space: dict[str, list[str]] = defaultdict(list)
    for name in lacking:
        by_space[space_of(name)].append(name)
    lines = [
        "# Public names beside TensorFlow's",
        "",
        "*Written by `python -m compatibility` (in `tools/`); a test fails when it is out of date.*",
        "",
        f"The public names of `tensorflow.compat.v1` in TensorFlow {version} (the nearest to TensorFlow 1.15 that can",
        "be installed today), without Keras, and without `tf.layers`, which that version takes from an old Keras.",
        f"Of {len(names)} names, Thalweg has {len(names) - len(lacking)} and lacks {len(lacking)}.",
        "",
        "| namespace | names | here | missing |",
        "| --- | --- | --- | --- |",
    ]
    for space in sorted(total):
        title = f"`tf.{space}`" if space else "`tf`"
        lines.append(f"| {title} | {total[space]} | {total[space] - gone[space]} | {gone[space]} |")
    lines += ["", "## What is missing", ""]
    for space in sorted(by_space):
        title = f"tf.{space}" if space else "tf"
        lines += [f"### `{title}`", ""]
        if FOREIGN.get(space):
            lines += [FOREIGN[space], ""]
        lines += [*_wrapped([f"`{name}`" for name in by_space[space]]), ""]
    return "\n".join(lines).rstrip() + "\n"


def _wrapped(words: list[str], width: int = 118) -> list[str]:
    lines = [""]
    for i, word in enumerate(words):
        text = word + ("," if i + 1 < len(words) else "")
        if lines[-1] and len(lines[-1]) + 1 + len(text) > width:
            lines.append(text)
        else:
            lines[-1] = f"{lines[-1]} {text}".lstrip()
    return lines


def main(arguments: list[str]) -> None:
    """Writes the page, or prints what is missing."""
    if arguments == ["--missing"]:
        print("\n".join(missing(recorded().names)))
    else:
        PAGE.write_text(page())


if __name__ == "__main__":
    main(sys.argv[1:])
