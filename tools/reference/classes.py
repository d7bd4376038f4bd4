"""The description of a class: its docstring, attributes and methods; and of a protocol buffer: its fields."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from reference.docstrings import docstring, inline, render
from reference.links import Links
from reference.names import Entry, Reference
from reference.signatures import signature


def body(reference: Reference, entry: Entry, links: Links) -> str:
    """The text below the signature of a class."""
    cls = entry.value
    parts = [_bases(reference, cls, links), render(docstring(cls), links.code)]
    init = cls.__dict__.get("__init__")
    if init is not None and docstring(init) and docstring(init) != inspect.getdoc(object.__init__):
        parts.append(render(docstring(init), links.code))
    if issubclass(cls, tuple) and hasattr(cls, "_fields") and "Attributes:" not in docstring(cls):
        parts.append("Fields: " + ", ".join(f"`{name}`" for name in cls._fields) + ".")
    for name, member, owner in members(cls):
        if owner is cls or _public_base(reference, cls, owner) is None:
            parts.append(_member(name, member, links))
    parts += _inherited(reference, cls, links)
    return "\n\n".join(part for part in parts if part)


def members(cls: type) -> list[tuple[str, Any, type]]:
    """Public methods and properties, and the class that defines each: own ones first, in the order of the source."""
    found: dict[str, tuple[str, Any, type]] = {}
    for owner in cls.__mro__:
        if owner.__module__.partition(".")[0] != "thalweg":
            continue
        for name, member in vars(owner).items():
            if name.startswith("_") and name != "__call__":
                continue
            if _is_described(member):
                found.setdefault(name, (name, member, owner))
    return list(found.values())


def _is_described(member: Any) -> bool:
    if isinstance(member, (property, functools.cached_property, classmethod, staticmethod)):
        return True
    return inspect.isfunction(member)


def _public_base(reference: Reference, cls: type, owner: type) -> Entry | None:
    return reference.find(owner) if owner is not cls else None


def _bases(reference: Reference, cls: type, links: Links) -> str:
    shown = []
    for base in cls.__bases__:
        entry = reference.find(base)
        if entry is not None and entry.value is not cls:
            shown.append(links.code(entry.name))
        elif base.__module__ == "builtins" and base is not object:
            shown.append(f"`{base.__name__}`")
    return f"A subclass of {', '.join(shown)}." if shown else ""


def _inherited(reference: Reference, cls: type, links: Links) -> list[str]:
    by_owner: dict[str, list[str]] = {}
    for name, _, owner in members(cls):
        base = _public_base(reference, cls, owner)
        if base is not None:
            by_owner.setdefault(base.name, []).append(name)
    return [
        f"Inherited from {links.code(base)}: " + ", ".join(f"`{name}`" for name in names) + "."
        for base, names in by_owner.items()
    ]


def _member(name: str, member: Any, links: Links) -> str:
    if isinstance(member, (property, functools.cached_property)):
        text = docstring(member.fget if isinstance(member, property) else member.func)
        return f"::::{{py:attribute}} {name}\n\n{render(text, links.code)}\n::::"
    kind = {classmethod: "py:classmethod", staticmethod: "py:staticmethod"}.get(type(member), "py:method")
    function = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
    arguments = signature(function, is_method=not isinstance(member, staticmethod))
    return f"::::{{{kind}}} {name}{arguments}\n\n{render(docstring(function), links.code)}\n::::"


def message_summary(cls: Any) -> str:
    """A line about a protocol buffer."""
    return f"The protocol buffer `{cls.DESCRIPTOR.full_name}`."


def message_body(cls: Any, links: Links) -> str:
    """The fields of a protocol buffer: their types and numbers."""
    rows = ["| field | type | number |", "| --- | --- | --- |"]
    for field in cls.DESCRIPTOR.fields:
        other = field.message_type or field.enum_type
        kind = other.full_name if other is not None else _type_name(field)
        if other is not None and field.message_type is not None and field.message_type.GetOptions().map_entry:
            kind = "map of " + ", ".join(_type_name(f) for f in field.message_type.fields)
        elif _is_repeated(field):
            kind = f"repeated {kind}"
        rows.append(f"| `{field.name}` | {inline(kind)} | {field.number} |")
    return message_summary(cls) + "\n\n" + "\n".join(rows)


def _is_repeated(field: Any) -> bool:
    # is_repeated came with protobuf 6, which deprecates label.
    return bool(field.is_repeated) if hasattr(type(field), "is_repeated") else field.label == field.LABEL_REPEATED


def _type_name(field: Any) -> str:
    if field.message_type is not None:
        return str(field.message_type.full_name)
    names = {v: k.removeprefix("TYPE_").lower() for k, v in vars(type(field)).items() if k.startswith("TYPE_")}
    return names.get(field.type, str(field.type))
