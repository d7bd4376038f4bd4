"""Definitions of the ops that make datasets. A dataset is a `variant` scalar; the kernels are in core/data/."""

from __future__ import annotations

from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, not_differentiable
from thalweg.graph.op_effects import Effect

_ELEMENTS = "output_types: list(type) >= 1, output_shapes: list(shape) >= 1"
_METADATA = "metadata: string = ''"


def _dataset(names: str, inputs: str, attrs: str = "", elements: str = _ELEMENTS, effect: Effect = Effect.NONE) -> None:
    """Defines the ops `names`, which share a signature: from `inputs` to one dataset."""
    text = ", ".join(part for part in (attrs, elements) if part)
    for name in names.split():
        more = text if name.startswith("Experimental") or "metadata" in text else f"{text}, {_METADATA}"
        define(name, f"{inputs} -> handle: variant", more.lstrip(", "), shape=shapes.scalar, effect=effect)
        not_differentiable(name)


_COMPONENTS = "Toutput_types: list(type) >= 1, output_shapes: list(shape) >= 1"
_INPUT = "input_dataset: variant"
_OTHER = f"{_INPUT}, other_arguments: Targuments"
_FUNCTION = "f: func, Targuments: list(type) >= 0"
_PREDICATE = "predicate: func, Targuments: list(type) >= 0"

# Sources.
_dataset("TensorDataset", "components: Toutput_types", elements=_COMPONENTS, effect=Effect.CREATES)
_dataset("TensorSliceDataset", "components: Toutput_types", "is_files: bool = false, replicate_on_split: bool = false",
         _COMPONENTS, Effect.CREATES)  # fmt: skip
_dataset(
    "SparseTensorSliceDataset",
    "indices: int64, values: Tvalues, dense_shape: int64",
    "Tvalues: type",
    "",
    Effect.CREATES,
)
_dataset(
    "RangeDataset", "start: int64, stop: int64, step: int64", "replicate_on_split: bool = false", effect=Effect.CREATES
)
_dataset("RandomDataset ExperimentalRandomDataset", "seed: int64, seed2: int64", effect=Effect.CREATES)
_dataset(
    "GeneratorDataset",
    "init_func_other_args: Tinit_func_args, next_func_other_args: Tnext_func_args, "
    "finalize_func_other_args: Tfinalize_func_args",
    "init_func: func, next_func: func, finalize_func: func, Tinit_func_args: list(type) >= 0, "
    "Tnext_func_args: list(type) >= 0, Tfinalize_func_args: list(type) >= 0",
    effect=Effect.CREATES,
)
_dataset("TextLineDataset TFRecordDataset", "filenames: string, compression_type: string, buffer_size: int64",
         elements="", effect=Effect.CREATES)  # fmt: skip
_FIXED_LENGTH = "filenames: string, header_bytes: int64, record_bytes: int64, footer_bytes: int64, buffer_size: int64"
_dataset("FixedLengthRecordDataset", _FIXED_LENGTH, elements="", effect=Effect.CREATES)
_dataset("FixedLengthRecordDatasetV2", f"{_FIXED_LENGTH}, compression_type: string", elements="", effect=Effect.CREATES)
_CSV = (
    "filenames: string, compression_type: string, buffer_size: int64, header: bool, field_delim: string, "
    "use_quote_delim: bool, na_value: string, select_cols: int64, record_defaults: output_types"
)
_CSV_TYPES = "output_types: list({float, double, int32, int64, string}) >= 1, output_shapes: list(shape) >= 1"
_dataset("CSVDataset ExperimentalCSVDataset", _CSV, elements=_CSV_TYPES, effect=Effect.CREATES)
_dataset("CSVDatasetV2", f"{_CSV}, exclude_cols: int64", elements=_CSV_TYPES, effect=Effect.CREATES)

# Joining and choosing.
_dataset("ZipDataset", "input_datasets: N * variant", "N: int >= 1")
_dataset("ConcatenateDataset", f"{_INPUT}, another_dataset: variant")
_dataset("RepeatDataset TakeDataset SkipDataset", f"{_INPUT}, count: int64")
_dataset("ShardDataset", f"{_INPUT}, num_shards: int64, index: int64", "require_non_empty: bool = false")
_dataset("DirectedInterleaveDataset ExperimentalDirectedInterleaveDataset",
         "selector_input_dataset: variant, data_input_datasets: N * variant",
         "N: int >= 1, stop_on_empty_dataset: bool = false")  # fmt: skip
_dataset("UniqueDataset ExperimentalUniqueDataset IgnoreErrorsDataset ExperimentalIgnoreErrorsDataset", _INPUT,
         "log_warning: bool = false")  # fmt: skip

# Grouping and ordering.
_dataset("BatchDataset", f"{_INPUT}, batch_size: int64")
_dataset("BatchDatasetV2", f"{_INPUT}, batch_size: int64, drop_remainder: bool", "parallel_copy: bool = false")
_PADDED = f"{_INPUT}, batch_size: int64, padded_shapes: N * int64, padding_values: Toutput_types"
_dataset("PaddedBatchDataset", _PADDED, "N: int >= 1", _COMPONENTS)
_dataset("PaddedBatchDatasetV2", f"{_PADDED}, drop_remainder: bool", "parallel_copy: bool = false, N: int >= 1",
         _COMPONENTS)  # fmt: skip
_dataset("DenseToSparseBatchDataset ExperimentalDenseToSparseBatchDataset",
         f"{_INPUT}, batch_size: int64, row_shape: int64")  # fmt: skip
_dataset("UnbatchDataset ExperimentalUnbatchDataset", _INPUT)
_dataset("WindowDataset", f"{_INPUT}, size: int64, shift: int64, stride: int64, drop_remainder: bool")
_SEEDS = "buffer_size: int64, seed: int64, seed2: int64"
_dataset("ShuffleDataset", f"{_INPUT}, {_SEEDS}", "reshuffle_each_iteration: bool = true")
_dataset("ShuffleAndRepeatDataset", f"{_INPUT}, {_SEEDS}, count: int64", "reshuffle_each_iteration: bool = true")
_dataset("PrefetchDataset", f"{_INPUT}, buffer_size: int64",
         "slack_period: int = 0, legacy_autotune: bool = true, buffer_size_min: int = 0")  # fmt: skip
_dataset("CacheDataset", f"{_INPUT}, filename: string")

# Wrappers around pipelines in graphs of TensorFlow; here they pass their input on.
_dataset("OptionsDataset", _INPUT, "serialized_options: string")
_dataset("OptimizeDataset", f"{_INPUT}, optimizations: string", "optimization_configs: list(string) = []")
_dataset("ModelDataset", _INPUT, "algorithm: int = 0, cpu_budget: int = 0, ram_budget: int = 0")
_dataset("MaxIntraOpParallelismDataset ExperimentalMaxIntraOpParallelismDataset",
         f"{_INPUT}, max_intra_op_parallelism: int64")  # fmt: skip
_dataset("PrivateThreadPoolDataset ExperimentalPrivateThreadPoolDataset", f"{_INPUT}, num_threads: int64")

# With functions.
_MAP = "use_inter_op_parallelism: bool = true, preserve_cardinality: bool = false"
_dataset("MapDataset ExperimentalMapDataset", _OTHER, f"{_FUNCTION}, {_MAP}, force_synchronous: bool = false")
_dataset("ParallelMapDataset", f"{_OTHER}, num_parallel_calls: int32", f"{_FUNCTION}, {_MAP}, sloppy: bool = false")
_dataset("ParallelMapDatasetV2", f"{_OTHER}, num_parallel_calls: int64",
         f"{_FUNCTION}, {_MAP}, deterministic: string = 'default', use_unbounded_threadpool: bool = false")  # fmt: skip
_dataset("MapAndBatchDataset ExperimentalMapAndBatchDataset",
         f"{_OTHER}, batch_size: int64, num_parallel_calls: int64, drop_remainder: bool",
         f"{_FUNCTION}, preserve_cardinality: bool = false")  # fmt: skip
_dataset("FlatMapDataset", _OTHER, _FUNCTION)
_CYCLE = f"{_OTHER}, cycle_length: int64, block_length: int64"
_dataset("InterleaveDataset", _CYCLE, _FUNCTION)
_dataset("ParallelInterleaveDatasetV2", f"{_CYCLE}, num_parallel_calls: int64", f"{_FUNCTION}, sloppy: bool = false")
_dataset("ParallelInterleaveDatasetV3", f"{_CYCLE}, num_parallel_calls: int64",
         f"{_FUNCTION}, deterministic: string = 'default'")  # fmt: skip
_dataset("ParallelInterleaveDatasetV4",
         f"{_CYCLE}, buffer_output_elements: int64, prefetch_input_elements: int64, num_parallel_calls: int64",
         f"{_FUNCTION}, deterministic: string = 'default'")  # fmt: skip
_dataset("ParallelInterleaveDataset ExperimentalParallelInterleaveDataset",
         f"{_CYCLE}, sloppy: bool, buffer_output_elements: int64, prefetch_input_elements: int64",
         _FUNCTION)  # fmt: skip
_dataset("FilterDataset TakeWhileDataset ExperimentalTakeWhileDataset", _OTHER, _PREDICATE)
_dataset("FilterByLastComponentDataset", _INPUT)
_dataset("ScanDataset ExperimentalScanDataset", f"{_INPUT}, initial_state: Tstate, other_arguments: Targuments",
         f"{_FUNCTION}, Tstate: list(type) >= 1, preserve_cardinality: bool = false, "
         "use_default_device: bool = true")  # fmt: skip
_GROUP_KEYS = "key_func_other_arguments: Tkey_func_other_arguments"
_dataset(
    "GroupByWindowDataset ExperimentalGroupByWindowDataset",
    f"{_INPUT}, {_GROUP_KEYS}, reduce_func_other_arguments: Treduce_func_other_arguments, "
    "window_size_func_other_arguments: Twindow_size_func_other_arguments",
    "key_func: func, reduce_func: func, window_size_func: func, Tkey_func_other_arguments: list(type) >= 0, "
    "Treduce_func_other_arguments: list(type) >= 0, Twindow_size_func_other_arguments: list(type) >= 0",
)
_dataset(
    "GroupByReducerDataset ExperimentalGroupByReducerDataset",
    f"{_INPUT}, {_GROUP_KEYS}, init_func_other_arguments: Tinit_func_other_arguments, "
    "reduce_func_other_arguments: Treduce_func_other_arguments, "
    "finalize_func_other_arguments: Tfinalize_func_other_arguments",
    "key_func: func, init_func: func, reduce_func: func, finalize_func: func, "
    "Tkey_func_other_arguments: list(type) >= 0, Tinit_func_other_arguments: list(type) >= 0, "
    "Treduce_func_other_arguments: list(type) >= 0, Tfinalize_func_other_arguments: list(type) >= 0",
)
