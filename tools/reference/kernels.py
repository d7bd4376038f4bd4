"""In which file and line of `core/` the kernels of an op type are registered: found in the text of the sources."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from thalweg._native import core
from thalweg.graph.definitions import op_registry

REPOSITORY = Path(__file__).resolve().parents[2]

_WORD = re.compile(r'kernel\("(\w+)"|"(\w+)"|\b([A-Z]\w*)\b')


@functools.cache
def places() -> dict[str, list[tuple[str, int]]]:
    """For each op type with a native kernel, the (file, line) of its registrations.

    A registration names the op type in full, or the macro or table that registers it adds a prefix or suffix: then the
    file that names the longest part of it is the one.
    """
    exact: dict[str, list[tuple[str, int]]] = {}
    named: dict[str, list[tuple[str, int]]] = {}
    parts: dict[str, list[tuple[str, int]]] = {}
    for path in sorted((REPOSITORY / "core").rglob("*.cc")):
        text = path.read_text()
        if "REGISTER" not in text:
            continue
        file = str(path.relative_to(REPOSITORY))
        for number, line in enumerate(text.splitlines(), 1):
            if line.lstrip().startswith(("//", "#include")):
                continue
            for in_call, quoted, token in _WORD.findall(line):
                if in_call:
                    exact.setdefault(in_call, []).append((file, number))
                if quoted:
                    named.setdefault(quoted, []).append((file, number))
                # The full name of one op is no part of another's.
                part = "" if op_registry.is_defined(in_call) else in_call or quoted or token
                if part and (quoted or in_call or "REGISTER" in line):
                    parts.setdefault(part, []).append((file, number))
    found = {}
    for definition in op_registry.all_ops():
        op = definition.name
        if core.has_kernel(op) and definition.python_kernel is None:
            found[op] = exact.get(op) or named.get(op) or _longest_part(op, parts)
    return {op: _first_lines(lines) for op, lines in found.items()}


def _longest_part(op: str, parts: dict[str, list[tuple[str, int]]]) -> list[tuple[str, int]]:
    fitting = [p for p in parts if p == op or (len(p) > 3 and (op.startswith(p) or op.endswith(p)))]
    fitting = fitting or [p for p in parts if len(p) > 3 and p in op]
    return parts[max(fitting, key=len)] if fitting else []


def _first_lines(lines: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """One line for each file."""
    return list({file: (file, number) for file, number in reversed(lines)}.values())[::-1]
