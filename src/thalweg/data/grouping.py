"""Elements brought together by a key: group_by_window, bucket_by_sequence_length; and rejection_resample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from thalweg.data import structure
from thalweg.data.dataset import Dataset
from thalweg.data.experimental import RandomDataset
from thalweg.data.functions import DatasetFunction
from thalweg.data.padding import shapes_like
from thalweg.data.reducing import check_key, scan
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one, apply_op
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor_shape import TensorShape
from thalweg.graph.tensor_spec import TensorSpec

_INT64 = TensorSpec([], dtypes.int64)


@export("data.experimental.group_by_window")
def group_by_window(
    key_func: Callable[..., Any],
    reduce_func: Callable[..., Any],
    window_size: Any = None,
    window_size_func: Callable[..., Any] | None = None,
) -> Callable[[Dataset], Dataset]:
    """A transformation that makes a dataset of each `window_size` elements with the same key.

    Args:
        key_func: From an element to its key, an int64 scalar.
        reduce_func: From a key and a dataset of elements to the dataset that takes their place, often a batch.
        window_size: How many elements of one key are brought together at most.
        window_size_func: From a key to that number; instead of `window_size`.

    Returns:
        A transformation for `Dataset.apply`.

    Raises:
        ValueError: Unless exactly one of the two is given.
    """
    if (window_size is None) == (window_size_func is None):
        raise ValueError("Must pass either window_size or window_size_func.")
    if window_size is not None:

        def window_size_func(key: Any) -> Any:
            return convert_to_tensor(window_size, dtypes.int64)

    assert window_size_func is not None
    sizes = window_size_func

    def transformed(dataset: Dataset) -> Dataset:
        key = DatasetFunction(key_func, dataset.element_spec, name="Dataset_group_by_window_key")
        check_key(key.spec, "key_func")
        size = DatasetFunction(
            lambda k: convert_to_tensor(sizes(k), dtypes.int64), _INT64, name="Dataset_group_by_window_size"
        )
        check_key(size.spec, "window_size_func")
        reduce = DatasetFunction(
            reduce_func, _INT64, structure.DatasetSpec(dataset.element_spec), name="Dataset_group_by_window_reduce"
        )
        if not isinstance(reduce.spec, structure.DatasetSpec):
            raise TypeError("`reduce_func` must return a `Dataset` object.")
        return dataset._derived(
            "GroupByWindowDataset", key.captured, reduce.captured, size.captured, spec=reduce.spec.element_spec,
            key_func=key.attr, reduce_func=reduce.attr, window_size_func=size.attr,
        )  # fmt: skip

    return transformed


@export("data.experimental.bucket_by_sequence_length")
def bucket_by_sequence_length(
    element_length_func: Callable[..., Any],
    bucket_boundaries: Any,
    bucket_batch_sizes: Any,
    padded_shapes: Any = None,
    padding_values: Any = None,
    pad_to_bucket_boundary: bool = False,
    no_padding: bool = False,
    drop_remainder: bool = False,
) -> Callable[[Dataset], Dataset]:
    """A transformation that batches elements of similar length together, so that little padding is needed.

    Args:
        element_length_func: From an element to its length, an int32 scalar.
        bucket_boundaries: The lengths that divide the buckets, in increasing order.
        bucket_batch_sizes: The batch size of each bucket: one more than there are boundaries.
        padded_shapes: See `Dataset.padded_batch`; the static shapes of the elements if None.
        padding_values: See `Dataset.padded_batch`.
        pad_to_bucket_boundary: Whether to pad unknown dimensions to the longest that the bucket takes.
        no_padding: Whether to batch without padding, also of sparse tensors.
        drop_remainder: Whether to leave out last batches that are smaller.

    Returns:
        A transformation for `Dataset.apply`.

    Raises:
        ValueError: If the numbers of boundaries and batch sizes do not fit.
    """
    if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
        raise ValueError("len(bucket_batch_sizes) must equal len(bucket_boundaries) + 1")
    batch_sizes = np.asarray(bucket_batch_sizes, np.int64)
    boundaries = np.asarray(bucket_boundaries, np.int64)

    def bucket(*element: Any) -> Any:
        length = apply_one("Cast", convert_to_tensor(element_length_func(*element)), DstT=dtypes.int64)
        below = apply_one("LessEqual", convert_to_tensor(boundaries), length)
        return apply_one("Sum", apply_one("Cast", below, DstT=dtypes.int64), 0)

    def size(key: Any) -> Any:
        return apply_one("GatherV2", convert_to_tensor(batch_sizes), key, 0)

    def batches(key: Any, grouped: Dataset) -> Dataset:
        if no_padding:
            return grouped.batch(size(key), drop_remainder=drop_remainder)
        shapes = grouped.output_shapes if padded_shapes is None else padded_shapes
        if pad_to_bucket_boundary:
            last = convert_to_tensor(np.int64(len(boundaries)))
            checked = apply_op(
                "Assert", apply_one("NotEqual", key, last),
                ["When pad_to_bucket_boundary=True, elements must have length < max(bucket_boundaries)."],
            )  # fmt: skip
            with grouped._variant_tensor.graph.control_dependencies([checked]):
                longest = apply_one("GatherV2", convert_to_tensor(boundaries), key, 0) - np.int64(1)
            shapes = structure.pack(
                grouped.element_spec,
                [_shape_with_size(shape, longest) for shape in _like(grouped.element_spec, shapes)],
            )
        return grouped.padded_batch(size(key), shapes, padding_values, drop_remainder=drop_remainder)

    return group_by_window(bucket, batches, window_size_func=size)


def _like(spec: Any, shapes: Any) -> list[Any]:
    return shapes_like(spec, shapes)


def _shape_with_size(shape: Any, size: Any) -> Any:
    """The shape as a tensor, with `size` where a dimension is not known."""
    dims = TensorShape(shape).as_list()
    if None not in dims:
        return TensorShape(dims)
    return apply_one("Pack", [size if d is None else convert_to_tensor(np.int64(d)) for d in dims])


@export("data.experimental.rejection_resample")
def rejection_resample(
    class_func: Callable[..., Any], target_dist: Any, initial_dist: Any = None, seed: Any = None
) -> Callable[[Dataset], Dataset]:
    """A transformation that drops elements at random until their classes are distributed as wanted.

    Args:
        class_func: From an element to its class, an int32 scalar.
        target_dist: The wanted probabilities of the classes.
        initial_dist: Those of the input; estimated as it goes if None.
        seed: The seed of the choice.

    Returns:
        A transformation for `Dataset.apply`, whose elements are pairs of a class and an element.
    """

    def transformed(dataset: Dataset) -> Dataset:
        target = convert_to_tensor(target_dist, dtypes.float32, name="target_dist")
        count = target.shape[0].value
        if count is None:
            raise ValueError("The number of classes must be known: target_dist needs a static shape.")

        def with_class(*element: Any) -> Any:
            kind = apply_one("Cast", convert_to_tensor(class_func(*element)), DstT=dtypes.int64)
            return kind, element[0] if len(element) == 1 else element

        classed = dataset.map(with_class)
        if initial_dist is not None:
            known = convert_to_tensor(initial_dist, dtypes.float32, name="initial_dist")
            weighed = classed.map(lambda kind, element: (kind, known, element))
        else:

            def seen(counts: Any, pair: Any) -> Any:
                kind, element = pair
                one = apply_one("OneHot", kind, count, np.float32(1), np.float32(0))
                new = counts + one
                return new, (kind, new / apply_one("Sum", new, 0), element)

            # Each class counts as seen once, so that no probability is zero.
            weighed = classed.apply(scan(np.ones(count, np.float32), seen))

        def accepted(triple: Any, seeds: Any) -> Any:
            kind, initial, _ = triple
            ratio = target / apply_one("Maximum", initial, np.float32(1e-12))
            chance = apply_one("GatherV2", ratio / apply_one("Max", ratio, 0), kind, 0)
            drawn = apply_one("StatelessRandomUniform", np.zeros(0, np.int32), seeds, dtype=dtypes.float32)
            return apply_one("Less", drawn, chance)

        paired = Dataset.zip((weighed, RandomDataset(seed).batch(2, drop_remainder=True)))
        kept = paired.filter(accepted)
        return kept.map(lambda triple, seeds: (apply_one("Cast", triple[0], DstT=dtypes.int32), triple[2]))

    return transformed
