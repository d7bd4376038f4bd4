"""Which public names there are, which of them mean the same thing, and on which page each is described."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import thalweg
from thalweg import lazy_spaces
from thalweg.graph.definitions import op_registry

ROOT = "tf"


@dataclass
class Entry:
    """A public object.

    Attributes:
        value: The function, class, protocol buffer class or constant.
        kind: 'function', 'class', 'message' (a protocol buffer) or 'constant'.
        name: The name under which it is described, such as 'tf.nn.relu'.
        aliases: Its other names.
        deprecated: Names that still work but warn.
        page: The page of the reference that describes it, without an ending.
    """

    value: Any
    kind: str
    name: str
    aliases: list[str] = field(default_factory=list)
    deprecated: list[str] = field(default_factory=list)
    page: str = ""

    @property
    def space(self) -> str:
        """The namespace of the name: 'tf.nn' of 'tf.nn.relu'."""
        return self.name.rpartition(".")[0]


@dataclass
class Reference:
    """Everything public.

    Attributes:
        entries: By every name that there is, deprecated ones as well.
        spaces: The names directly in each namespace, sorted.
        modules: Namespaces that are modules with a docstring of their own; an alias has the same module.
        by_value: Entries by the identity of their values.
    """

    entries: dict[str, Entry]
    spaces: dict[str, list[str]]
    modules: dict[str, ModuleType]
    by_value: dict[int, Entry]

    def unique(self) -> list[Entry]:
        """Each entry once, ordered by name."""
        return sorted({id(entry): entry for entry in self.entries.values()}.values(), key=lambda e: e.name)

    def find(self, value: Any) -> Entry | None:
        """The entry of a function or class."""
        return self.by_value.get(id(value)) if callable(value) else None

    def space_of_module(self, module: ModuleType) -> str:
        """The first name of a module that is a namespace."""
        return next(space for space, other in self.modules.items() if other is module)


def kind_of(value: Any) -> str:
    """The kind of an entry."""
    if inspect.isclass(value):
        return "message" if hasattr(value, "DESCRIPTOR") else "class"
    return "function" if inspect.isroutine(value) else "constant"


def _public_members(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The public members of a module that is itself a public name.

    That is its `__all__`; or else what it defines, or imports as `from x import name as name`, without an underscore.
    """
    listed = getattr(module, "__all__", None)
    if listed is None and getattr(module, "__file__", None) is None:
        return  # Of compat.v2, whose names are looked up when they are used: docs/eager.md describes it.
    for name in listed if listed is not None else _defined(module):
        if not name.startswith("_") and not inspect.ismodule(getattr(module, name)):
            yield name, getattr(module, name)


def _defined(module: ModuleType) -> Iterator[str]:
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names if alias.asname == alias.name)


def _all_values() -> Iterator[tuple[str, Any]]:
    """Every public name and its value: exported, bound at first use, or a member of an exported module."""
    for dotted, value in op_registry.exports().items():
        yield f"{ROOT}.{dotted}", value
    for dotted, source in lazy_spaces.single_names().items():
        yield f"{ROOT}.{dotted}", getattr(importlib.import_module(source), dotted.rpartition(".")[2])


def collect() -> Reference:
    """Reads the registry."""
    thalweg.Session  # noqa: B018 (bound at first use)
    lazy_spaces.load_all()
    values: dict[str, Any] = {}
    modules: dict[str, ModuleType] = {}
    for name, value in _all_values():
        if inspect.ismodule(value) and value.__name__.startswith("thalweg."):
            modules[name] = value
            # An alias of a module is described with the module, not member by member.
            if list(modules.values()).count(value) == 1:
                values.update((f"{name}.{member}", each) for member, each in _public_members(value))
        else:
            values.setdefault(name, value)
    old = {f"{ROOT}.{name}": f"{ROOT}.{current}" for name, current in op_registry.deprecated_exports().items()}
    entries = _grouped(values, old)
    spaces: dict[str, list[str]] = {}
    for name in [*entries, *modules]:
        spaces.setdefault(name.rpartition(".")[0], []).append(name)
    for name in [*spaces, *modules]:
        while name:  # A namespace that holds only namespaces has a page, too.
            spaces.setdefault(name, [])
            name = name.rpartition(".")[0]
    _assign_pages(entries, set(spaces))
    spaces = {space: sorted(names, key=_alphabetical) for space, names in sorted(spaces.items())}
    return Reference(entries, spaces, modules, {id(entry.value): entry for entry in entries.values()})


def _alphabetical(name: str) -> str:
    return name.rpartition(".")[2].strip("_").casefold()


def _grouped(values: dict[str, Any], old: dict[str, str]) -> dict[str, Entry]:
    """Entries by name: names of one function or class share one."""
    names_of: dict[Any, list[str]] = {}
    for name, value in values.items():
        if name not in old:
            # Equal constants may be one object by accident: each has an entry of its own.
            names_of.setdefault(id(value) if callable(value) else name, []).append(name)
    entries: dict[str, Entry] = {}
    for names in names_of.values():
        names.sort(key=_is_secondary)  # Stable: the first that was exported, if it is not secondary.
        value = values[names[0]]
        entry = Entry(value, kind_of(value), names[0], names[1:])
        entries.update(dict.fromkeys(names, entry))
    for name, current in old.items():
        entries[current].deprecated.append(name)
        entries[name] = entries[current]
    return entries


def _is_secondary(name: str) -> bool:
    """Whether a name exists only for programs of other versions of TensorFlow."""
    return name.split(".")[1] in ("contrib", "compat", "python", "dtypes", "estimator")


def _assign_pages(entries: dict[str, Entry], spaces: set[str]) -> None:
    """Gives functions and classes a page each, whose names differ in more than case; constants share their space's."""
    taken = {space.casefold() for space in spaces}
    for entry in sorted({id(e): e for e in entries.values()}.values(), key=lambda e: e.name):
        if entry.kind == "constant":
            entry.page = entry.space
            continue
        entry.page = entry.name
        while entry.page.casefold() in taken:
            entry.page += "_"
        taken.add(entry.page.casefold())
