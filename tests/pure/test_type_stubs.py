"""The stubs of the public namespace are those that the registry of exports gives, and declare every public name."""

from __future__ import annotations

import ast
from pathlib import Path

from type_stubs.__main__ import PACKAGE, public_names, stubs


def test_the_stubs_are_up_to_date() -> None:
    stale = [str(place) for place, text in stubs() if not _is(PACKAGE / place, text)]
    assert stale == [], "run: cd tools && python -m type_stubs"


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


def test_every_public_name_is_declared_once_and_nothing_is_left_open() -> None:
    written = dict(stubs())
    for space, names in public_names().items():
        place = Path(*space.split(".")) if space else Path()
        if space and (PACKAGE / place).with_suffix(".py").exists():  # A module of the package has the name.
            place = place.with_name(f"_public_{place.name}")
        text = written.get(place / "__init__.pyi") or written[place.with_suffix(".pyi")]
        declared = [_name(each) for each in ast.parse(text).body if _name(each)]
        assert {name for name in names if name.isidentifier()} <= set(declared), space
        assert len(declared) == len(set(declared)), space
        assert "__getattr__" not in declared


def test_type_checkers_see_every_name() -> None:
    for place, text in stubs():
        for statement in ast.parse(text).body:
            if isinstance(statement, (ast.ImportFrom, ast.Import)) and (name := statement.names[0].asname):
                seen = name == statement.names[0].name or name.startswith("_")
                assert seen, f"{place}: {ast.unparse(statement)} makes the name private to the stub"


def _name(statement: ast.stmt) -> str:
    if isinstance(statement, (ast.ImportFrom, ast.Import)):
        return statement.names[0].asname or statement.names[0].name
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return statement.name if isinstance(statement, ast.FunctionDef) else ""


def test_the_package_says_that_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()
