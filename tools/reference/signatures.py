"""Signatures as a reader wants to see them: defaults by their public names, `Any` left out."""

from __future__ import annotations

import inspect
import re
from typing import Any

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
        pieces.append(_parameter(parameter))
        following = parameters[i + 1].kind if i + 1 < len(parameters) else None
        if parameter.kind is parameter.POSITIONAL_ONLY and following is not parameter.POSITIONAL_ONLY:
            pieces.append("/")
    result = "" if inspect.isclass(value) else _annotation(found.return_annotation)
    return f"({', '.join(pieces)})" + (f" -> {result}" if result else "")


def _parameter(parameter: inspect.Parameter) -> str:
    star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    annotation = _annotation(parameter.annotation)
    text = star + parameter.name + (f": {annotation}" if annotation else "")
    if parameter.default is parameter.empty:
        return text
    return f"{text} = {default(parameter.default)}" if annotation else f"{text}={default(parameter.default)}"


def _annotation(annotation: Any) -> str:
    """An annotation as text; nothing where it says nothing."""
    if annotation in (inspect.Parameter.empty, Any, "Any", "object"):
        return ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"\b(?:thalweg|collections\.abc|typing|builtins)\.(?:\w+\.)*", "", text)
    try:
        compile(text, "annotation", "eval")
    except SyntaxError:
        return ""
    return text


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
