"""Transformations that call a function on every element: map, filter, flat_map, interleave."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from thalweg.data import structure
from thalweg.data.arguments import int64
from thalweg.data.functions import DatasetFunction
from thalweg.graph import dtypes

if TYPE_CHECKING:
    from thalweg.data.dataset import Dataset


def _deterministic_attr(deterministic: Any) -> bytes:
    return b"default" if deterministic is None else b"true" if deterministic else b"false"


def map_dataset(
    dataset: Dataset, map_func: Callable[..., Any], num_parallel_calls: Any, deterministic: Any = None
) -> Dataset:
    """See `Dataset.map`."""
    function = DatasetFunction(map_func, dataset.element_spec, name="Dataset_map")
    if num_parallel_calls is None:
        return dataset._derived("MapDataset", function.captured, spec=function.spec, f=function.attr)
    return dataset._derived(
        "ParallelMapDatasetV2", function.captured, int64(num_parallel_calls, "num_parallel_calls"), spec=function.spec,
        f=function.attr, deterministic=_deterministic_attr(deterministic),
    )  # fmt: skip


def predicate_function(dataset: Dataset, predicate: Callable[..., Any], name: str) -> DatasetFunction:
    """A function from elements to one bool.

    Raises:
        ValueError: If it returns something else.
    """
    function = DatasetFunction(predicate, dataset.element_spec, name=name)
    spec = function.spec
    if structure.is_nested(spec) or spec.dtype is not dtypes.bool or not spec.shape.is_compatible_with([]):
        raise ValueError(f"`predicate` must return a scalar boolean tensor, got {spec}.")
    return function


def filter_dataset(dataset: Dataset, predicate: Callable[..., Any]) -> Dataset:
    """See `Dataset.filter`."""
    function = predicate_function(dataset, predicate, "Dataset_filter")
    return dataset._derived("FilterDataset", function.captured, predicate=function.attr)


def dataset_function(dataset: Dataset, map_func: Callable[..., Any], name: str) -> DatasetFunction:
    """A function from elements to a dataset.

    Raises:
        TypeError: If it returns something else.
    """
    function = DatasetFunction(map_func, dataset.element_spec, name=name)
    if not isinstance(function.spec, structure.DatasetSpec):
        raise TypeError(f"`map_func` must return a `Dataset` object, got {function.spec}.")
    return function


def flat_map(dataset: Dataset, map_func: Callable[..., Any]) -> Dataset:
    """See `Dataset.flat_map`."""
    function = dataset_function(dataset, map_func, "Dataset_flat_map")
    return dataset._derived("FlatMapDataset", function.captured, spec=function.spec.element_spec, f=function.attr)


def interleave(
    dataset: Dataset,
    map_func: Callable[..., Any],
    cycle_length: Any,
    block_length: Any,
    num_parallel_calls: Any,
    deterministic: Any = None,
) -> Dataset:
    """See `Dataset.interleave`."""
    function = dataset_function(dataset, map_func, "Dataset_interleave")
    cycle = int64(cycle_length, "cycle_length"), int64(1 if block_length is None else block_length, "block_length")
    spec = function.spec.element_spec
    if num_parallel_calls is None:
        return dataset._derived("InterleaveDataset", function.captured, *cycle, spec=spec, f=function.attr)
    return dataset._derived(
        "ParallelInterleaveDatasetV3", function.captured, *cycle, int64(num_parallel_calls, "num_parallel_calls"),
        spec=spec, f=function.attr, deterministic=_deterministic_attr(deterministic),
    )  # fmt: skip
