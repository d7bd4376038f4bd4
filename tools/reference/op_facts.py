"""The registry's facts about an op type, and the op types that a public function uses."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reference import kernels
from reference.docstrings import summary
from thalweg._native import core
from thalweg.graph import dtypes
from thalweg.graph.definitions import op_registry
from thalweg.graph.definitions.op_registry import OpDef
from thalweg.graph.definitions.op_signature import ArgDef, AttrDef


@dataclass(frozen=True)
class Source:
    """A place in the repository: a file, a line, and a description."""

    file: str
    line: int
    what: str


def source_of(function: Any, what: str = "") -> Source | None:
    """Where a Python function or class is defined; None if that is outside of the repository."""
    function = inspect.unwrap(function)
    try:
        path = Path(inspect.getsourcefile(function) or "").resolve()
        line = inspect.getsourcelines(function)[1]
    except (TypeError, OSError):
        return None
    if not path.is_relative_to(kernels.REPOSITORY):
        return None
    return Source(str(path.relative_to(kernels.REPOSITORY)), line, what or getattr(function, "__name__", ""))


def argument_type(argument: ArgDef) -> str:
    """The type of an input or output: an element type, or the attributes that decide it."""
    text = argument.type_list_attr or argument.type_attr or (argument.dtype.name if argument.dtype else "")
    if argument.number_attr:
        text = f"{argument.number_attr} * {text}"
    return f"Ref({text})" if argument.is_ref else text


def attribute_values(attr: AttrDef) -> str:
    """The values of an attribute: its kind, the values allowed, the minimum and the default."""
    text = attr.kind
    if attr.allowed is not None:
        allowed = ", ".join(a.name if isinstance(a, dtypes.DType) else repr(a.decode()) for a in attr.allowed)
        text = f"{attr.kind} of {allowed}" if attr.kind.startswith("list") else f"one of {allowed}"
    if attr.minimum is not None:
        text += f", at least {attr.minimum}"
    if attr.has_default:
        text += f"; default {_default_text(attr.default)}"
    return text


def _default_text(value: Any) -> str:
    if isinstance(value, bytes):
        return repr(value.decode())
    if isinstance(value, dtypes.DType):
        return value.name
    if isinstance(value, list):
        return f"[{', '.join(map(_default_text, value))}]"
    return str(value)


def kernel_types(definition: OpDef) -> dict[str, list[str]]:
    """Where the native kernels take fewer types than the attribute allows: those that they take, by attribute."""
    found = {}
    for attr in definition.attrs.values():
        if attr.kind == "type" and core.has_kernel(definition.name):
            types = [dtypes.as_dtype(number) for number in core.kernel_dtypes(definition.name, attr.name)]
            if types and not set(attr.allowed or types[:0]) <= set(types):
                found[attr.name] = [t.name for t in types if attr.allowed is None or t in attr.allowed]
    return {name: types for name, types in found.items() if types}


def shape_rule(definition: OpDef) -> tuple[str, Source | None]:
    """The rule of the static output shapes: its first sentence, if it has a docstring, and where it is."""
    rule = definition.shape
    if rule is None:
        return "", None
    place = source_of(rule)
    sentence = summary(rule)
    outer, _, _ = rule.__qualname__.partition(".<locals>")
    maker = getattr(sys.modules[rule.__module__], outer, None)
    if not sentence and maker is not None and maker is not rule:  # Made by a function: its sentence and its arguments.
        sentence, place = summary(maker), source_of(maker)
        given = inspect.getclosurevars(rule).nonlocals
        values = [f"{name} = {value!r}" for name, value in given.items() if isinstance(value, (int, str))]
        sentence += f" ({', '.join(values)})" if values and sentence else ""
    return sentence, place


def gradient(definition: OpDef) -> tuple[str, Source | None]:
    """Whether the op type is differentiable, and where its gradient is."""
    if not definition.has_gradient:
        return "not registered: gradients through it are an error", None
    function = op_registry.gradient_function(definition.name)
    if function is None:
        return "none: nothing flows back", None
    return "yes", source_of(function)


def implementation(definition: OpDef) -> tuple[str, list[Source]]:
    """The implementation of the op: its kind, and where it is."""
    if definition.python_kernel is not None:
        place = source_of(definition.python_kernel)
        return "on NumPy, in Python", [place] if place else []
    if core.has_kernel(definition.name):
        files = kernels.places().get(definition.name, [])
        return "native", [Source(file, line, "") for file, line in files]
    return "replaced by resource ops when a step is planned", [Source("src/thalweg/passes/references.py", 1, "")]


def declaration(definition: OpDef) -> Source:
    """Where an op type is declared: its module, at the first line that names it."""
    path = Path(sys.modules[definition.module].__file__ or "").resolve()
    lines = _lines(path)
    line = next((i for i, text in enumerate(lines, 1) if f'"{definition.name}"' in text), 1)
    return Source(str(path.relative_to(kernels.REPOSITORY)), line, "")


@functools.cache
def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


# --- The op types of a function -------------------------------------------------------------------------------


def ops_of(function: Any) -> list[str]:
    """The op types that a function names, in its own body or in private functions of its module that it calls."""
    function = inspect.unwrap(function)
    if inspect.isclass(function) or not inspect.isfunction(function):
        return []
    found: dict[str, None] = {}
    seen: set[Any] = set()
    stack = [function]
    while stack:
        each = stack.pop()
        if each in seen:
            continue
        seen.add(each)
        found.update(dict.fromkeys(_named_ops(each)))
        for value in inspect.getclosurevars(each).nonlocals.values():  # A function made for one op type.
            if isinstance(value, str) and op_registry.is_defined(value):
                found[value] = None
        stack += [helper for helper in _helpers(each) if helper not in seen]
    return list(found)


@functools.cache
def _tree(function: Any) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TypeError):
        return None


def _named_ops(function: Any) -> Iterator[str]:
    """Strings that are op types, except where they are the names of nodes and scopes."""
    tree = _tree(function)
    if tree is None:
        return
    excluded: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _callee(node).endswith(("scope", "startswith", "endswith", "export")):
            excluded.update(node.args)
        elif isinstance(node, ast.BoolOp):  # name or "Add"
            excluded.update(node.values)
        elif isinstance(node, ast.keyword) and node.arg == "name":
            excluded.add(node.value)
        elif isinstance(node, ast.arguments):
            excluded.update(node.defaults)
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and node not in excluded and op_registry.is_defined(node.value):
            yield node.value


def _helpers(function: Any) -> Iterator[Any]:
    """Private functions of the same module that a function calls."""
    tree = _tree(function)
    module = sys.modules.get(function.__module__)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.startswith("_"):
            helper = getattr(module, node.func.id, None)
            if inspect.isfunction(helper) and helper.__module__ == function.__module__:
                yield helper


def _callee(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
