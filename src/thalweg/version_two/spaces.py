"""The module `thalweg.compat.v2`: TensorFlow 2's names, most of which are those of TensorFlow 1."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any, Final

from thalweg.as_tensorflow.second_interface import ELSEWHERE, TABLE, with_parameters
from thalweg.platform.absent_names import advice
from thalweg.version_two.public_names import OTHERWISE, tf

_ROOT: Final = "thalweg.compat.v2"
_MODULES: Final = ("configuration", "dlpack", "functions", "random_generator", "summaries", "switches")

# Namespaces that TensorFlow 2 has elsewhere.
_MOVED: Final = {
    "losses": "keras.losses",
    "metrics": "keras.metrics",
    "optimizers": "keras.optimizers",
    "initializers": "keras.initializers",
    "math.special": "math",
}

# Namespaces that exist in TensorFlow 2 only.
_NEW: Final[set[str]] = set()

# What TensorFlow 2 has no more; programs ask for it to find out the version.
_GONE: Final = frozenset((
    "ConfigProto", "GraphDef", "InteractiveSession", "Session", "app", "assign", "assign_add", "contrib", "flags",
    "get_variable", "global_variables", "global_variables_initializer", "layers", "local_variables_initializer",
    "log", "logging", "placeholder", "placeholder_with_default", "random_normal", "random_uniform", "set_random_seed",
    "to_float", "to_int32", "to_int64", "trainable_variables", "truncated_normal", "variable_scope",
    "get_default_graph", "reset_default_graph", "summary.FileWriter", "summary.merge", "summary.merge_all",
    "train.AdamOptimizer", "train.GradientDescentOptimizer", "train.MomentumOptimizer", "train.RMSPropOptimizer",
    "train.Saver", "image.extract_glimpse", "test.assert_equal_graph_def", "test.compute_gradient",
    "feature_column.shared_embeddings", "summary.tensor_summary", "summary.get_summary_description",
    "summary.FileWriterCache", "summary.all_v2_summary_ops", "summary.initialize",
))  # fmt: skip


class Space(ModuleType):
    """A namespace of TensorFlow 2. Names are looked up when they are first used."""

    def __init__(self, path: str) -> None:
        """Takes the dotted path; empty for the root."""
        name = f"{_ROOT}.{path}" if path else _ROOT
        super().__init__(name, f"TensorFlow 2's names under `tf.{path}`." if path else "TensorFlow 2's names.")
        self._path_of_names = path
        self.__path__: list[str] = []
        sys.modules[name] = self

    def __getattr__(self, name: str) -> Any:
        path = self._path_of_names
        dotted = f"{path}.{name}" if path else name
        if name.startswith("__") and dotted not in OTHERWISE:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = self._found(dotted)
        setattr(self, name, value)
        return value

    def _found(self, dotted: str) -> Any:
        if dotted.startswith("keras."):
            importlib.import_module("thalweg.version_two.recurrent_layers")  # Start-up time: loads Keras.
        if dotted in OTHERWISE:
            return OTHERWISE[dotted]
        if dotted == "compat.v2":
            return sys.modules[_ROOT]
        if dotted == "compat.v1":
            return tf
        value: Any = None if dotted in _GONE else _of_version_one(_MOVED.get(dotted, ELSEWHERE.get(dotted, dotted)))
        if dotted in TABLE and value is not None:
            return with_parameters(value, TABLE[dotted])
        if value is None and "." in dotted:  # A name in a namespace that has moved.
            space, _, name = dotted.rpartition(".")
            value = _of_version_one(f"{_MOVED[space]}.{name}") if space in _MOVED else None
        if isinstance(value, ModuleType):
            return value if dotted in _MOVED else Space(dotted)
        if value is None and any(each == dotted or each.startswith(dotted + ".") for each in _NEW):
            return Space(dotted)
        if value is None:
            hint = " TensorFlow 2 has it in tf.compat.v1." if dotted in _GONE else advice(dotted, [*OTHERWISE])
            raise AttributeError(f"module {_ROOT!r} has no attribute {dotted!r}.{hint}")
        return value

    def __dir__(self) -> list[str]:
        path = self._path_of_names
        old = _of_version_one(_MOVED.get(path, path)) if path else tf
        prefix = f"{path}." if path else ""
        new = [name[len(prefix) :].partition(".")[0] for name in [*OTHERWISE, *_MOVED] if name.startswith(prefix)]
        names = {*new, *(each for each in dir(old) if not each.startswith("_"))}
        return sorted(each for each in names if prefix + each not in _GONE)


def _of_version_one(dotted: str) -> Any:
    """The value of a name of TensorFlow 1, or None."""
    value: Any = tf
    for part in dotted.split("."):
        value = getattr(value, part, None)
        if value is None:
            return None
    return value


def _root() -> Space:
    for name in _MODULES:
        importlib.import_module(f"thalweg.version_two.{name}")
    _NEW.update(name.rpartition(".")[0] for name in OTHERWISE)
    root = Space("")
    root.newaxis = None  # type: ignore[attr-defined]
    return root


v2: Final = sys.modules.get(_ROOT) or _root()
