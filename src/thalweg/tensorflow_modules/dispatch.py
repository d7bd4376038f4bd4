"""`tensorflow.python.util.dispatch`: ops have their dispatch of sparse and ragged values in themselves."""

from __future__ import annotations

from typing import Any


def add_dispatch_support(target: Any = None, **_: Any) -> Any:
    """Decorator of ops: returns them as they are."""
    return target if target is not None else lambda function: function


add_dispatch_list = add_dispatch_support
