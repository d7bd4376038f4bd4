"""What the core does for op functions once ops run at once.

They may call `run` before they look at their arguments: it runs the call if one like it has run before. It is cheap,
and returns NotImplemented in all other cases: for a call that is not known, and for a thread that builds a graph or is
within a scope.
"""

from __future__ import annotations

from typing import Any


class _Immediate:
    """Functions of the core, set once ops run at once."""

    __slots__ = ("is_view", "keep_form", "run")

    def __init__(self) -> None:
        self.run: Any = _run_nothing
        self.keep_form: Any = _keep_nothing
        self.is_view: Any = _is_no_view  # Whether an array shares the memory of a tensor, and can never be written.


def _run_nothing(op_type: str, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    return NotImplemented


def _keep_nothing(
    name: str, inputs: tuple[Any, ...], op_type: str, known_inputs: tuple[Any, ...], known_attrs: dict[str, Any]
) -> bool:
    return False


def _is_no_view(array: Any) -> bool:
    return False


immediate = _Immediate()
