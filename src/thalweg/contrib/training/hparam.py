"""HParams: named hyperparameters with types, which text can change."""

from __future__ import annotations

import json
import numbers
import re
from typing import Any

from thalweg.graph.definitions.op_registry import export


@export("contrib.training.parse_values")
def parse_values(values: str, type_map: dict[str, Any], ignore_unknown: bool = False) -> dict[str, Any]:
    """Reads `a=1,b[2]=3,c=[4,5]`: values by name, of the types in `type_map`.

    Raises:
        ValueError: If the text is malformed, a name unknown or set twice, or a value of another type.

    Example:
        >>> tf.contrib.training.parse_values("rate=0.5,sizes=[1,2]", {"rate": float, "sizes": int})
        {'rate': 0.5, 'sizes': [1, 2]}
    """
    results: dict[str, Any] = {}
    position = 0
    pattern = re.compile(
        r"\s*(?P<name>[a-zA-Z][\w.]*)(\[\s*(?P<index>\d+)\s*\])?\s*=\s*(\[(?P<list>[^\]]*)\]|(?P<value>[^,\[]*))\s*($|,\s*)"
    )
    while position < len(values):
        match = pattern.match(values, position)
        if not match:
            raise ValueError(f"Malformed hyperparameter value: {values[position:]}")
        position = match.end()
        name = match["name"]
        if name not in type_map:
            if ignore_unknown:
                continue
            raise ValueError(f"Unknown hyperparameter type for {name}")
        kind = type_map[name]
        if match["value"] is not None:
            parsed = _parsed(name, kind, match["value"].strip(), values)
            if match["index"] is not None:
                entries = results.setdefault(name, {})
                if not isinstance(entries, dict) or int(match["index"]) in entries:
                    raise ValueError(f"Multiple assignments to {name!r} in {values!r}")
                entries[int(match["index"])] = parsed
                continue
            if name in results:
                raise ValueError(f"Multiple assignments to variable '{name}' in {values}")
            results[name] = parsed
        else:
            if match["index"] is not None:
                raise ValueError(f"Assignment of a list to a list index: {values}")
            if name in results:
                raise ValueError(f"Multiple assignments to variable '{name}' in {values}")
            elements = [each.strip() for each in re.split("[ ,]", match["list"]) if each.strip()]
            results[name] = [_parsed(name, kind, each, values) for each in elements]
    return results


def _parsed(name: str, kind: Any, text: str, values: str) -> Any:
    try:
        if kind is bool:
            known = {"true": True, "1": True, "false": False, "0": False}
            if text.lower() not in known:
                raise ValueError(text)
            return known[text.lower()]
        return kind(text)
    except ValueError as e:
        raise ValueError(
            f"Could not parse hparam '{name}' of type '{kind.__name__}' with value '{text}' in {values}"
        ) from e


def _cast(name: str, kind: Any, value: Any) -> Any:
    """A value as the type of its parameter, where that loses nothing."""
    problem = ValueError(f"Could not cast hparam '{name}' of type '{kind}' from value {value!r}")
    if value is None or kind is type(None):
        return value
    if issubclass(kind, (str, bytes)):
        if not isinstance(value, (str, bytes)):
            raise problem
        return value
    is_number = isinstance(value, numbers.Number) and not isinstance(value, bool)
    if kind is bool:
        if not isinstance(value, bool) and value not in (0, 1):
            raise problem
        return bool(value)
    if issubclass(kind, numbers.Integral) and not (is_number and isinstance(value, numbers.Integral)):
        raise problem
    if issubclass(kind, numbers.Number) and not is_number:
        raise problem
    try:
        return kind(value)
    except (TypeError, ValueError) as e:
        raise problem from e


@export("contrib.training.HParams")
class HParams:
    """Hyperparameters as attributes, each of the type of its first value.

    Example:
        >>> hparams = tf.contrib.training.HParams(learning_rate=0.1, units=[10, 20])
        >>> hparams.parse("learning_rate=0.3,units[1]=30").values()
        {'learning_rate': 0.3, 'units': [10, 30]}
    """

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any) -> None:
        """Takes the first values."""
        self._hparam_types: dict[str, tuple[Any, bool]] = {}
        self._model_structure = model_structure
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds a parameter.

        Raises:
            ValueError: If the name is taken, or a list is empty.
        """
        if getattr(self, name, None) is not None:
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        if isinstance(value, (list, tuple)):
            if not value:
                raise ValueError(f"Multi-valued hyperparameters cannot be empty: {name}")
            self._hparam_types[name] = (type(value[0]), True)
        else:
            self._hparam_types[name] = (type(value), False)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Changes a parameter.

        Raises:
            KeyError: If there is none of that name.
            ValueError: If the value is of another type.
        """
        kind, is_list = self._hparam_types[name]
        if isinstance(value, list):
            if not is_list:
                raise ValueError(f"Must not pass a list for single-valued parameter: {name}")
            setattr(self, name, [_cast(name, kind, each) for each in value])
        else:
            if is_list:
                raise ValueError(f"Must pass a list for multi-valued parameter: {name}.")
            setattr(self, name, _cast(name, kind, value))

    def del_hparam(self, name: str) -> None:
        """Removes a parameter, if it is there."""
        if hasattr(self, name):
            delattr(self, name)
            del self._hparam_types[name]

    def parse(self, values: str) -> HParams:
        """Changes parameters as text says, `name=value,…`; returns itself."""
        type_map = {name: kind for name, (kind, _) in self._hparam_types.items()}
        found = parse_values(values, type_map)
        for name, value in found.items():
            if isinstance(value, dict):
                current = list(getattr(self, name))
                for index, entry in value.items():
                    if index >= len(current):
                        raise ValueError(f"{name} has {len(current)} entries; there is no index {index}")
                    current[index] = entry
                found[name] = current
        return self.override_from_dict(found)

    def override_from_dict(self, values_dict: dict[str, Any]) -> HParams:
        """Changes parameters; returns itself."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def set_from_map(self, values_map: dict[str, Any]) -> HParams:
        """The old name of `override_from_dict`."""
        return self.override_from_dict(values_map)

    def set_model_structure(self, model_structure: Any) -> None:
        """Keeps an object that describes the model."""
        self._model_structure = model_structure

    def get_model_structure(self) -> Any:
        """The object that describes the model."""
        return self._model_structure

    def to_json(self, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
        """The parameters as JSON, without those that are functions."""
        values = {name: value for name, value in self.values().items() if not callable(value)}
        return json.dumps(values, indent=indent, separators=separators, sort_keys=sort_keys)

    def parse_json(self, values_json: str) -> HParams:
        """Changes parameters as JSON says; returns itself."""
        return self.override_from_dict(json.loads(values_json))

    def values(self) -> dict[str, Any]:
        """The parameters by name."""
        return {name: getattr(self, name) for name in self._hparam_types}

    def get(self, key: str, default: Any = None) -> Any:
        """A parameter, or `default` if there is none of that name.

        Raises:
            ValueError: If the default is of another type.
        """
        if key not in self._hparam_types:
            return default
        if default is not None:
            kind, is_list = self._hparam_types[key]
            message = f"Hparam '{key}' of type '{kind}' is incompatible with default={default}"
            if is_list != isinstance(default, list):
                raise ValueError(message)
            for each in default if is_list else [default]:
                try:
                    _cast(key, kind, each)
                except ValueError as e:
                    raise ValueError(f"{message}. {e}") from e
        return getattr(self, key)

    def __contains__(self, key: str) -> bool:
        return key in self._hparam_types

    def __str__(self) -> str:
        return str(sorted(self.values().items()))

    def __repr__(self) -> str:
        return f"HParams({self})"
