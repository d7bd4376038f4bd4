"""The function forms of layers: `tf.layers.conv2d(inputs, ...)` makes a `tf.layers.Conv2D(...)` and calls it once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.layers.layer import Layer


def export_function(
    name: str, layer: type[Layer], reusable: bool = True, call_arguments: dict[str, Any] | None = None, before: str = ""
) -> Callable[..., Any]:
    """Makes a function whose arguments are the inputs, then those of the layer's constructor, and exports it.

    Args:
        name: The public name below `tf.layers`.
        layer: The class.
        reusable: Whether `reuse` is the argument after the constructor's.
        call_arguments: Names and defaults of arguments that go to the call instead of the constructor.
        before: The argument of the constructor that those of the call stand before.

    Returns:
        The function.
    """
    kind = Parameter.POSITIONAL_OR_KEYWORD
    own = [p for p in list(inspect.signature(layer.__init__).parameters.values())[1:] if p.kind is kind]
    extra = [Parameter(key, kind, default=value) for key, value in (call_arguments or {}).items()]
    place = next((i for i, p in enumerate(own) if p.name == before), len(own))
    parameters = [Parameter("inputs", kind), *own[:place], *extra, *own[place:]]
    if reusable:
        # In its traditional place, after the name.
        at = next(i for i, p in enumerate(parameters) if p.name == "name") + 1
        parameters.insert(at, Parameter("reuse", kind, default=None))
    signature = inspect.Signature(parameters)

    def function(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        given = dict(bound.arguments)
        inputs = given.pop("inputs")
        options = {key: given.pop(key) for key in list(given) if key in (call_arguments or {})}
        if reusable:
            given["_reuse"] = given.pop("reuse", None)
            given["_scope"] = given.get("name")
        return layer(**given)(inputs, **options)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{layer.__doc__}\n\nThe function form of `tf.layers.{layer.__name__}`.\n"
    function.__signature__ = signature  # type: ignore[attr-defined]
    return export(f"layers.{name}")(function)
