"""Prints the public names of an installed TensorFlow's `tensorflow.compat.v1`, for `tensorflow_names.txt`.

    python tools/compatibility/record.py > tools/compatibility/tensorflow_names.txt

To be run by a Python that has TensorFlow. Names only: they are facts about its interface.
"""

from __future__ import annotations

import importlib
import inspect
import types
from collections.abc import Iterator
from typing import Any

# Keras is a library of its own (`layers` is there only beside an old one); `compat` holds the same API again, and
# `app.flags` is `flags`.
SKIPPED = ("keras", "estimator", "compat", "flags.tf_decorator", "app.flags", "logging.google2_log_prefix")


def public_names(module: Any, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yields the full name and the kind of everything public below a module."""
    for name in sorted(dir(module)):
        full = prefix + name
        if name.startswith("_") or full in SKIPPED:
            continue
        try:
            value = getattr(module, name)
        except Exception:
            # What needs a version of Keras that is not there has a name only.
            yield full, "class" if name[:1].isupper() else "function"
            continue
        if isinstance(value, types.ModuleType):
            if getattr(value, "__name__", "").startswith("tensorflow") and depth < 5 and name not in ("v1", "v2"):
                yield from public_names(value, f"{full}.", depth + 1)
        else:
            yield full, "class" if inspect.isclass(value) else "function" if callable(value) else "constant"


def main() -> None:
    """Prints one name and its kind a line, below the version that they are of."""
    tensorflow = importlib.import_module("tensorflow.compat.v1")
    print(f"# Public names of tensorflow.compat.v1 in TensorFlow {tensorflow.__version__}: name, kind.")
    for name, kind in public_names(tensorflow):
        print(name, kind)


if __name__ == "__main__":
    main()
