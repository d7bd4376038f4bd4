"""Builds the public namespace `tf.*` from what the op families and libraries export.

Nothing is listed here that a registry already knows: op families are found by looking into their folders, functions
and classes by their `@export`. What `lazy_spaces` names is loaded when first used, to keep the import short.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import Any, Final

from thalweg import compatibility, errors, lazy_spaces
from thalweg.graph import (  # noqa: F401
    collections,
    dtypes,
    func_graph,
    nest,
    static_value,
    tensor_shape,
    tensor_spec,
)
from thalweg.graph.apply import apply
from thalweg.graph.definitions import op_registry
from thalweg.graph.formats import (  # noqa: F401
    graph_util,
    import_graph_def,
    import_meta_graph,
    meta_graph,
    proto_functions,
    write_graph,
)
from thalweg.graph.messages import tensor_proto  # noqa: F401
from thalweg.lazy_spaces import space_module
from thalweg.platform import absent_names, app, flags, gfile, gfile_functions, logging, version
from thalweg.runtime.targets import set_connector

_PACKAGE: Final = "thalweg"
_FOLDER: Final = os.path.dirname(os.path.abspath(__file__))

# Folders whose modules define or export something public. A folder that does not exist is skipped.
_FAMILIES: Final = (
    "ops",
    "control_flow",
    "autograph",
    "functions",
    "autodiff",
    "state",
    "eager",
    "image",
    "nn",
    "layers",
    "rnn",
    "seq2seq",
    "train",
    "data",
    "summary",
    "metrics",
    "saved_model",
    "feature_column",
    "devices",
)

# What sessions with a target use.
set_connector(lambda: importlib.import_module(f"{_PACKAGE}.dist.connect").CONNECTOR)

_NO_OPS: Final = (
    "disable_eager_execution", "disable_resource_variables", "enable_resource_variables",
    "disable_control_flow_v2", "disable_v2_control_flow",
)  # fmt: skip


def assemble(target: dict[str, Any]) -> None:
    """Imports every family and binds the public names in `target`, the namespace of the package."""
    _import_families()
    _export_base()
    top = sys.modules[_PACKAGE]
    lazy_spaces.make_spaces(top)
    lazy_spaces.bind_exports()
    lazy_spaces.watch_spaces(dotted.rpartition(".")[0] for dotted in op_registry.exports())
    space_module(top, "compat").v1 = top  # type: ignore[attr-defined]
    sys.modules[_PACKAGE + ".compat.v1"] = top
    target["raw_ops"] = _raw_ops()
    sys.meta_path.append(_LateFinder)
    if "IPython" in sys.modules:
        importlib.import_module(f"{_PACKAGE}.notebook_views").install()


class _LateFinder:
    """Finds `thalweg.python.*`, `thalweg.core.*` and the like: loads the finder that does when one is asked for."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith(_PACKAGE + "."):
            return None
        # Start-up time: most programs use no path of TensorFlow's files.
        from thalweg.as_tensorflow.finder import PathFinder

        return PathFinder.find_spec(name, path, target)


def _import_families() -> None:
    for family in _FAMILIES:
        for folder, folders, entries in os.walk(os.path.join(_FOLDER, family)):
            folders.sort()
            package = ".".join((_PACKAGE, *os.path.relpath(folder, _FOLDER).split(os.sep)))
            for entry in sorted(entries):
                if entry.endswith(".py") and entry != "__init__.py":
                    importlib.import_module(f"{package}.{entry[:-3]}")


def _export_base() -> None:
    """Exports the names of modules below the op registry, which cannot use `@export`."""
    value = op_registry.export_value
    for name, constant in vars(dtypes).items():
        if isinstance(constant, dtypes.DType):
            value(constant, name, f"dtypes.{name}")
    value(dtypes.DType, "DType", "dtypes.DType")
    value(dtypes.as_dtype, "as_dtype", "dtypes.as_dtype")
    value(dtypes.QUANTIZED_DTYPES, "QUANTIZED_DTYPES", "dtypes.QUANTIZED_DTYPES")
    value(tensor_shape.TensorShape, "TensorShape")
    value(tensor_shape.Dimension, "Dimension")
    value(tensor_shape.dimension_value, "dimension_value", "compat.dimension_value")
    value(tensor_shape.dimension_at_index, "dimension_at_index", "compat.dimension_at_index")
    value(errors.OpError, "OpError")
    value(static_value.constant_value, "get_static_value", "contrib.util.constant_value")
    for name, module in (("app", app), ("errors", errors), ("flags", flags), ("gfile", gfile), ("logging", logging)):
        value(module, name)
    value(gfile_functions, "io.gfile")
    value(nest, "nest", "contrib.framework.nest")
    value(version, "version")
    value(None, "newaxis")
    for name in ("VERSION", "GIT_VERSION", "COMPILER_VERSION"):
        value(getattr(version, name), name, f"__{name.lower()}__")
    for name in ("GRAPH_DEF_VERSION", "GRAPH_DEF_VERSION_MIN_CONSUMER", "GRAPH_DEF_VERSION_MIN_PRODUCER",
                 "CXX11_ABI_FLAG", "MONOLITHIC_BUILD"):  # fmt: skip
        value(getattr(version, name), name)
    for name in _NO_OPS:
        value(compatibility.no_effect, name)
    for name in compatibility.__all__:
        value(getattr(compatibility, name), f"compat.{name}")


def _raw_ops() -> ModuleType:
    """`tf.raw_ops`: every defined op as a function with keyword arguments."""
    module = ModuleType(_PACKAGE + ".raw_ops", "Every op as a function of keyword arguments, without any convenience.")

    def lazy(name: str) -> Any:
        if not op_registry.is_defined(name):
            near = absent_names.closest(name, (op.name for op in op_registry.all_ops()))
            hint = f". Did you mean 'tf.raw_ops.{near}'?" if near else ""
            raise AttributeError(f"module 'thalweg.raw_ops' has no attribute '{name}'{hint}")
        definition = op_registry.op_def(name)

        def raw_op(**kwargs: Any) -> Any:
            missing = [arg.name for arg in definition.inputs if arg.name not in kwargs]
            if missing:
                raise TypeError(f"{name} misses the inputs {', '.join(missing)}.")
            return apply(name, *[kwargs.pop(arg.name) for arg in definition.inputs], **kwargs)

        raw_op.__name__ = raw_op.__qualname__ = name
        raw_op.__doc__ = definition.doc or f"Creates a node of type {name}."
        setattr(module, name, raw_op)
        return raw_op

    module.__dict__["__getattr__"] = lazy
    sys.modules[module.__name__] = module
    return module
