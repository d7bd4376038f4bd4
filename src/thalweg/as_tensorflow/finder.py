"""The meta-path finders: `thalweg.python.*` and the like, and everything below `tensorflow` once that is installed.

A module has one object, whatever name it is imported by: `tensorflow.contrib.slim` is `thalweg.contrib.slim`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

from thalweg.as_tensorflow.module_table import CONTRIB_FILES, TABLES
from thalweg.as_tensorflow.path_modules import FileModule, import_if_there, make_module
from thalweg.lazy_spaces import is_lazy

_PACKAGE: Final = "thalweg"
ALIAS: Final = "tensorflow"
# Horovod's own module loads kernels into TensorFlow: programs that import it get the one with the same names here.
_HOROVOD: Final = "horovod"


class NoSuchModuleError(ModuleNotFoundError):
    """A module of TensorFlow that Thalweg does not have."""


class _Existing:
    """A loader that hands out a module which is there already, and leaves it as it is."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


def _spec(name: str, module: ModuleType) -> ModuleSpec:
    spec = ModuleSpec(name, _Existing(module), is_package=hasattr(module, "__path__"))  # type: ignore[arg-type]
    if hasattr(module, "__path__"):
        spec.submodule_search_locations = list(module.__path__)
    return spec


class PathFinder:
    """Finds `thalweg.python.framework.ops` and the other paths of `module_table`, and `thalweg.contrib.x.python.y`."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec of a module below the package, or None."""
        top, _, rest = name.partition(".")
        if top != _PACKAGE:
            return None
        if rest == "compat.v2" or rest.startswith("compat.v2."):
            module = _attribute(sys.modules[_PACKAGE], rest)
        elif rest.split(".")[0] in TABLES:
            module = make_module(rest)
        elif rest.startswith("contrib.") and rest.count(".") > 1:
            module = _contrib_module(rest)
        else:
            module = _library_space(rest)
        return None if module is None else _spec(name, module)


def _attribute(module: ModuleType, path: str) -> ModuleType | None:
    """The namespace at a path of attributes, or None."""
    found: object = module
    for part in path.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, ModuleType) else None


def _library_space(path: str) -> ModuleType | None:
    """A namespace inside of a library: `estimator.inputs`, which is there as soon as the library is loaded."""
    parent, _, last = path.rpartition(".")
    holder = sys.modules.get(f"{_PACKAGE}.{parent}") if is_lazy(parent) else None
    found = getattr(holder, last, None)
    return found if isinstance(found, ModuleType) else None


def _contrib_module(path: str) -> ModuleType | None:
    """TensorFlow's files of a contrib library (`contrib.slim.python.slim.nets.vgg`), and namespaces inside of one."""
    _, library, *rest = path.split(".")
    space = sys.modules.get(f"{_PACKAGE}.contrib.{library}")
    if space is None:
        return None
    is_file = rest[0] in ("python", "ops")
    module: ModuleType = space
    for part in rest:
        # A file of TensorFlow's may lie in a folder that has another place here: all files know the whole library.
        found = _namespace_in(module, part) or (_namespace_in(space, part) if is_file else None)
        if found is not None:
            module = found
        elif not is_file or part not in CONTRIB_FILES:
            return None
    if not is_file or rest[-1] not in CONTRIB_FILES:
        return module
    return FileModule(f"{_PACKAGE}.{path}", module, space)


def _namespace_in(module: ModuleType, name: str) -> ModuleType | None:
    found = getattr(module, name, None)
    return found if isinstance(found, ModuleType) and not isinstance(found, FileModule) else None


class AliasFinder:
    """Finds `tensorflow.a.b` as `thalweg.a.b` before any other finder does, and `horovod.tensorflow`."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec of a module below `tensorflow`.

        Raises:
            NoSuchModuleError: If Thalweg has none of that name.
        """
        top, _, rest = name.partition(".")
        if top == _HOROVOD:
            return _horovod_spec(name, rest)
        if top != ALIAS or not rest:
            return None
        module = aliased(rest)
        if module is None:
            raise NoSuchModuleError(f"Thalweg has no module '{name}'", name=name)
        return _spec(name, module)


def _horovod_spec(name: str, rest: str) -> ModuleSpec | None:
    """`horovod`, an empty package, and `horovod.tensorflow` with what is below it."""
    if not rest:
        package = ModuleType(name, "Horovod's names, by Thalweg.")
        package.__path__ = []
        return _spec(name, package)
    first, _, below = rest.partition(".")
    path = f"{_PACKAGE}.{_HOROVOD}.{below}" if below else f"{_PACKAGE}.{_HOROVOD}"
    module = import_if_there(path) if first == ALIAS else None
    if module is None:
        raise NoSuchModuleError(f"Thalweg has no module '{name}'", name=name)
    return _spec(name, module)


def aliased(path: str) -> ModuleType | None:
    """The module of a path below the package: one of its own, a namespace of public names, or None."""
    for prefix in ("compat.v1.", "_api.v1.", "api.v1.", "_api.v2.compat.v1."):
        path = path.removeprefix(prefix)
    if path in ("compat.v1", "_api.v1"):
        return sys.modules[_PACKAGE]
    root = sys.modules.get(ALIAS, sys.modules[_PACKAGE])
    if root is not sys.modules[_PACKAGE] and not path.startswith(("compat.", "python.", "core.")):
        found = _attribute(root, path)  # `import tensorflow` gives the names of TensorFlow 2.
        if found is not None:
            return found
    name = f"{_PACKAGE}.{path}"
    if name in sys.modules:
        return sys.modules[name]
    parent, _, last = path.rpartition(".")
    holder = aliased(parent) if parent else sys.modules[_PACKAGE]
    # A file's path is made by the finder: a folder of the library with its name knows less than the file.
    value = None if holder is None or isinstance(holder, FileModule) else getattr(holder, last, None)
    if isinstance(value, ModuleType):
        return value
    return import_if_there(name)
