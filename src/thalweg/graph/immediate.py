"""Known ops: the function of the core that runs a call at once if one like it has run before.

Op functions may call it before they look at their arguments. It is cheap, and it returns NotImplemented in all other
cases: for a call that is not known, and for a thread that builds a graph or is within a scope.
"""

from __future__ import annotations

from typing import Any


class _Immediate:
    """The two functions, set once ops run at once."""

    __slots__ = ("keep_form", "run")

    def __init__(self) -> None:
        self.run: Any = _run_nothing
        self.keep_form: Any = _keep_nothing


def _run_nothing(op_type: str, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    return NotImplemented


def _keep_nothing(
    name: str, inputs: tuple[Any, ...], op_type: str, known_inputs: tuple[Any, ...], known_attrs: dict[str, Any]
) -> bool:
    return False


immediate = _Immediate()
