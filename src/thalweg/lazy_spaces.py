"""Public namespaces whose files are loaded when a program first asks for one of their names: `tf.contrib.*`.

A folder of the package below a lazy root (`contrib/layers/`) is a namespace (`tf.contrib.layers`). Its modules export
as all others do; they are imported together at the first attribute that is not bound yet, and their exports bound.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from types import ModuleType
from typing import Any, Final

from thalweg.graph.definitions import op_registry

_PACKAGE: Final = "thalweg"
_FOLDER: Final = os.path.dirname(os.path.abspath(__file__))
_ROOTS: Final = ("contrib",)

# Namespaces that also hold every name of another one.
_ALSO: Final = {
    "contrib.distributions": "distributions",
    "contrib.data": "data.experimental",
    "contrib.signal": "signal",
    "contrib.image": "image",
    "contrib.lookup": "lookup",
    "contrib.estimator": "estimator",
    "contrib.feature_column": "feature_column",
    "contrib.keras": "keras",
    "contrib.linalg": "linalg",
    "contrib.saved_model": "saved_model",
    "contrib.bitwise": "bitwise",
    "contrib.distribute": "distribute",
}
_bound: set[str] = set()
_lock: Final = threading.RLock()


class LazySpace(ModuleType):
    """A namespace that imports its modules when it is asked for a name that it does not have yet."""

    def __init__(self, name: str, folder: str | None) -> None:
        """Takes the full name, and the folder of its modules (None: there are none, only other names of values)."""
        super().__init__(name, f"The public names under `tf.{name.partition('.')[2]}`.")
        self.__path__: list[str] = [] if folder is None else [folder]
        self.__package__ = name
        self._loaded = folder is None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self._load()
        if name == "__all__":
            return sorted(key for key in self.__dict__ if not key.startswith("_"))
        if name in self.__dict__:
            return self.__dict__[name]
        other = _ALSO.get(self.__name__.partition(".")[2])
        if other is not None and not name.startswith("_"):
            value: Any = sys.modules[_PACKAGE]
            for part in (*other.split("."), name):
                value = getattr(value, part, None)
            if value is not None:
                return value
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        self._load()
        return sorted(self.__dict__)

    def _load(self) -> None:
        with _lock:
            if self._loaded:
                return
            self._loaded = True
            import pkgutil  # Start-up time: programs that use no lazy namespace do without it.

            try:
                for module in pkgutil.walk_packages(self.__path__, self.__name__ + "."):
                    importlib.import_module(module.name)
            except BaseException:
                self._loaded = False
                raise
            bind_exports()


def make_spaces(top: ModuleType) -> None:
    """Makes the namespaces of the folders below the roots, without reading a file of theirs."""
    for root in _ROOTS:
        folder = os.path.join(_FOLDER, root)
        space = _add(top, root, folder)
        space._loaded = True  # Its modules are namespaces of their own, or private.
        for entry in sorted(os.scandir(folder), key=lambda each: each.name):
            if entry.is_dir() and not entry.name.startswith("_"):
                _add(space, entry.name, entry.path)
    for dotted in _ALSO:
        parent, _, name = dotted.rpartition(".")
        outer = sys.modules[f"{_PACKAGE}.{parent}"]
        if name not in outer.__dict__:
            _add(outer, name, None)


def _add(parent: ModuleType, name: str, folder: str | None) -> LazySpace:
    space = LazySpace(f"{parent.__name__}.{name}", folder)
    sys.modules[space.__name__] = space
    setattr(parent, name, space)
    return space


def lazy_spaces() -> list[str]:
    """The dotted public names of the namespaces that are loaded when first used."""
    found = [name for name, module in sys.modules.items() if isinstance(module, LazySpace)]
    return sorted(name.partition(".")[2] for name in found)


def load_all() -> None:
    """Loads every lazy namespace: for tools that list all public names."""
    for name in lazy_spaces():
        sys.modules[f"{_PACKAGE}.{name}"]._load()


def bind_exports() -> None:
    """Binds what has been exported since the last call, each value under its dotted public name."""
    top = sys.modules[_PACKAGE]
    for dotted, value in list(op_registry.exports().items()):  # Namespaces may be files, which export more.
        if dotted in _bound:
            continue
        _bound.add(dotted)
        space, _, name = dotted.rpartition(".")
        setattr(space_module(top, space) if space else top, name, value)


def space_module(parent: ModuleType, dotted: str) -> ModuleType:
    """The module object of a public namespace: one of the package's own, or an empty one made for the purpose."""
    module = parent
    for part in dotted.split("."):
        child = module.__dict__.get(part)
        if not isinstance(child, ModuleType):
            name = f"{module.__name__}.{part}"
            child = sys.modules.get(name)
            path = os.path.join(_FOLDER, *name.split(".")[1:])
            if child is None and (os.path.isdir(path) or os.path.isfile(path + ".py")):
                child = importlib.import_module(name)
            if child is None:
                child = ModuleType(name, f"The public names under `tf.{name.partition('.')[2]}`.")
                child.__path__ = []  # Names below it may be imported as modules.
                sys.modules[name] = child
            setattr(module, part, child)
        module = child
    return module
