"""How contrib layers create variables: those of `tf.layers`, under contrib's names and in its collections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from thalweg.contrib.framework.variables import model_variable
from thalweg.contrib.public_names import tf

_STATED: Final = (
    "shape", "dtype", "initializer", "regularizer", "trainable", "collections", "caching_device", "partitioner",
)  # fmt: skip


def renaming_getter(names: dict[str, str]) -> Callable[..., Any]:
    """A custom getter that makes model variables, with the last part of each name as `names` says."""

    def renamed(getter: Any, name: str, **kwargs: Any) -> Any:
        scope, slash, short = name.rpartition("/")
        stated = {key: kwargs.pop(key) for key in list(kwargs) if key in _STATED}

        def create(_: Any, name: str, **chosen: Any) -> Any:
            return getter(name, **{**kwargs, **chosen})

        # By way of `model_variable`, whose defaults an arg_scope may change (its device, its collections).
        return model_variable(scope + slash + names.get(short, short), custom_getter=create, **stated)

    return renamed


def add_to_collections(value: Any, names: Any) -> None:
    """Adds a value to each of some collections; None: to none."""
    for name in [names] if isinstance(names, str) else names or ():
        tf.add_to_collection(name, value)


def collections_of(key: str, collections: Any) -> Any:
    """The collections of one kind of variable: a list for all, or a dict by kind."""
    return collections.get(key) if isinstance(collections, dict) else collections


def add_variable(value: Any, key: str, collections: Any) -> None:
    """Adds a layer's variable (or the parts of it) to the collections that the caller asked for."""
    if value is None:
        return
    for part in list(value) if hasattr(value, "_get_partitions") else [value]:
        add_to_collections(part, collections_of(key, collections))


def finished(collections: Any, scope_name: str, outputs: Any) -> Any:
    """The outputs of a layer, with the alias that `convert_collection_to_dict` shows, in the collections."""
    if collections:
        aliases = aliases_of(outputs)
        if scope_name not in aliases:
            aliases.append(scope_name)
        add_to_collections(outputs, collections)
    return outputs


def aliases_of(tensor: Any) -> list[str]:
    """The further names of a tensor, its attribute `aliases`: a list to be changed."""
    if not hasattr(tensor, "aliases"):
        tensor.aliases = []
    found: list[str] = tensor.aliases
    return found


def check_data_format(data_format: Any, allowed: tuple[str | None, ...]) -> None:
    """Checks the letters of a data format.

    Raises:
        ValueError: If they are others.
    """
    if data_format not in allowed:
        known = sorted(name for name in allowed if name is not None)
        raise ValueError(f"data_format has to be either {' or '.join(known)}. Got {data_format}.")


def keras_format(data_format: str | None) -> str:
    """What `tf.layers` calls a data format."""
    return "channels_first" if data_format and data_format.startswith("NC") else "channels_last"
