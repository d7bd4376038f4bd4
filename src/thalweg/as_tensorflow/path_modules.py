"""Modules of TensorFlow's internal paths: objects that find their names in Thalweg's public namespaces and files."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from thalweg.as_tensorflow.module_table import CONTRIB_FILES, is_package, sources_of, submodules
from thalweg.graph.definitions import op_registry
from thalweg.graph.definitions.op_registry import OpDef

_PACKAGE: Final = "thalweg"
_PROTO: Final = "tensorboard.compat.proto"
_MISSING: Final = object()


class PathModule(ModuleType):
    """A module such as `thalweg.python.framework.ops`: no code of its own, names from its sources."""

    def __init__(self, path: str, sources: str) -> None:
        """Takes the path below the package, and its line of `module_table`."""
        super().__init__(f"{_PACKAGE}.{path}", f"What programs use of TensorFlow's module `tensorflow.{path}`.")
        self._path = path
        self._sources = sources.split()
        if is_package(path):
            self.__path__: list[str] = []
        self.__package__ = self.__name__ if is_package(path) else self.__name__.rpartition(".")[0]

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return _star_names(self._sources)
        if not (name.startswith("__") and name.endswith("__")):
            if name in submodules(self._path):
                return importlib.import_module(f"{self.__name__}.{name}")
            for source in self._sources:
                value = _in_source(source, name, self._path)
                if value is not _MISSING:
                    setattr(self, name, value)
                    return value
        raise AttributeError(
            f"Thalweg has no 'tensorflow.{self._path}.{name}'. `thalweg check` lists all names that a program lacks."
        )

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *submodules(self._path)})


class FileModule(ModuleType):
    """A file or folder of a contrib library (`contrib.rnn.python.ops.core_rnn_cell`): all names of the library."""

    def __init__(self, name: str, space: ModuleType, library: ModuleType) -> None:
        """Takes the full name, the namespace of the file, and that of the whole library."""
        super().__init__(name, f"The names of `{space.__name__}`.")
        self.__path__: list[str] = []
        self._space = space
        self._library = library

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(self._space, name, _MISSING)
        if value is _MISSING:
            value = getattr(self._library, name)
        # A file of ours that happens to have the name of TensorFlow's holds other names than the library.
        is_file = isinstance(value, ModuleType) and name in CONTRIB_FILES
        return importlib.import_module(f"{self.__name__}.{name}") if is_file else value


def make_module(path: str) -> ModuleType | None:
    """Makes the module of a path such as `python.framework.ops`, or finds the one that it stands for; None: unknown."""
    sources = sources_of(path)
    if sources is None:
        return None
    single = sources.split()
    if len(single) == 1 and single[0].startswith(".") and not is_package(path):
        module = import_if_there(_PACKAGE + single[0])
        if module is not None:
            return module
    if len(single) == 1 and single[0].startswith("tf.") and not is_package(path):
        space = _namespace(single[0])
        if isinstance(space, ModuleType):
            return space
    if sources == "proto":
        return import_if_there(f"{_PROTO}.{path.rpartition('.')[2]}")
    return PathModule(path, sources)


def import_if_there(name: str) -> ModuleType | None:
    """Imports a module; None if there is none of that name. Errors inside of it are errors."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as e:
        if e.name is not None and not name.startswith(e.name):
            raise
        return None


def _in_source(source: str, name: str, path: str) -> Any:
    if "=" in source:
        other, _, source = source.partition("=")
        return import_if_there(_PACKAGE + source) if name == other else _MISSING
    if source == "raw":
        return _raw_op(name)
    if source.startswith("."):
        module = import_if_there(_PACKAGE + source)
        return _MISSING if module is None else getattr(module, name, _MISSING)
    found = getattr(_namespace(source), name, _MISSING)
    # A library's folder is no public name of its own: `python.ops.array_ops.runtime` is nothing.
    if isinstance(found, ModuleType) and source == "tf" and path != "python":
        return _MISSING
    return found


def _star_names(sources: list[str]) -> list[str]:
    """What `from module import *` binds: not all of the top's names and op types, which would hide Python's own."""
    names: set[str] = set()
    for source in sources:
        if source in ("tf", "raw") or "=" in source:
            continue
        is_file = source.startswith(".")
        found = import_if_there(_PACKAGE + source) if is_file else _namespace(source)
        if not isinstance(found, ModuleType):
            continue
        for name in getattr(found, "__all__", None) or dir(found):
            value = getattr(found, name, _MISSING)
            own = not is_file or getattr(value, "__module__", None) == found.__name__
            if own and not name.startswith("_") and value is not _MISSING and not isinstance(value, ModuleType):
                names.add(name)
    return sorted(names)


def _namespace(source: str) -> Any:
    value: Any = sys.modules[_PACKAGE]
    for part in source.split(".")[1:]:
        value = getattr(value, part, _MISSING)
    return value


_functions: dict[str, Callable[..., Any]] = {}


def _snake_case(op_type: str) -> str:
    """TensorFlow's name of an op's function: `conv3d_backprop_input_v2` of Conv3DBackpropInputV2."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<!^)(?=[A-Z][a-z])", "_", op_type).lower()


def _raw_op(name: str) -> Any:
    """The function of an op type under its name in snake case: inputs, then attributes, by position or by name."""
    if not _functions:
        _functions.update({_snake_case(each.name): _positional(each) for each in op_registry.all_ops()})
    return _functions.get(name.lstrip("_"), _MISSING)


def _positional(definition: OpDef) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        inputs = [each.name for each in definition.inputs]
        order = [*inputs, *_stated_attributes(definition), "name"]
        if len(args) > len(order):
            raise TypeError(f"{definition.name} takes {len(order)} arguments ({', '.join(order)}), not {len(args)}")
        given = dict(zip(order, args, strict=False))
        doubled = sorted(set(given) & set(kwargs))
        if doubled:
            raise TypeError(f"{definition.name} got more than one value for {', '.join(doubled)}")
        raw_ops: Any = sys.modules[_PACKAGE + ".raw_ops"]
        return getattr(raw_ops, definition.name)(**{k: v for k, v in (given | kwargs).items() if v is not None})

    function.__name__ = function.__qualname__ = _snake_case(definition.name)
    function.__doc__ = definition.doc or f"Creates a node of type {definition.name}."
    return function


def _stated_attributes(definition: OpDef) -> list[str]:
    """The attributes that a caller states: those that no input says, required ones first."""
    said = {
        attr for each in definition.inputs for attr in (each.type_attr, each.number_attr, each.type_list_attr) if attr
    }
    stated = [attr for name, attr in definition.attrs.items() if name not in said]
    return [attr.name for attr in sorted(stated, key=lambda attr: attr.has_default)]
