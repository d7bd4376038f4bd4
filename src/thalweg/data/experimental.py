"""Transformations of `tf.data.experimental`: functions that return transformations for `Dataset.apply`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from thalweg.data import structure
from thalweg.data.arguments import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, batched_spec, int64
from thalweg.data.dataset import Dataset
from thalweg.data.functions import DatasetFunction
from thalweg.data.mapping import dataset_function, predicate_function
from thalweg.data.seeds import seed_tensors
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions.op_registry import export, export_value
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.static_value import constant_value, constant_value_as_shape
from thalweg.graph.tensor_shape import TensorShape
from thalweg.graph.tensor_spec import TensorSpec

Transformation = Callable[[Dataset], Dataset]

export_value(INFINITE_CARDINALITY, "data.experimental.INFINITE_CARDINALITY", "data.INFINITE_CARDINALITY")
export_value(UNKNOWN_CARDINALITY, "data.experimental.UNKNOWN_CARDINALITY", "data.UNKNOWN_CARDINALITY")


@export("data.experimental.map_and_batch")
def map_and_batch(
    map_func: Callable[..., Any],
    batch_size: Any,
    num_parallel_batches: Any = None,
    drop_remainder: Any = False,
    num_parallel_calls: Any = None,
) -> Transformation:
    """`map` and `batch` in one.

    Args:
        map_func: See `Dataset.map`.
        batch_size: How many elements make a batch.
        num_parallel_batches: How many batches may be made at once; not together with `num_parallel_calls`.
        drop_remainder: Whether to leave out a last batch that is smaller.
        num_parallel_calls: How many calls may run at once; as many as make a batch if neither is given.

    Returns:
        A transformation for `Dataset.apply`.

    Raises:
        ValueError: If both `num_parallel_batches` and `num_parallel_calls` are given.
    """
    if num_parallel_batches is not None and num_parallel_calls is not None:
        raise ValueError("The `num_parallel_batches` and `num_parallel_calls` arguments are mutually exclusive.")

    def transformed(dataset: Dataset) -> Dataset:
        function = DatasetFunction(map_func, dataset.element_spec, name="Dataset_map_and_batch")
        size = int64(batch_size, "batch_size")
        if num_parallel_calls is not None:
            calls = int64(num_parallel_calls, "num_parallel_calls")
        else:
            batches = 1 if num_parallel_batches is None else num_parallel_batches
            calls = apply_one("Mul", size, int64(batches, "num_parallel_batches"))
        drop = convert_to_tensor(drop_remainder, dtypes.bool, name="drop_remainder")
        known, rows = constant_value(drop), constant_value(size)
        static = int(rows) if rows is not None and known is not None and bool(known) else None
        spec = structure.map_structure(lambda s: batched_spec(s, static), function.spec)
        return dataset._derived("MapAndBatchDataset", function.captured, size, calls, drop, spec=spec, f=function.attr)

    return transformed


@export("data.experimental.shuffle_and_repeat")
def shuffle_and_repeat(buffer_size: Any, count: Any = None, seed: Any = None) -> Transformation:
    """`shuffle` and `repeat` in one, which fills its buffer with the next round before one is over."""

    def transformed(dataset: Dataset) -> Dataset:
        size = int64(buffer_size, "buffer_size")
        rounds = int64(-1 if count is None else count, "count")
        return dataset._derived("ShuffleAndRepeatDataset", size, *seed_tensors(seed), rounds)

    return transformed


@export("data.experimental.parallel_interleave")
def parallel_interleave(
    map_func: Callable[..., Any],
    cycle_length: Any,
    block_length: Any = 1,
    sloppy: Any = False,
    buffer_output_elements: Any = None,
    prefetch_input_elements: Any = None,
) -> Transformation:
    """`interleave` with all datasets of the cycle read ahead; with `sloppy`, elements come as they are ready."""

    def transformed(dataset: Dataset) -> Dataset:
        function = dataset_function(dataset, map_func, "Dataset_parallel_interleave")
        block = int64(block_length, "block_length")
        ahead = apply_one("Mul", block, int64(2, "two")) if buffer_output_elements is None else buffer_output_elements
        inputs = 2 * cycle_length if prefetch_input_elements is None else prefetch_input_elements
        return dataset._derived(
            "ParallelInterleaveDataset", function.captured, int64(cycle_length, "cycle_length"), block,
            convert_to_tensor(sloppy, dtypes.bool, name="sloppy"), int64(ahead, "buffer_output_elements"),
            int64(inputs, "prefetch_input_elements"), spec=function.spec.element_spec, f=function.attr,
        )  # fmt: skip

    return transformed


@export("data.experimental.unbatch")
def unbatch() -> Transformation:
    """`Dataset.unbatch` as a transformation."""
    return lambda dataset: dataset.unbatch()


@export("data.experimental.enumerate_dataset")
def enumerate_dataset(start: Any = 0) -> Transformation:
    """`Dataset.enumerate` as a transformation."""
    return lambda dataset: dataset.enumerate(start)


@export("data.experimental.ignore_errors")
def ignore_errors() -> Transformation:
    """A transformation that leaves out elements whose computation fails."""
    return lambda dataset: dataset._derived("IgnoreErrorsDataset")


@export("data.experimental.unique")
def unique() -> Transformation:
    """A transformation that leaves out elements (int32, int64 or string scalars) that came before."""

    def transformed(dataset: Dataset) -> Dataset:
        spec = dataset.element_spec
        if structure.is_nested(spec) or spec.dtype not in (dtypes.int32, dtypes.int64, dtypes.string):
            raise TypeError(
                "`tf.data.experimental.unique()` only supports inputs with a single `tf.int32`, `tf.int64`, or "
                f"`tf.string` component, got {spec}."
            )
        return dataset._derived("UniqueDataset")

    return transformed


@export("data.experimental.take_while")
def take_while(predicate: Callable[..., Any]) -> Transformation:
    """A transformation that ends before the first element for which a function returns False."""

    def transformed(dataset: Dataset) -> Dataset:
        function = predicate_function(dataset, predicate, "Dataset_take_while")
        return dataset._derived("TakeWhileDataset", function.captured, predicate=function.attr)

    return transformed


@export("data.experimental.dense_to_sparse_batch")
def dense_to_sparse_batch(batch_size: Any, row_shape: Any) -> Transformation:
    """A transformation that makes sparse tensors of rows that may differ in size."""

    def transformed(dataset: Dataset) -> Dataset:
        spec = dataset.element_spec
        if structure.is_nested(spec) or not isinstance(spec, TensorSpec):
            raise TypeError(f"`DenseToSparseDataset` requires an input dataset of one dense tensor, got {spec}.")
        if isinstance(row_shape, (list, tuple, TensorShape)):
            sizes: Any = [-1 if size is None else size for size in TensorShape(row_shape).as_list()]
        else:
            sizes = row_shape
        shape = int64(sizes, "row_shape")
        sparse = structure.SparseTensorSpec(TensorShape([None]).concatenate(constant_value_as_shape(shape)), spec.dtype)
        return dataset._derived("DenseToSparseBatchDataset", int64(batch_size, "batch_size"), shape, spec=sparse)

    return transformed


@export("data.experimental.prefetch_to_device")
def prefetch_to_device(device: Any, buffer_size: Any = None) -> Transformation:
    """A transformation that prefetches; all devices share the machine's memory."""
    return lambda dataset: dataset.prefetch(1 if buffer_size is None else buffer_size)


@export("data.experimental.copy_to_device")
def copy_to_device(target_device: Any, source_device: Any = "/cpu:0") -> Transformation:
    """A transformation that changes nothing: all devices share the machine's memory."""
    return lambda dataset: dataset


@export("data.experimental.Counter")
def counter(start: Any = 0, step: Any = 1, dtype: Any = dtypes.int64) -> Dataset:
    """The numbers `start, start + step, ...` without end.

    Example:
        >>> element = tf.data.make_one_shot_iterator(tf.data.experimental.Counter(5, 2)).get_next()
        >>> with tf.Session() as session:
        ...     print(session.run(element), session.run(element))
        5 7
    """
    kind = as_dtype(dtype)
    begin, by = convert_to_tensor(start, kind, name="start"), convert_to_tensor(step, kind, name="step")
    largest = np.iinfo(np.int64).max
    if kind is dtypes.int64:
        static = constant_value(by)
        end = -largest if static is not None and int(static) < 0 else largest
        return Dataset.range(begin, end, by)
    return Dataset.range(largest).map(lambda i: begin + apply_one("Cast", i, DstT=kind) * by)


@export("data.experimental.RandomDataset")
class RandomDataset(Dataset):
    """Random int64 numbers in [0, 2^32), without end."""

    def __init__(self, seed: Any = None) -> None:
        """Takes the seed of the sequence."""
        spec = TensorSpec([], dtypes.int64)
        handle = apply_one(
            "RandomDataset", *seed_tensors(seed), output_types=[dtypes.int64], output_shapes=[TensorShape([])]
        )
        super().__init__(handle, spec)


def _directed_interleave(selector: Dataset, datasets: Any) -> Dataset:
    first = datasets[0]
    for dataset in datasets[1:]:
        if dataset.output_types != first.output_types or dataset.output_classes != first.output_classes:
            raise TypeError(
                f"All datasets must have the same type and class: {first.element_spec} and {dataset.element_spec}."
            )
    spec = first.element_spec
    for dataset in datasets[1:]:
        spec = structure.map_structure(
            lambda a, b: type(a)(a.shape.most_specific_compatible_shape(b.shape), a.dtype), spec, dataset.element_spec
        )
    handle = apply_one(
        "DirectedInterleaveDataset", selector._variant_tensor, [dataset._variant_tensor for dataset in datasets],
        output_types=structure.flat_types(spec), output_shapes=structure.flat_shapes(spec),
    )  # fmt: skip
    return Dataset(handle, spec)


@export("data.experimental.choose_from_datasets")
def choose_from_datasets(datasets: Any, choice_dataset: Dataset) -> Dataset:
    """Elements of several datasets, each from the one whose index `choice_dataset` gives."""
    spec = choice_dataset.element_spec
    if structure.is_nested(spec) or spec.dtype is not dtypes.int64 or not spec.shape.is_compatible_with([]):
        raise TypeError(f"`choice_dataset` must be a dataset of scalar `tf.int64` tensors, not of {spec}.")
    if not datasets:
        raise ValueError("There must be at least one dataset to choose from.")
    return _directed_interleave(choice_dataset, datasets)


@export("data.experimental.sample_from_datasets")
def sample_from_datasets(datasets: Any, weights: Any = None, seed: Any = None) -> Dataset:
    """Elements of several datasets, drawn at random.

    Args:
        datasets: A list of datasets of one structure.
        weights: Their probabilities: a list, a vector tensor, or a dataset of such; equal if None.
        seed: The seed of the choice.

    Returns:
        A Dataset.
    """
    if not datasets:
        raise ValueError("There must be at least one dataset to sample from.")
    if isinstance(weights, Dataset):
        probabilities = weights
    else:
        if weights is None:
            weights = [1.0 / len(datasets)] * len(datasets)
        vector = convert_to_tensor(weights, name="weights")
        if vector.dtype not in (dtypes.float32, dtypes.float64):
            raise TypeError(f"`weights` must be convertible to a tensor of `tf.float32` or `tf.float64`, got {vector}.")
        if vector.shape.ndims == 1 and vector.shape[0].value not in (None, len(datasets)):
            raise ValueError(f"`weights` must be a vector of length {len(datasets)}, got shape {vector.shape}.")
        probabilities = Dataset.from_tensors(vector).repeat()
    random = Dataset.zip((probabilities, RandomDataset(seed).batch(2)))

    def choice(p: Any, seeds: Any) -> Any:
        logits = apply_one("Log", apply_one("Reshape", p, [1, -1]))
        drawn = apply_one("StatelessMultinomial", logits, 1, seeds, output_dtype=dtypes.int64)
        return apply_one("Squeeze", drawn, squeeze_dims=[0, 1])

    return _directed_interleave(random.map(choice), datasets)
