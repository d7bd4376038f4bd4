"""Builds the public namespace `tf.*` from what the op families and libraries export.

Nothing is listed here that a registry already knows: op families are found by looking into their folders, functions
and classes by their `@export`. Protobuf classes and the session are bound when first used, to keep the import short.
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
from thalweg.platform import app, flags, gfile, gfile_functions, logging, version
from thalweg.runtime.targets import set_connector

_PACKAGE: Final = "thalweg"
_FOLDER: Final = os.path.dirname(os.path.abspath(__file__))

# Folders whose modules define or export something public. A folder that does not exist is skipped.
_FAMILIES: Final = (
    "ops",
    "control_flow",
    "functions",
    "autodiff",
    "state",
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

_PROTO: Final = "tensorboard.compat.proto."
_PROTOBUF_CLASSES: Final[dict[str, tuple[str, ...]]] = {
    "attr_value_pb2": ("AttrValue", "NameAttrList"),
    "config_pb2": ("ConfigProto", "GPUOptions", "GraphOptions", "OptimizerOptions", "RunMetadata", "RunOptions"),
    "event_pb2": ("Event", "LogMessage", "SessionLog"),
    "graph_pb2": ("GraphDef",),
    "histogram_pb2": ("HistogramProto",),
    "meta_graph_pb2": ("MetaGraphDef", "SignatureDef", "TensorInfo"),
    "node_def_pb2": ("NodeDef",),
    "summary_pb2": ("Summary", "SummaryMetadata"),
    "variable_pb2": ("SaveSliceInfoDef", "VariableDef"),
}
_LAZY: Final[dict[str, str]] = {
    **{name: _PROTO + module for module, names in _PROTOBUF_CLASSES.items() for name in names},
    **dict.fromkeys(("Session", "InteractiveSession"), "thalweg.runtime.session"),
    "install_as_tensorflow": "thalweg.as_tensorflow.install",
    "RaggedTensor": "thalweg.ragged.ragged_names",
}
# The same under a dotted name: (namespace, name) to where it is defined.
_LAZY_DOTTED: Final[dict[tuple[str, str], str]] = {
    ("train", "SaverDef"): _PROTO + "saver_pb2",
    ("train", "ClusterDef"): _PROTO + "cluster_pb2",
    ("train", "JobDef"): _PROTO + "cluster_pb2",
    ("train", "ServerDef"): "thalweg.graph.messages.cluster_messages",
    **{
        ("train", name): "thalweg.ops.text.example_messages"
        for name in (
            "BytesList",
            "Example",
            "Feature",
            "FeatureList",
            "FeatureLists",
            "Features",
            "FloatList",
            "Int64List",
            "SequenceExample",
        )
    },
    **{
        ("summary", name): _PROTO + module
        for name, module in (
            ("Event", "event_pb2"),
            ("SessionLog", "event_pb2"),
            ("Summary", "summary_pb2"),
            ("SummaryDescription", "summary_pb2"),
            ("TaggedRunMetadata", "event_pb2"),
        )
    },
}

# Tests, distributions and tools for placement are loaded only by the programs that use them.
_LAZY_SPACES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("python.client.timeline", "profiler.timeline"): ("Timeline",),
    ("python.client.device_lib", "runtime.local_devices"): ("list_local_devices",),
    ("debugging", "runtime.waiting"): ("dump_steps", "dump_steps_on_signal", "warn_of_waiting_steps"),
    ("profiler", "profiler.recording"): ("Recording", "record"),
    ("profiler", "profiler.model_profile"): ("Profiler", "advise", "profile"),
    ("profiler", "profiler.profile_options"): ("ProfileOptionBuilder",),
    ("profiler", "profiler.advice"): ("AdviceProto",),
    ("estimator", "estimator.estimator"): ("Estimator",),
    ("estimator", "estimator.model_spec"): ("EstimatorSpec", "ModeKeys"),
    ("estimator", "estimator.run_config"): ("RunConfig",),
    ("estimator", "estimator.warm_start"): ("WarmStartSettings",),
    ("estimator", "estimator.training"): ("EvalSpec", "TrainSpec", "train_and_evaluate"),
    ("estimator", "estimator.exporters"): ("BestExporter", "Exporter", "FinalExporter", "LatestExporter"),
    ("estimator", "estimator.parse_specs"): ("classifier_parse_example_spec", "regressor_parse_example_spec"),
    ("estimator", "estimator.canned.estimators"): (
        "DNNClassifier", "DNNEstimator", "DNNRegressor", "LinearClassifier", "LinearEstimator", "LinearRegressor",
    ),
    ("estimator", "estimator.canned.combined"): (
        "DNNLinearCombinedClassifier", "DNNLinearCombinedEstimator", "DNNLinearCombinedRegressor",
    ),
    ("estimator", "estimator.canned.baseline"): ("BaselineClassifier", "BaselineEstimator", "BaselineRegressor"),
    ("estimator.tpu", "contrib.tpu.config"): ("InputPipelineConfig", "RunConfig", "TPUConfig"),
    ("estimator.tpu", "contrib.tpu.estimator"): ("TPUEstimator", "TPUEstimatorSpec"),
    ("estimator.inputs", "estimator.input_functions"): ("numpy_input_fn", "pandas_input_fn"),
    ("estimator.export", "estimator.export_outputs"): (
        "ClassificationOutput", "EvalOutput", "ExportOutput", "PredictOutput", "RegressionOutput",
    ),
    ("estimator.export", "estimator.serving_inputs"): (
        "ServingInputReceiver", "TensorServingInputReceiver", "build_parsing_serving_input_receiver_fn",
        "build_raw_serving_input_receiver_fn", "build_raw_supervised_input_receiver_fn",
    ),
    ("ragged", "ragged.ragged_names"): (
        "RaggedTensorValue", "boolean_mask", "constant", "constant_value", "map_flat_values", "placeholder", "range",
        "row_splits_to_segment_ids", "segment_ids_to_row_splits", "stack",
    ),
    ("signal", "signal.windows"): (
        "hamming_window", "hann_window", "kaiser_bessel_derived_window", "kaiser_window", "vorbis_window",
    ),
    ("signal", "signal.frames"): ("frame", "overlap_and_add"),
    ("signal", "signal.transforms"): (
        "dct", "fftshift", "idct", "ifftshift", "inverse_mdct", "inverse_stft", "inverse_stft_window_fn",
        "linear_to_mel_weight_matrix", "mdct", "mfccs_from_log_mel_spectrograms", "stft",
    ),
    ("spectral", "signal.transforms"): ("dct", "idct"),
    ("test", "testing.test_case"): ("TestCase", "main"),
    ("distributions", "distributions.distribution"): (
        "Distribution", "FULLY_REPARAMETERIZED", "NOT_REPARAMETERIZED", "RegisterKL", "ReparameterizationType",
        "kl_divergence",
    ),
    ("distributions", "distributions.continuous"): (
        "Beta", "Exponential", "Gamma", "Laplace", "Normal", "StudentT", "Uniform",
    ),
    ("distributions", "distributions.discrete"): ("Bernoulli", "Categorical", "Dirichlet", "Multinomial"),
    ("placement", "placement.options"): ("configure",),
    ("placement", "placement.costs"): ("CostModel",),
    ("placement", "placement.machine"): ("Machine",),
    ("placement", "runtime.measurements"): ("cost_model",),
    ("placement", "placement.comparison"): ("Comparison", "compare", "strategy_names"),
    ("test", "testing.benchmark"): ("Benchmark",),
    ("test", "dist.local_cluster"): ("create_local_cluster",),
    ("train", "dist.server"): ("Server",),
    ("distribute", "dist.cluster_task"): ("ClusterTask", "start_task"),
    ("distribute", "dist.tensorflow_clients"): ("TensorFlowClients",),
    ("distribute", "dist.tls"): ("TLSOptions", "set_tls_options"),
    ("test", "testing.graph_comparison"): ("assert_equal_graph_def",),
    ("test", "testing.gradient_checker"): ("compute_gradient", "compute_gradient_error"),
    ("test", "testing.environment"): (
        "get_temp_dir", "gpu_device_name", "is_built_with_cuda", "is_built_with_gpu_support",
        "is_built_with_rocm", "is_built_with_xla", "is_gpu_available", "mock", "test_src_dir_path",
    ),
}  # fmt: skip
for (_space, _source), _names in _LAZY_SPACES.items():
    _LAZY_DOTTED.update({(_space, _name): f"{_PACKAGE}.{_source}" for _name in _names})

# What sessions with a target use.
set_connector(lambda: importlib.import_module(f"{_PACKAGE}.dist.connect").CONNECTOR)

_NO_OPS: Final = (
    "disable_v2_behavior", "disable_eager_execution", "disable_resource_variables", "enable_resource_variables",
    "disable_v2_tensorshape", "disable_control_flow_v2", "disable_tensor_equality", "disable_v2_control_flow",
)  # fmt: skip


def assemble(target: dict[str, Any]) -> None:
    """Imports every family and binds the public names in `target`, the namespace of the package."""
    _import_families()
    _export_base()
    top = sys.modules[_PACKAGE]
    lazy_spaces.make_spaces(top)
    lazy_spaces.bind_exports()
    spaces = {dotted.rpartition(".")[0] for dotted in op_registry.exports()}
    for space in sorted(spaces.union(space for space, _ in _LAZY_DOTTED) - {""}):
        module = space_module(top, space)
        if isinstance(module, lazy_spaces.LazySpace):
            continue
        if "__getattr__" not in module.__dict__:
            module.__dict__["__getattr__"] = _lazy_in(space)
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


def _load(name: str, source: str) -> Any:
    try:
        return getattr(importlib.import_module(source), name)
    except ModuleNotFoundError as e:
        raise AttributeError(f"thalweg.{name} needs the module {source}, which cannot be imported: {e}") from e


def lazy_names() -> dict[str, str]:
    """The public names (dotted) that are bound when first used, and the module that defines each."""
    return {**_LAZY, **{f"{space}.{name}": source for (space, name), source in _LAZY_DOTTED.items()}}


def lazy_attribute(name: str) -> Any:
    """Module `__getattr__` of the package: binds protobuf classes and the session at their first use."""
    source = _LAZY.get(name)
    if source is None:
        raise AttributeError(f"module 'thalweg' has no attribute '{name}'{_instead_of(name)}")
    value = _load(name, source)
    setattr(sys.modules[_PACKAGE], name, value)
    return value


def _instead_of(name: str) -> str:
    from thalweg.platform.absent_names import advice  # Start-up time: only mistakes need it.

    return advice(name, [*op_registry.exports(), *lazy_names()])


def _lazy_in(space: str) -> Any:
    def lazy(name: str) -> Any:
        source = _LAZY_DOTTED.get((space, name))
        if source is None:
            raise AttributeError(f"module 'thalweg.{space}' has no attribute '{name}'{_instead_of(f'{space}.{name}')}")
        return _load(name, source)

    return lazy


def _raw_ops() -> ModuleType:
    """`tf.raw_ops`: every defined op as a function with keyword arguments."""
    module = ModuleType(_PACKAGE + ".raw_ops", "Every op as a function of keyword arguments, without any convenience.")

    def lazy(name: str) -> Any:
        if not op_registry.is_defined(name):
            raise AttributeError(f"module 'thalweg.raw_ops' has no attribute '{name}'")
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
