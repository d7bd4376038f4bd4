"""Where a public value is defined: the statement of a stub that gives it its name and type."""

from __future__ import annotations

import enum
import inspect
import keyword
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final

from thalweg.graph import dtypes

_PLAIN: Final = (bool, int, float, str, bytes)


def statement(name: str, value: Any) -> str:
    """The statement that declares `name` with the type of `value`: a re-export where that is possible."""
    if isinstance(value, ModuleType) and type(value) is not ModuleType:
        return f"{name}: Any"  # A module whose names are looked up when they are used.
    if isinstance(value, ModuleType):
        parent, _, last = value.__name__.rpartition(".")
        return reexport(parent, last, name) if parent else f"import {last} as {name}"
    found = next((place for each in _layers(value) if (place := _definition(each)) is not None), None)
    if found is not None:
        return reexport(*found, name)
    if value is None:
        return f"{name}: None"
    if inspect.isroutine(value):
        return _declaration(name, value)
    if isinstance(value, enum.Enum) or inspect.isclass(value):
        return f"{name}: Any"
    if type(value) in _PLAIN:
        return f"{name}: {type(value).__name__}"
    if isinstance(value, tuple) and value and all(inspect.isclass(each) for each in value):
        return f"{name}: tuple[type[Any], ...]"
    if type(value) in (tuple, frozenset):
        return f"{name}: {type(value).__name__}[Any, ...]" if isinstance(value, tuple) else f"{name}: frozenset[Any]"
    return f"{name}: Any"


def reexport(module: str, attribute: str, name: str) -> str:
    """Imports a public name; type checkers take `import a as b` in a stub for private unless both are the same."""
    if attribute == name:
        return f"from {module} import {name} as {name}"
    return f"from {module} import {attribute} as _{name}_\n{name} = _{name}_"


def _declaration(name: str, function: Any) -> str:
    """A function that another one has made: the names of its arguments are known, their types are not."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return f"def {name}(*args: Any, **kwargs: Any) -> Any: ..."
    pieces: list[str] = []
    for parameter in parameters:
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        if parameter.kind is parameter.KEYWORD_ONLY and not any(piece.startswith("*") for piece in pieces):
            pieces.append("*")
        optional = "" if parameter.default is parameter.empty else " = ..."
        pieces.append(f"{star}{parameter.name}: Any{optional}")
    return f"def {name}({', '.join(pieces)}) -> Any: ..."


def _layers(value: Any) -> Iterator[Any]:
    """The value, and what it wraps: a deprecated name wraps the function, which may wrap one without dispatch."""
    yield value
    while inspect.isroutine(value) and hasattr(value, "__wrapped__"):
        value = value.__wrapped__
        yield value


def _definition(value: Any) -> tuple[str, str] | None:
    """The module and the name in it by which a value can be imported; None if there is none."""
    if isinstance(value, dtypes.DType):
        return next((("thalweg.graph.dtypes", key) for key, each in vars(dtypes).items() if each is value), None)
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "builtins":
        return None
    if module == "thalweg" or not name.isidentifier() or keyword.iskeyword(name):
        return None
    home = sys.modules.get(module)
    if home is None:
        return None
    if vars(home).get(name) is value:
        return module, name
    # A function that was made by another one has the name of that one: look for the variable that holds it.
    other = next((key for key, each in vars(home).items() if each is value and key.isidentifier()), None)
    return (module, other) if other is not None else None
