"""Finds the syntax tree of a function: by its code object, in the file that it was compiled from."""

from __future__ import annotations

import ast
import linecache
import threading
from collections import OrderedDict
from types import CodeType
from typing import Any, Final, NamedTuple

AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class SourceMissing(Exception):
    """The text that a function was compiled from is not there, or does not describe it any more."""


class Found(NamedTuple):
    """A function in its file: a copy of its tree, which may be changed, and the class around it, if there is one."""

    node: Any
    class_name: str | None


_FILES: Final = 16  # Trees of so many files are kept.
_files: OrderedDict[str, tuple[list[str], dict[int, list[Found]]]] = OrderedDict()
_lock: Final = threading.Lock()


def find(code: CodeType, module_globals: Any = None) -> Found:
    """The tree of the function that a code object was compiled from.

    Raises:
        SourceMissing: If there is no text, or none that fits.
    """
    lines = linecache.getlines(code.co_filename, module_globals)
    if not lines:
        raise SourceMissing(f"the source code of '{code.co_name}' is not available ({code.co_filename})")
    with _lock:
        known = _files.get(code.co_filename)
        if known is None or known[0] is not lines:
            known = _files[code.co_filename] = (lines, _index("".join(lines), code.co_filename))
            while len(_files) > _FILES:
                _files.popitem(last=False)
    candidates = [found for found in known[1].get(code.co_firstlineno, ()) if _describes(found.node, code)]
    if len(candidates) > 1:
        candidates = [found for found in candidates if _contains(found.node, code)][-1:]  # The innermost one.
    if not candidates:
        raise SourceMissing(
            f"line {code.co_firstlineno} of {code.co_filename} does not hold '{code.co_name}' any more: "
            "the file was changed after it was imported"
        )
    return Found(copy_tree(candidates[0].node), candidates[0].class_name)


def _index(text: str, filename: str) -> dict[int, list[Found]]:
    """The functions of a file by the line that their code objects name, outer ones first."""
    try:
        tree = ast.parse(text, filename)
    except (SyntaxError, ValueError) as e:
        raise SourceMissing(f"{filename} cannot be parsed: {e}") from None
    index: dict[int, list[Found]] = {}
    stack: list[tuple[ast.AST, str | None]] = [(tree, None)]
    while stack:
        node, class_name = stack.pop()
        if isinstance(node, AnyFunction):
            decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
            line = min([node.lineno, *(each.lineno for each in decorators)])
            index.setdefault(line, []).append(Found(node, class_name))
        elif isinstance(node, ast.ClassDef):
            class_name = node.name
        stack.extend((child, class_name) for child in ast.iter_child_nodes(node))
    return index


def _describes(node: Any, code: CodeType) -> bool:
    """Whether name and arguments are those of the code object."""
    if ("<lambda>" if isinstance(node, ast.Lambda) else node.name) != code.co_name:
        return False
    args = node.args
    names = [arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    names += [arg.arg for arg in (args.vararg, args.kwarg) if arg is not None]
    count = len(names)
    found = code.co_varnames[:count]
    # Names with two leading underscores are longer in a class.
    return len(found) == count and all(f == n or f.endswith(n) for f, n in zip(found, names, strict=True))


def _contains(node: Any, code: CodeType) -> bool:
    """Whether all instructions of a lambda's code object come from within its body."""
    if not isinstance(node, ast.Lambda):
        return True
    body = node.body
    first, last = (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)
    inside = 0
    for line, end_line, column, end_column in code.co_positions():
        if line is None or end_line is None or column is None or end_column is None or (column, end_column) == (0, 0):
            continue
        if not (first <= (line, column) and (end_line, end_column) <= last):
            return False
        inside += 1
    return inside > 0


def copy_tree(node: Any) -> Any:
    """A deep copy of a syntax tree: much cheaper than copy.deepcopy."""
    if isinstance(node, list):
        return [copy_tree(each) for each in node]
    if not isinstance(node, ast.AST):
        return node
    copy = type(node).__new__(type(node))  # Its constructor would ask for the required fields, from Python 3.13 on.
    for key, value in node.__dict__.items():
        setattr(copy, key, copy_tree(value) if isinstance(value, (list, ast.AST)) else value)
    return copy
