"""Signatures as a reader wants to see them: defaults by their public names, `Any` left out."""

from __future__ import annotations

import builtins
import functools
import inspect
import re
import sys
from typing import Any

from thalweg.graph.definitions import op_registry
from thalweg.graph.dtypes import DType

_SIMPLE = (bool, int, float, str, bytes, type(None))


def signature(value: Any, *, is_method: bool = False) -> str:
    """The arguments of a function or class in parentheses, and the type of its result."""
    try:
        found = inspect.signature(value)
    except (ValueError, TypeError):
        return "(...)"
    parameters = list(found.parameters.values())
    if is_method and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    pieces: list[str] = []
    seen_star = False
    for i, parameter in enumerate(parameters):
        if parameter.kind is parameter.KEYWORD_ONLY and not seen_star:
            pieces.append("*")
            seen_star = True
        seen_star = seen_star or parameter.kind is parameter.VAR_POSITIONAL
        pieces.append(_parameter(parameter, value))
        following = parameters[i + 1].kind if i + 1 < len(parameters) else None
        if parameter.kind is parameter.POSITIONAL_ONLY and following is not parameter.POSITIONAL_ONLY:
            pieces.append("/")
    result = "" if inspect.isclass(value) else _annotation(found.return_annotation, value)
    return f"({', '.join(pieces)})" + (f" -> {result}" if result else "")


def _parameter(parameter: inspect.Parameter, owner: Any) -> str:
    star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    annotation = _annotation(parameter.annotation, owner)
    text = star + parameter.name + (f": {annotation}" if annotation else "")
    if parameter.default is parameter.empty:
        return text
    return f"{text} = {default(parameter.default)}" if annotation else f"{text}={default(parameter.default)}"


def _annotation(annotation: Any, owner: Any) -> str:
    """An annotation of a function or class as text, classes by their public names; nothing where it says nothing."""
    if annotation in (inspect.Parameter.empty, Any, "Any", "object"):
        return ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"\b(?:thalweg|collections\.abc|typing|builtins)\.(?:\w+\.)*", "", text)
    try:
        compile(text, "annotation", "eval")
    except SyntaxError:
        return ""
    known = vars(sys.modules.get(inspect.unwrap(owner).__module__, sys))
    return re.sub(r"(?<![\w.'\"])[A-Za-z_]\w*(?![\w.'\"])", lambda found: _public_name(found[0], known), text)


def _public_name(name: str, known: dict[str, Any]) -> str:
    """The public name of a class that annotations call `name`: several public classes may have the same last part."""
    by_identity, by_last_part = _public_classes()
    if name in known or hasattr(builtins, name):
        public = by_identity.get(id(known.get(name)))
    else:
        public = by_last_part.get(name)  # The module imports it for type checkers only.
    if public is not None:
        return f"tf.{public}"
    # Python's own class of that name, such as Iterator, in full: the site generator would look for a public one.
    module = getattr(known.get(name), "__module__", "")
    return f"{module}.{name}" if name in by_last_part and module in ("collections.abc", "typing") else name


@functools.cache
def _public_classes() -> tuple[dict[int, str], dict[str, str]]:
    """The shortest public name of each public class, by its identity and by its last part."""
    by_identity: dict[int, str] = {}
    by_last_part: dict[str, str] = {}
    for dotted, value in sorted(op_registry.exports().items(), key=lambda item: (len(item[0]), item[0])):
        if inspect.isclass(value):
            by_identity.setdefault(id(value), dotted)
            by_last_part.setdefault(dotted.rpartition(".")[2], dotted)
    return by_identity, by_last_part


def default(value: Any) -> str:
    """A default value as an expression."""
    if isinstance(value, DType):
        return f"tf.{value.name}"
    if isinstance(value, _SIMPLE):
        return repr(value)
    if isinstance(value, (tuple, list)) and all(isinstance(each, _SIMPLE) for each in value):
        return repr(value)
    if (inspect.isroutine(value) or inspect.isclass(value)) and value.__name__.isidentifier():
        return str(value.__name__)
    return "..."
