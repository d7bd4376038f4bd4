"""Which names of TensorFlow a program uses, read from its source: imports, their aliases, and chains of attributes."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from thalweg.as_tensorflow.finder import ALIAS, aliased


class Use(NamedTuple):
    """One name of TensorFlow in a program: `tf.nn.relu` as `tensorflow.nn.relu`."""

    path: Path
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.name}"


_MISSING: Final = object()


class _Reader(ast.NodeVisitor):
    """Collects the uses of one file. Names are followed through the whole file, whatever function binds them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.uses: list[Use] = []
        self.aliases: dict[str, str] = {}

    def read(self, tree: ast.AST) -> None:
        # Imports first, then assignments such as `slim = tf.contrib.slim` until no more are found, then uses.
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.ImportFrom):
                self._import_from(node)
        assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and len(node.targets) == 1]
        for _ in range(3):
            for node in assigned:
                target, name = node.targets[0], self._dotted(node.value)
                if isinstance(target, ast.Name) and name is not None and isinstance(resolve(name), ModuleType):
                    self.aliases.setdefault(target.id, name)
        self.visit(tree)

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.split(".")[0] != ALIAS:
                continue
            self._note(node, alias.name)
            self.aliases[alias.asname or ALIAS] = alias.name if alias.asname else ALIAS

    def _import_from(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level or module.split(".")[0] != ALIAS:
            return
        self._note(node, module)
        for alias in node.names:
            if alias.name != "*":
                self._note(node, f"{module}.{alias.name}")
                self.aliases[alias.asname or alias.name] = f"{module}.{alias.name}"

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Notes a chain once, at its full length."""
        name = self._dotted(node)
        if name is None:
            self.generic_visit(node)
        else:
            self._note(node, name)

    def _dotted(self, node: ast.AST) -> str | None:
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.aliases:
            return None
        return ".".join([self.aliases[node.id], *reversed(parts)])

    def _note(self, node: Any, name: str) -> None:
        self.uses.append(Use(self.path, node.lineno, name))


def uses_in(path: Path) -> list[Use]:
    """The names of TensorFlow that a file uses, in the order of its lines.

    Raises:
        ValueError: If the file is no Python 3 program.
    """
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError) as e:
        line = getattr(e, "lineno", None) or 1
        raise ValueError(f"{path}:{line}: not a Python 3 program: {e.args[0]}") from e
    reader = _Reader(path)
    reader.read(tree)
    return sorted(set(reader.uses), key=lambda use: (use.line, use.name))


def resolve(name: str) -> Any:
    """What Thalweg has under a name such as `tensorflow.nn.relu`; a marker that is no module if nothing."""
    _, *parts = name.split(".")
    value: Any = aliased("compat.v1")
    for i, part in enumerate(parts):
        if not (isinstance(value, ModuleType) or inspect.isclass(value)):
            return value  # An attribute of an instance or of a function's result: not known before the program runs.
        found = getattr(value, part, _MISSING)
        if found is _MISSING and isinstance(value, ModuleType):
            module = aliased(".".join(parts[: i + 1]))
            found = _MISSING if module is None else module
        if found is _MISSING:
            return _MISSING
        value = found
    return value


def missing_part(name: str) -> str | None:
    """The shortest beginning of a name that Thalweg lacks, or None: it has all of it."""
    if resolve(name) is not _MISSING:
        return None
    parts = name.split(".")
    return next(".".join(parts[:n]) for n in range(2, len(parts) + 1) if resolve(".".join(parts[:n])) is _MISSING)


def files_of(path: Path) -> Iterator[Path]:
    """A program, or all Python files of a folder."""
    if path.is_dir():
        yield from sorted(path.rglob("*.py"))
    elif path.exists():
        yield path
    else:
        raise FileNotFoundError(f"there is no program or folder '{path}'")
