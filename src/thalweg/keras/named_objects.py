"""Objects by name or config: how 'relu', {'class_name': ...} and custom objects become functions and classes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from thalweg.graph.definitions.op_registry import export

_custom: Final[dict[str, Any]] = {}


@export("keras.utils.get_custom_objects")
def get_custom_objects() -> dict[str, Any]:
    """The table of a program's own classes and functions by name; changes count at once."""
    return _custom


@export("keras.utils.CustomObjectScope", "keras.utils.custom_object_scope")
class CustomObjectScope:
    """A context in which further names stand for a program's own classes and functions."""

    def __init__(self, *tables: Mapping[str, Any]) -> None:
        """Takes tables of objects by name."""
        self._tables = tables
        self._before: dict[str, Any] = {}

    def __enter__(self) -> CustomObjectScope:
        self._before = dict(_custom)
        for table in self._tables:
            _custom.update(table)
        return self

    def __exit__(self, *error: object) -> None:
        _custom.clear()
        _custom.update(self._before)


class Registry:
    """The objects of one kind (activations, initializers, ...) by their names."""

    def __init__(self, kind: str) -> None:
        """Takes the name of the kind, for errors."""
        self._kind = kind
        self._objects: dict[str, Any] = {}

    def add(self, name: str, value: Any) -> None:
        """Names an object."""
        self._objects[name] = value

    def get(self, identifier: Any) -> Any:
        """The object of a name, a config or an object; None of None.

        Raises:
            ValueError: If it is none of these.
        """
        if identifier is None:
            return None
        if isinstance(identifier, Mapping):
            return self.deserialize(identifier)
        if isinstance(identifier, str):
            found = self._find(identifier)
            return found() if inspect.isclass(found) else found
        if inspect.isclass(identifier):
            return identifier()
        if callable(identifier):
            return identifier
        raise ValueError(f"Could not interpret {self._kind} identifier: {identifier!r}")

    def deserialize(self, config: Any, custom_objects: Mapping[str, Any] | None = None) -> Any:
        """The object of a result of `serialize`."""
        if isinstance(config, str):
            found = (custom_objects or {}).get(config)
            return self.get(config) if found is None else found
        cls = (custom_objects or {}).get(config["class_name"]) or self._find(config["class_name"])
        arguments = dict(config.get("config", {}))
        return cls.from_config(arguments) if hasattr(cls, "from_config") else cls(**arguments)

    def serialize(self, value: Any) -> Any:
        """The name of a function, or the class and config of an object."""
        if value is None:
            return None
        if hasattr(value, "get_config"):
            return {"class_name": type(value).__name__, "config": value.get_config()}
        for name, known in self._objects.items():
            if known is value:
                return name
        return value.__name__

    def _find(self, name: str) -> Any:
        if name in _custom:
            return _custom[name]
        if name in self._objects:
            return self._objects[name]
        raise ValueError(f"Unknown {self._kind}: {name}. Known: {', '.join(sorted(self._objects))}.")


def export_registry(space: str, registry: Registry) -> None:
    """Exports `get`, `serialize` and `deserialize` of a namespace."""
    for name in ("get", "serialize", "deserialize"):
        function: Callable[..., Any] = getattr(registry, name)
        export(f"{space}.{name}")(function)
