"""The variables of converted code: read and set through closures, kept while a branch is traced, and put back.

A *slot* is a place that holds a value: a variable (a cell or a global) or an attribute. Its value may be a structure of
lists, dicts and tuples, which branches may change in place: a *record* of it says what was in it, and can restore that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from thalweg.autograph.staged_list import StagedList


class _Undefined:
    """Stands for the value of a variable that has none."""

    def __repr__(self) -> str:
        return "undefined"


UNDEFINED: Final = _Undefined()


class Slot:
    """One variable or attribute.

    Attributes:
        name: How the program calls it.
        is_generated: Whether conversion made it.
    """

    def __init__(self, name: str, read: Callable[[], Any], write: Callable[[Any], None]) -> None:
        """`write` takes UNDEFINED for a place that shall have no value."""
        self.name = name
        self.is_generated = name.startswith("ag__")
        self.read = read
        self.write = write

    def described(self) -> str:
        """Its name for messages."""
        return "the result of the function" if self.is_generated else f"'{self.name}'"


def slots(names: Iterable[str], functions: Sequence[Any]) -> list[Slot]:
    """The slots of variables and attributes that functions made by conversion share.

    Args:
        names: Names, or dotted names of attributes.
        functions: The functions; None among them is left out.
    """
    cells: dict[str, Any] = {}
    module_globals: dict[str, Any] = {}
    for function in functions:
        if function is not None:
            module_globals = function.__globals__
            cells.update(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    found = []
    for name in names:
        root, *path = name.split(".")
        slot = _variable(root, cells, module_globals)
        if path:
            slot = _attribute(name, slot, path)  # type: ignore[assignment]
        if slot is not None:
            found.append(slot)
    return found


def _variable(name: str, cells: dict[str, Any], module_globals: dict[str, Any]) -> Slot:
    cell: Any = cells.get(name)

    def read_cell() -> Any:
        try:
            return cell.cell_contents
        except ValueError:
            return UNDEFINED

    def write_cell(value: Any) -> None:
        if value is not UNDEFINED:
            cell.cell_contents = value
        elif read_cell() is not UNDEFINED:
            del cell.cell_contents

    def write_global(value: Any) -> None:
        if value is UNDEFINED:
            module_globals.pop(name, None)
        else:
            module_globals[name] = value

    if cell is not None:
        return Slot(name, read_cell, write_cell)
    return Slot(name, lambda: module_globals.get(name, UNDEFINED), write_global)


def _attribute(name: str, root: Slot, path: Sequence[str]) -> Slot | None:
    """The slot of an attribute; None if there is no object that could have it."""
    owner = root.read()
    for part in path[:-1]:
        owner = getattr(owner, part, UNDEFINED)
    if owner is UNDEFINED:
        return None
    last = path[-1]

    def write(value: Any) -> None:
        if value is not UNDEFINED:
            if getattr(owner, last, UNDEFINED) is not value:
                setattr(owner, last, value)
        elif last in getattr(owner, "__dict__", {}):
            delattr(owner, last)

    return Slot(name, lambda: getattr(owner, last, UNDEFINED), write)


class Record:
    """What a value was: itself, and for containers what was in them.

    Attributes:
        value: The value. A container may have changed since.
        parts: For containers, records of their elements; None for all other values.
        keys: For dicts, their keys.
    """

    __slots__ = ("keys", "parts", "value")

    def __init__(self, value: Any) -> None:
        """Records a value as it is now."""
        self.value = value
        self.parts: list[Record] | None = None
        self.keys: list[Any] | None = None
        kind = type(value)
        if kind is list or isinstance(value, tuple):
            self.parts = [Record(each) for each in value]
        elif kind is dict:
            self.keys = list(value)
            self.parts = [Record(each) for each in value.values()]
        elif kind is set:
            self.keys = sorted(value, key=repr)
        elif kind is StagedList:
            self.keys = [value.content()]

    def restore(self) -> Any:
        """The value, with what was in it."""
        value = self.value
        kind = type(value)
        parts = [each.restore() for each in self.parts or ()]
        if kind is list:
            value[:] = parts
        elif kind is dict:
            value.clear()
            value.update(zip(self.keys or (), parts, strict=True))
        elif kind is set:
            value.clear()
            value.update(self.keys or ())
        elif kind is StagedList:
            value.set_content((self.keys or (None,))[0])
        return value

    def rebuilt(self, parts: list[Any]) -> Any:
        """The container with other elements: the same object if it can be changed."""
        value = self.value
        if type(value) is list:
            value[:] = parts
            return value
        if type(value) is dict:
            value.clear()
            value.update(zip(self.keys or (), parts, strict=True))
            return value
        return value._make(parts) if hasattr(value, "_make") else type(value)(parts)


def record(all_slots: Iterable[Slot]) -> list[Record]:
    """Records the values of slots."""
    return [Record(slot.read()) for slot in all_slots]


def restore(all_slots: Iterable[Slot], records: Iterable[Record]) -> None:
    """Puts recorded values back."""
    for slot, each in zip(all_slots, records, strict=True):
        slot.write(each.restore())
