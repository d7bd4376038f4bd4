"""Which of Thalweg's names each module path below `tensorflow.python` and `tensorflow.core` holds.

A value is a line of sources, searched in order: `tf` is the top of the public names, `tf.nn` a namespace of them,
`.graph.nest` a module of the package, `raw` every op type under its name in snake case, `name=source` one module under
another name.
"""

from __future__ import annotations

import fnmatch
from typing import Final

# Paths below `tensorflow.python`, exact ones first. Every parent of a path is a package.
_PYTHON: Final[dict[str, str]] = {
    "client.device_lib": "tf.python.client.device_lib",
    "client.session": "tf .runtime.session .tensorflow_modules.client_session",
    "client.timeline": "tf.python.client.timeline",
    "data.experimental.ops.*": "tf.data.experimental tf.data tf",
    "data.ops.dataset_ops": "tf.data tf .data.dataset",
    "data.ops.iterator_ops": "tf.data .data.iterator",
    "data.ops.*": "tf.data tf",
    "data.util.nest": "tf.nest .graph.nest",
    "data": "tf.data",
    "distribute.*": "tf.distribute",
    "eager.context": ".tensorflow_modules.eager_context",
    "eager.*": "tf",
    "estimator.canned.*": "tf.estimator",
    "estimator.estimator": "tf.estimator",
    "estimator.estimator_lib": "tf.estimator",
    "estimator.export.*": "tf.estimator.export tf.estimator",
    "estimator.inputs.*": "tf.estimator.inputs tf.estimator",
    "estimator.util": "tf.estimator .tensorflow_modules.utilities",
    "estimator.*": "tf.estimator",
    "estimator": "tf.estimator",
    "feature_column.feature_column": "tf.feature_column .feature_column.column",
    "feature_column.feature_column_lib": "tf.feature_column",
    "feature_column.feature_column_v2": "tf.feature_column .feature_column.column",
    "framework.common_shapes": ".tensorflow_modules.common_shapes",
    "framework.constant_op": "tf",
    "framework.composite_tensor": "tf .graph.composite",
    "framework.device": "tf .tensorflow_modules.devices",
    "framework.device_spec": "tf .tensorflow_modules.devices",
    "framework.dtypes": "tf tf.dtypes .graph.dtypes",
    "framework.errors": "tf.errors .errors",
    "framework.errors_impl": "tf.errors .errors",
    "framework.function": "tf.python.framework.function .functions.defun tf",
    "framework.func_graph": "tf .graph.func_graph",
    "framework.graph_io": "tf.io tf",
    "framework.graph_util": "tf.graph_util tf",
    "framework.graph_util_impl": "tf.graph_util tf",
    "framework.importer": "tf",
    "framework.indexed_slices": "tf .graph.composite",
    "framework.load_library": "tf",
    "framework.meta_graph": "tf.train .graph.formats.meta_graph",
    "framework.op_def_library": "",
    "framework.op_def_registry": ".tensorflow_modules.op_def_registry",
    "framework.ops": "tf .tensorflow_modules.framework_ops .graph.default_graph .graph.graph .graph.operation "
    ".graph.tensor .graph.conversion .graph.composite",
    "framework.random_seed": "tf .tensorflow_modules.framework_ops",
    "framework.smart_cond": ".layers.branching .tensorflow_modules.smart_conditions",
    "framework.sparse_tensor": "tf tf.sparse",
    "framework.tensor_shape": "tf .graph.tensor_shape",
    "framework.tensor_spec": "tf .graph.tensor_spec",
    "framework.tensor_util": "tf .tensorflow_modules.tensor_util .graph.messages.tensor_proto .graph.static_value",
    "framework.test_util": ".tensorflow_modules.framework_test_util tf.test",
    "framework.versions": "tf tf.version",
    "grappler.tf_optimizer": "",
    "keras.activations": "tf.keras.activations",
    "keras.backend": "tf.keras.backend",
    "keras.callbacks": "tf.keras.callbacks",
    "keras.constraints": "tf.keras.constraints",
    "keras.datasets": "tf.keras.datasets",
    "keras.engine.base_layer": "tf.keras.layers tf.keras",
    "keras.engine.input_layer": "tf.keras.layers tf.keras",
    "keras.engine.input_spec": ".layers.input_spec",
    "keras.engine.network": "tf.keras",
    "keras.engine.sequential": "tf.keras",
    "keras.engine.training": "tf.keras",
    "keras.engine": "tf.keras.layers tf.keras",
    "keras.initializers": "tf.keras.initializers",
    "keras.layers.*": "tf.keras.layers",
    "keras.layers": "tf.keras.layers",
    "keras.losses": "tf.keras.losses",
    "keras.metrics": "tf.keras.metrics",
    "keras.models": "tf.keras.models",
    "keras.optimizers": "tf.keras.optimizers",
    "keras.preprocessing.*": "tf.keras.preprocessing",
    "keras.preprocessing": "tf.keras.preprocessing",
    "keras.regularizers": "tf.keras.regularizers",
    "keras.utils.*": "tf.keras.utils",
    "keras.utils": "tf.keras.utils",
    "keras.*": "tf.keras",
    "kernel_tests.*": "",
    "layers.base": "tf.layers .layers.layer .layers.input_spec",
    "layers.convolutional": "tf.layers .tensorflow_modules.layer_classes",
    "layers.core": "tf.layers",
    "layers.layers": "tf.layers",
    "layers.normalization": "tf.layers .tensorflow_modules.layer_classes",
    "layers.pooling": "tf.layers .tensorflow_modules.layer_classes",
    "layers.utils": ".tensorflow_modules.layer_utils",
    "lib.io.file_io": ".tensorflow_modules.file_io",
    "lib.core.error_codes_pb2": "",
    "lib.io.python_io": "tf.python_io tf.io",
    "lib.io.tf_record": "tf.python_io tf.io",
    "ops.array_ops": "tf .tensorflow_modules.array_ops tf.nn tf.quantization tf.sparse tf.manip raw",
    "ops.batch_ops": "tf raw",
    "ops.bitwise_ops": "tf.bitwise raw",
    "ops.candidate_sampling_ops": "tf.nn tf.random raw",
    "ops.check_ops": "tf tf.debugging",
    "ops.clip_ops": "tf",
    "ops.confusion_matrix": "tf .tensorflow_modules.metrics_impl",
    "ops.control_flow_util": ".tensorflow_modules.control_flow_util",
    "ops.control_flow_ops": "tf .tensorflow_modules.control_flow_ops raw",
    "ops.ctc_ops": "tf.nn raw",
    "ops.custom_gradient": "tf",
    "ops.data_flow_ops": "tf raw",
    "ops.distributions.*": "tf.distributions tf.contrib.distributions .tensorflow_modules.distribution_util",
    "ops.embedding_ops": "tf.nn tf",
    "ops.functional_ops": "tf raw",
    "ops.gen_*": "raw",
    "ops.gradient_checker": "tf.test",
    "ops.gradient_checker_v2": "tf.test",
    "ops.gradients": "tf",
    "ops.gradients_impl": "tf .autodiff.gradients",
    "ops.gradients_util": "tf",
    "ops.histogram_ops": "tf",
    "ops.image_ops": "tf.image raw",
    "ops.image_ops_impl": "tf.image raw",
    "ops.init_ops": "tf tf.initializers .state.initializers",
    "ops.init_ops_v2": "tf.initializers tf",
    "ops.inplace_ops": "raw",
    "ops.io_ops": "tf tf.io raw",
    "ops.linalg.linear_operator_util": ".tensorflow_modules.linear_operator_util tf.linalg",
    "ops.linalg.*": "tf.linalg",
    "ops.linalg_ops_impl": "tf.linalg tf",
    "ops.linalg_ops": "tf tf.linalg raw",
    "ops.logging_ops": "tf tf.summary raw",
    "ops.lookup_ops": "tf.contrib.lookup tf.lookup tf raw",
    "ops.losses.losses": "tf.losses",
    "ops.losses.losses_impl": "tf.losses",
    "ops.losses.util": "tf.losses",
    "ops.manip_ops": "tf.manip",
    "ops.map_fn": "tf",
    "ops.math_ops": "tf tf.math raw",
    "ops.metrics": "tf.metrics",
    "ops.metrics_impl": "tf.metrics .tensorflow_modules.metrics_impl",
    "ops.nn": "tf.nn tf raw",
    "ops.nn_impl": "tf.nn tf raw",
    "ops.nn_ops": "tf.nn tf raw",
    "ops.numerics": "tf tf.debugging",
    "ops.parsing_ops": "tf tf.io raw",
    "ops.partitioned_variables": "tf",
    "ops.ragged.*": "tf.ragged tf",
    "ops.random_ops": "tf tf.random .tensorflow_modules.random_ops raw",
    "ops.resources": "tf .tensorflow_modules.resources",
    "ops.resource_variable_ops": "tf .tensorflow_modules.resource_variable_ops raw",
    "ops.rnn": "rnn_cell_impl=.python.ops.rnn_cell_impl tf.nn .rnn.dynamic_rnns .rnn.static_rnns "
    ".tensorflow_modules.rnn",
    "ops.rnn_cell": "tf.nn.rnn_cell .rnn.cell_base .tensorflow_modules.rnn",
    "ops.rnn_cell_impl": "tf.nn.rnn_cell .rnn.cell_base .tensorflow_modules.rnn .rnn.cell_wrappers",
    "ops.script_ops": "tf",
    "ops.seq2seq": "tf.contrib.legacy_seq2seq",
    "ops.session_ops": "tf raw",
    "ops.sets": "tf.sets",
    "ops.sets_impl": "tf.sets",
    "ops.signal.*": "tf.signal",
    "ops.sort_ops": "tf",
    "ops.sparse_ops": "tf tf.sparse raw",
    "ops.special_math_ops": "tf tf.math",
    "ops.spectral_ops": "tf tf.spectral tf.signal raw",
    "ops.standard_ops": "tf",
    "ops.state_ops": "tf raw",
    "ops.stateless_random_ops": "tf.random tf raw",
    "ops.string_ops": "tf tf.strings raw",
    "ops.summary_ops": "tf.summary",
    "ops.summary_ops_v2": "tf.contrib.summary",
    "ops.template": "tf .state.template",
    "ops.tensor_array_ops": "tf raw",
    "ops.unconnected_gradients": "tf",
    "ops.variable_scope": "tf .tensorflow_modules.variable_scope .state.variable_scope .state.variable_store "
    ".state.scope_defaults",
    "ops.variables": "tf .tensorflow_modules.variables .state.variable .state.partitioned_variable .state.policies",
    "ops.weights_broadcast_ops": ".nn.weight_broadcasting",
    "ops.while_v2": "",
    # Modules of gradients are imported for their effect: here gradients lie beside their ops.
    "ops.*_grad": "",
    "platform.app": "tf.app",
    "platform.benchmark": "tf.test",
    "platform.build_info": ".tensorflow_modules.build_info",
    "platform.flags": "tf.flags",
    "platform.gfile": "tf.gfile",
    "platform.googletest": "tf.test",
    "platform.resource_loader": ".tensorflow_modules.resource_loader",
    "platform.sysconfig": "tf.sysconfig",
    "platform.test": "tf.test",
    "platform.tf_logging": "tf.logging",
    "profiler.*": "tf.profiler .profiler.model_profile",
    "saved_model.constants": "tf.saved_model.constants tf.saved_model",
    "saved_model.builder": "tf.saved_model.builder tf.saved_model",
    "saved_model.builder_impl": "tf.saved_model.builder tf.saved_model",
    "saved_model.loader": "tf.saved_model.loader tf.saved_model",
    "saved_model.loader_impl": "tf.saved_model.loader tf.saved_model",
    "saved_model.main_op": "tf.saved_model.main_op",
    "saved_model.main_op_impl": "tf.saved_model.main_op",
    "saved_model.saved_model": "tf.saved_model",
    "saved_model.signature_constants": "tf.saved_model.signature_constants",
    "saved_model.signature_def_utils": "tf.saved_model.signature_def_utils tf.saved_model",
    "saved_model.signature_def_utils_impl": "tf.saved_model.signature_def_utils tf.saved_model",
    "saved_model.simple_save": "tf.saved_model",
    "saved_model.tag_constants": "tf.saved_model.tag_constants",
    "saved_model.utils": "tf.saved_model.utils tf.saved_model",
    "saved_model.utils_impl": "tf.saved_model.utils tf.saved_model",
    "summary.plugin_asset": "tf.summary",
    "summary.summary": "tf.summary tf",
    "summary.summary_iterator": "tf.train",
    "summary.writer.writer": "tf.summary",
    "summary.writer.*": "tf.summary",
    "tools.freeze_graph": ".tensorflow_modules.freeze_graph",
    "tools.inspect_checkpoint": ".tensorflow_modules.inspect_checkpoint",
    "tools.optimize_for_inference_lib": ".tensorflow_modules.optimize_for_inference_lib",
    "tools.strip_unused_lib": ".tensorflow_modules.optimize_for_inference_lib",
    "training.checkpoint_management": "tf.train",
    "training.checkpoint_utils": "tf.train tf.contrib.framework",
    "training.evaluation": "tf.train .tensorflow_modules.evaluation",
    "training.device_setter": "tf.train .train.device_setter",
    "training.monitored_session": "tf.train .train.sessions.monitored_session",
    "training.moving_averages": "tf.train .tensorflow_modules.moving_averages",
    "training.optimizer": "tf.train .train.optimizers.optimizer .tensorflow_modules.optimizer",
    "training.py_checkpoint_reader": "tf.train",
    "training.pywrap_tensorflow": "tf.train",
    "training.saver": "tf.train .train.checkpoints.saver",
    "training.session_run_hook": "tf.train",
    "training.slot_creator": ".tensorflow_modules.slot_creator",
    "training.training_ops": "raw",
    "training.training_util": "tf.train tf",
    "tpu.ops.tpu_ops": "tf.contrib.tpu raw",
    "tpu.*": "tf.contrib.tpu raw",
    "training.*": "tf.train tf.errors",
    "training.experimental.*": "tf.train tf.train.experimental",
    "util.all_util": ".tensorflow_modules.utilities",
    "util.compat": "tf.compat",
    "util.dispatch": ".tensorflow_modules.dispatch",
    "util.function_utils": ".tensorflow_modules.utilities",
    "util.lazy_loader": ".tensorflow_modules.utilities",
    "util.object_identity": ".tensorflow_modules.utilities",
    "util.protobuf.compare": ".tensorflow_modules.proto_comparison",
    "util.tf_contextlib": ".tensorflow_modules.utilities",
    "util.tf_stack": ".tensorflow_modules.utilities",
    "util.deprecation": ".tensorflow_modules.deprecation",
    "util.nest": "tf.nest .graph.nest",
    "util.tf_decorator": ".tensorflow_modules.decorators",
    "util.tf_export": ".tensorflow_modules.decorators",
    "util.tf_inspect": ".tensorflow_modules.inspection",
    "util.tf_should_use": ".tensorflow_modules.decorators",
    "pywrap_tensorflow": "tf.train .tensorflow_modules.errors_status .tensorflow_modules.events_writer",
    # Programs import the debugger always and use it when asked to: its sessions say then what there is instead.
    "debug.cli.*": ".tensorflow_modules.debugger",
    "debug.lib.*": ".tensorflow_modules.debugger",
    "debug.wrappers.*": ".tensorflow_modules.debugger",
    "debug": ".tensorflow_modules.debugger",
    "tf2": ".tensorflow_modules.tf2",
}

_MESSAGES: Final = ".ops.text.example_messages"
_CORE: Final[dict[str, str]] = {
    "example.example_pb2": _MESSAGES,
    "example.feature_pb2": _MESSAGES,
    "protobuf.tensorflow_server_pb2": ".graph.messages.cluster_messages",
    "protobuf.saved_model_pb2": ".saved_model.writer .saved_model.loader",
    "framework.*_pb2": "proto",
    "protobuf.*_pb2": "proto",
    "util.*_pb2": "proto",
    "profiler.*_pb2": "proto",
}

_EXAMPLES: Final[dict[str, str]] = {
    "tutorials.mnist.input_data": ".datasets.input_data",
    "tutorials.mnist.mnist": ".tensorflow_modules.mnist_tutorial",
    "tutorials.mnist": "input_data=.datasets.input_data",
}

# Files and folders of contrib libraries that programs import from; each holds the names of its library.
_CONTRIB_FILES: Final = (
    "python ops layers slim training framework learn datasets nets data estimator estimators preprocessing "
    "core_rnn_cell core_rnn rnn_cell rnn gru_ops lstm_ops fused_rnn_cell rnn_cell_impl seq2seq attention_wrapper "
    "basic_decoder beam_search_decoder beam_search_ops decoder helper loss utils initializers regularizers optimizers "
    "summaries feature_column feature_column_ops normalization embedding_ops encoders target_column rev_block_lib "
    "arg_scope variables checkpoint_ops checkpoint_utils tensor_util learning evaluation dataset data_decoder "
    "dataset_data_provider data_provider tfexample_decoder parallel_reader prefetch_queue queues losses loss_ops "
    "metric_ops metric_loss_ops hparam bucket_ops sampling_ops device_setter resample crf base mnist text "
    "categorical_vocabulary run_config model_fn metric_spec lookup_ops image_ops dense_image_warp cudnn_rnn "
    "cudnn_rnn_ops clustering_ops odes alpha_dropout mvn_diag normal bernoulli categorical opt adamax nadam_optimizer "
    "moving_average_optimizer weight_decay_optimizers lars_optimizer external_optimizer batching interleave_ops "
    "summary_ops summary learn_runner experiment export_strategy monitors dnn linear dnn_linear_combined kmeans io "
    "head constants prediction_key utils tpu tpu_config tpu_context tpu_estimator tpu_function tpu_optimizer tpu_ops "
    "bfloat16"
)
CONTRIB_FILES: Final = frozenset(_CONTRIB_FILES.split())

TABLES: Final = {"python": _PYTHON, "core": _CORE, "examples": _EXAMPLES}


def sources_of(path: str) -> str | None:
    """The sources of a module path such as `python.framework.ops`; '' of a package without names; None if unknown."""
    root, _, rest = path.partition(".")
    table = TABLES.get(root)
    if table is None:
        return None
    if not rest:
        return "tf" if root == "python" else ""
    if rest in table:
        return table[rest]
    for pattern in table:
        if fnmatch.fnmatchcase(rest, pattern) and (rest.count(".") == pattern.count(".") or pattern.endswith(".*")):
            return table[pattern]
    if any(pattern.startswith(rest + ".") for pattern in table):
        return ""
    return None


def is_package(path: str) -> bool:
    """Whether there are modules below a path."""
    root, _, rest = path.partition(".")
    return not rest or any(pattern.startswith(rest + ".") for pattern in TABLES.get(root, {}))


def submodules(path: str) -> list[str]:
    """The names of the modules directly below a path, without those of patterns."""
    root, _, rest = path.partition(".")
    prefix = rest + "." if rest else ""
    found = {name[len(prefix) :].split(".")[0] for name in TABLES.get(root, {}) if name.startswith(prefix)}
    return sorted(name for name in found if "*" not in name)
