"""Small modules of `tensorflow.python.util`: contexts, symbols, lazy imports, identity sets, function arguments."""

from __future__ import annotations

import collections.abc
import contextlib
import functools
import importlib
import inspect
import sys
import traceback
import weakref
from collections.abc import Iterable, Iterator, MutableMapping, MutableSet
from types import ModuleType
from typing import Any

contextmanager = contextlib.contextmanager


def remove_undocumented(module_name: str, allowed_exception_list: Any = None, doc_string_modules: Any = None) -> None:
    """Leaves a module as it is: TensorFlow takes the names out of it that are not documented."""


def make_all(module_name: str, doc_string_modules: Any = None) -> list[str]:
    """The public names of a module."""
    return [name for name in vars(sys.modules[module_name]) if not name.startswith("_")]


class LazyLoader(ModuleType):
    """A module that is imported at the first use of one of its names.

    Args:
        local_name: The name under which it is bound in the other module.
        parent_module_globals: The names of that module.
        name: The module to import.
    """

    def __init__(self, local_name: str, parent_module_globals: dict[str, Any], name: str) -> None:
        """Imports nothing yet."""
        super().__init__(name)
        self._local_name, self._parent = local_name, parent_module_globals

    def _load(self) -> ModuleType:
        module = importlib.import_module(self.__name__)
        self._parent[self._local_name] = module
        return module

    def __getattr__(self, item: str) -> Any:
        return getattr(self._load(), item)

    def __dir__(self) -> list[str]:
        return dir(self._load())


class ObjectIdentityDictionary(MutableMapping[Any, Any]):
    """A dictionary whose keys are told apart by identity: they need no hash, and are not compared."""

    def __init__(self) -> None:
        """Holds nothing."""
        self._items: dict[int, tuple[Any, Any]] = {}

    def __getitem__(self, key: Any) -> Any:
        """The value of an object."""
        return self._items[id(key)][1]

    def __setitem__(self, key: Any, value: Any) -> None:
        """Sets the value of an object."""
        self._items[id(key)] = (key, value)

    def __delitem__(self, key: Any) -> None:
        """Forgets an object."""
        del self._items[id(key)]

    def __len__(self) -> int:
        """The number of objects."""
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        """The objects."""
        return iter([key for key, _ in self._items.values()])


class ObjectIdentitySet(MutableSet[Any]):
    """A set whose elements are told apart by identity."""

    def __init__(self, elements: Iterable[Any] = ()) -> None:
        """Takes the first elements."""
        self._elements = {id(each): each for each in elements}

    def __contains__(self, value: object) -> bool:
        """Whether this very object is in the set."""
        return id(value) in self._elements

    def __iter__(self) -> Iterator[Any]:
        """The elements."""
        return iter(list(self._elements.values()))

    def __len__(self) -> int:
        """The number of elements."""
        return len(self._elements)

    def add(self, value: Any) -> None:
        """Adds an object."""
        self._elements[id(value)] = value

    def discard(self, value: Any) -> None:
        """Takes an object out if it is there."""
        self._elements.pop(id(value), None)

    def update(self, others: Iterable[Any]) -> None:
        """Adds several objects."""
        for each in others:
            self.add(each)


class ObjectIdentityWeakSet(weakref.WeakSet[Any]):
    """A set of objects that it does not keep alive."""


def fn_args(fn: Any) -> tuple[str, ...]:
    """The names of a function's arguments, without `self` of methods and without those that a partial has bound."""
    bound = fn if isinstance(fn, functools.partial) else None
    target: Any = fn if bound is None else bound.func
    if not inspect.isroutine(target) and not inspect.isclass(target) and callable(target):
        target = type(target).__call__.__get__(target)  # Its method, also where the object hides it.
    parameters = inspect.signature(target).parameters.values()
    names = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if bound is not None:
        names = [name for name in names[len(bound.args) :] if name not in bound.keywords]
    return tuple(names)


def has_kwargs(fn: Any) -> bool:
    """Whether a function takes any keyword argument."""
    target = fn.func if isinstance(fn, functools.partial) else fn
    if not callable(target):
        raise TypeError(f"fn should be a function-like object, but is of type {type(fn)}.")
    return any(p.kind == p.VAR_KEYWORD for p in inspect.signature(target).parameters.values())


def get_func_name(func: Any) -> str:
    """The name of a function: '<lambda>' for a lambda."""
    target = func.func if isinstance(func, functools.partial) else func
    if inspect.isroutine(target):
        return target.__name__
    if callable(target):
        return type(target).__name__
    raise ValueError("Argument must be callable")


def get_func_code(func: Any) -> Any:
    """The code object of a function."""
    target = func.func if isinstance(func, functools.partial) else func
    return getattr(target, "__code__", None) or getattr(type(target).__call__, "__code__", None)


def extract_stack(limit: int | None = None) -> list[Any]:
    """The calls that led here, outermost first."""
    return list(traceback.extract_stack(limit=limit))[:-1]


def is_generator_or_sequence(value: Any) -> bool:
    """Whether a value is a list, a tuple or an iterator."""
    return isinstance(value, (collections.abc.Sequence, collections.abc.Iterator)) and not isinstance(value, str)
