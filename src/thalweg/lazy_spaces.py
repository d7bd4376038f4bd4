"""Public names whose modules are loaded when a program first asks for one: `tf.contrib.*`, `tf.estimator`, messages.

A namespace that lacks a name asks here. There are two kinds of rows. A *library* is a folder of the package
(`contrib/layers/`) and the namespace of its path (`tf.contrib.layers`): its modules are imported together at the first
name that is not bound yet, and what they `@export` is bound. A *single name* is bound from the module that defines it:
messages, the session, and tools of lower packages that few programs use.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import threading
from collections.abc import Iterable
from types import ModuleType
from typing import Any, Final

from thalweg.graph.definitions import op_registry

_PACKAGE: Final = "thalweg"
_FOLDER: Final = os.path.dirname(os.path.abspath(__file__))

# Folders that are one library, and folders whose folders are.
_LIBRARIES: Final = ("distributions", "estimator", "keras", "linalg", "ragged", "signal")
_ROOTS: Final = ("contrib",)

# Names that a library exports outside of its own namespace.
_ELSEWHERE: Final = {
    "RaggedTensor": "ragged",
    "contrib.factorization.KMeansClustering": "estimator",
    "spectral.dct": "signal",
    "spectral.idct": "signal",
    "strings.bytes_split": "ragged",
    "strings.ngrams": "ragged",
    "strings.unicode_decode": "ragged",
    "strings.unicode_decode_with_offsets": "ragged",
    "strings.unicode_encode": "ragged",
    "strings.unicode_split": "ragged",
    "strings.unicode_split_with_offsets": "ragged",
}

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

# Single names by namespace and module; modules of messages are those of the tensorboard package.
_PROTO: Final = "tensorboard.compat.proto"
_SINGLE_NAMES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("", f"{_PROTO}.attr_value_pb2"): ("AttrValue", "NameAttrList"),
    ("", f"{_PROTO}.config_pb2"): (
        "ConfigProto", "GPUOptions", "GraphOptions", "OptimizerOptions", "RunMetadata", "RunOptions",
    ),
    ("", f"{_PROTO}.event_pb2"): ("Event", "LogMessage", "SessionLog"),
    ("", f"{_PROTO}.graph_pb2"): ("GraphDef",),
    ("", f"{_PROTO}.histogram_pb2"): ("HistogramProto",),
    ("", f"{_PROTO}.meta_graph_pb2"): ("MetaGraphDef", "SignatureDef", "TensorInfo"),
    ("", f"{_PROTO}.node_def_pb2"): ("NodeDef",),
    ("", f"{_PROTO}.summary_pb2"): ("Summary", "SummaryMetadata"),
    ("", f"{_PROTO}.variable_pb2"): ("SaveSliceInfoDef", "VariableDef"),
    ("", "thalweg.runtime.session"): ("InteractiveSession", "Session"),
    ("", "thalweg.as_tensorflow.install"): ("install_as_tensorflow",),
    ("", "thalweg.version_two.switches"): (
        "disable_tensor_equality", "disable_v2_behavior", "disable_v2_tensorshape", "enable_tensor_equality",
        "enable_v2_behavior", "enable_v2_tensorshape",
    ),
    ("compat", "thalweg.version_two.spaces"): ("v2",),
    ("train", f"{_PROTO}.saver_pb2"): ("SaverDef",),
    ("train", f"{_PROTO}.cluster_pb2"): ("ClusterDef", "JobDef"),
    ("train", "thalweg.graph.messages.cluster_messages"): ("ServerDef",),
    ("train", "thalweg.ops.text.example_messages"): (
        "BytesList", "Example", "Feature", "FeatureList", "FeatureLists", "Features", "FloatList", "Int64List",
        "SequenceExample",
    ),
    ("train", "thalweg.dist.server"): ("Server",),
    ("train", "thalweg.trackable.checkpoint"): ("Checkpoint",),
    ("train", "thalweg.trackable.checkpoint_manager"): ("CheckpointManager",),
    ("estimator.tpu", "thalweg.contrib.tpu.config"): ("InputPipelineConfig", "RunConfig", "TPUConfig"),
    ("estimator.tpu", "thalweg.contrib.tpu.estimator"): ("TPUEstimator", "TPUEstimatorSpec"),
    ("summary", f"{_PROTO}.event_pb2"): ("Event", "SessionLog", "TaggedRunMetadata"),
    ("summary", f"{_PROTO}.summary_pb2"): ("Summary", "SummaryDescription"),
    ("python.client.timeline", "thalweg.profiler.timeline"): ("Timeline",),
    ("python.client.device_lib", "thalweg.runtime.local_devices"): ("list_local_devices",),
    ("debugging", "thalweg.runtime.waiting"): ("dump_steps", "dump_steps_on_signal", "warn_of_waiting_steps"),
    ("profiler", "thalweg.profiler.recording"): ("Recording", "record"),
    ("profiler", "thalweg.profiler.model_profile"): ("Profiler", "advise", "profile"),
    ("profiler", "thalweg.profiler.profile_options"): ("ProfileOptionBuilder",),
    ("profiler", "thalweg.profiler.advice"): ("AdviceProto",),
    ("placement", "thalweg.placement.options"): ("configure",),
    ("placement", "thalweg.placement.costs"): ("CostModel",),
    ("placement", "thalweg.placement.machine"): ("Machine",),
    ("placement", "thalweg.runtime.measurements"): ("cost_model",),
    ("placement", "thalweg.placement.comparison"): ("Comparison", "compare", "strategy_names"),
    ("distribute", "thalweg.dist.cluster_task"): ("ClusterTask", "start_task"),
    ("distribute", "thalweg.dist.tensorflow_clients"): ("TensorFlowClients",),
    ("distribute", "thalweg.dist.tls"): ("TLSOptions", "set_tls_options"),
    ("distribute", "thalweg.train.replica_context"): (
        "ReplicaContext", "get_replica_context", "get_strategy", "has_strategy", "in_cross_replica_context",
    ),
    ("test", "thalweg.testing.test_case"): ("TestCase", "main"),
    ("test", "thalweg.testing.benchmark"): ("Benchmark",),
    ("test", "thalweg.testing.graph_comparison"): ("assert_equal_graph_def",),
    ("test", "thalweg.testing.gradient_checker"): ("compute_gradient", "compute_gradient_error"),
    ("test", "thalweg.testing.environment"): (
        "get_temp_dir", "gpu_device_name", "is_built_with_cuda", "is_built_with_gpu_support",
        "is_built_with_rocm", "is_built_with_xla", "is_gpu_available", "mock", "test_src_dir_path",
    ),
    ("test", "thalweg.dist.local_cluster"): ("create_local_cluster",),
}  # fmt: skip
_sources: Final = {
    (f"{space}.{name}" if space else name): source for (space, source), names in _SINGLE_NAMES.items() for name in names
}

_loaded: Final[dict[str, bool]] = {}  # The libraries, by the namespace of each.
_bound: Final[set[str]] = set()
_lock: Final = threading.RLock()


def single_names() -> dict[str, str]:
    """The single names (dotted), and the module that defines each."""
    return dict(_sources)


def libraries() -> list[str]:
    """The dotted public names of the libraries."""
    return sorted(_loaded)


def load_all() -> None:
    """Loads every library: for tools that list all public names."""
    for space in libraries():
        _load(space)


def is_lazy(space: str) -> bool:
    """Whether a namespace belongs to a library, as `estimator.export` does."""
    return any(space == library or space.startswith(f"{library}.") for library in _loaded)


def make_spaces(top: ModuleType) -> None:
    """Makes the namespaces of the libraries, without reading a file of theirs."""
    for name in _LIBRARIES:
        _add(top, name, os.path.join(_FOLDER, name))
        _loaded[name] = False
    for root in _ROOTS:
        folder = os.path.join(_FOLDER, root)
        outer = _add(top, root, folder)
        for entry in sorted(os.scandir(folder), key=lambda each: each.name):
            if entry.is_dir() and not entry.name.startswith("_"):
                _add(outer, entry.name, entry.path)
                _loaded[f"{root}.{entry.name}"] = False
    for dotted in _ALSO:
        parent, _, name = dotted.rpartition(".")
        outer = sys.modules[f"{_PACKAGE}.{parent}"]
        if name not in outer.__dict__:
            _add(outer, name, None)


def watch_spaces(spaces: Iterable[str]) -> None:
    """Makes these namespaces, and those of single names, ask here for names that they lack."""
    top = sys.modules[_PACKAGE]
    for space in sorted({*spaces, *(space for space, _ in _SINGLE_NAMES)}):
        _watch(space_module(top, space) if space else top)


def _add(parent: ModuleType, name: str, folder: str | None) -> ModuleType:
    space = _empty_module(f"{parent.__name__}.{name}", folder)
    setattr(parent, name, space)
    _watch(space)
    return space


def _empty_module(name: str, folder: str | None = None) -> ModuleType:
    module = ModuleType(name, f"The public names under `tf.{name.partition('.')[2]}`.")
    module.__path__ = [] if folder is None else [folder]  # Names below it may be imported as modules.
    module.__package__ = name
    sys.modules[name] = module
    return module


def _watch(module: ModuleType) -> None:
    if "__getattr__" not in module.__dict__:
        module.__dict__["__getattr__"] = functools.partial(lazy_attribute, module)
        module.__dict__["__dir__"] = functools.partial(_names_in, module)


def _names_in(module: ModuleType) -> list[str]:
    space = module.__name__.partition(".")[2]
    _load(space)
    names = set(module.__dict__)
    if space in _ALSO:
        also = space_module(sys.modules[_PACKAGE], _ALSO[space])
        names.update(name for name in dir(also) if not name.startswith("_"))
    return sorted(names)


def lazy_attribute(module: ModuleType, name: str) -> Any:
    """Module `__getattr__` of a namespace: loads what defines the name.

    Raises:
        AttributeError: If there is no such name; the message suggests another one.
    """
    space = module.__name__.partition(".")[2]
    dotted = f"{space}.{name}" if space else name
    if name.startswith("__") and not (name == "__all__" and is_lazy(space)):
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
    if dotted in _sources:
        _bind_single(module, name, _sources[dotted])
    _load(_ELSEWHERE.get(dotted, space))
    if name == "__all__":
        return sorted(key for key in module.__dict__ if not key.startswith("_"))
    if name in module.__dict__:
        return module.__dict__[name]
    if space in _ALSO and not name.startswith("_"):
        value: Any = sys.modules[_PACKAGE]
        for part in (*_ALSO[space].split("."), name):
            value = getattr(value, part, None)
        if value is not None:
            return value
    from thalweg.platform.absent_names import advice  # Start-up time: only mistakes need it.

    beside = [f"{space}.{each}" if space else each for each in module.__dict__ if not each.startswith("_")]
    hint = advice(dotted, dict.fromkeys([*op_registry.exports(), *_sources, *_ELSEWHERE, *beside]))
    raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}{hint}")


def _bind_single(module: ModuleType, name: str, source: str) -> None:
    try:
        value = getattr(importlib.import_module(source), name)
    except ModuleNotFoundError as e:
        raise AttributeError(f"thalweg.{name} needs the module {source}, which cannot be imported: {e}") from e
    setattr(module, name, value)


def _load(library: str) -> None:
    """Imports the modules of a library and binds their exports; does nothing for any other namespace."""
    if _loaded.get(library, True):
        return
    with _lock:
        if _loaded[library]:
            return
        _loaded[library] = True
        import pkgutil  # Start-up time: programs that use no library do without it.

        space = sys.modules[f"{_PACKAGE}.{library}"]
        try:
            for module in pkgutil.walk_packages(space.__path__, space.__name__ + "."):
                importlib.import_module(module.name)
        except BaseException:
            _loaded[library] = False
            raise
        bind_exports()
        inside = [name.rpartition(".")[0] for name in op_registry.exports() if name.startswith(library + ".")]
        watch_spaces(dict.fromkeys(inside))


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
                child = _empty_module(name)
            setattr(module, part, child)
        module = child
    return module
