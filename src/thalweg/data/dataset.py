"""Dataset: a sequence of elements as a value of the graph, and the transformations that make new ones of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from thalweg import errors
from thalweg.data import iterator, mapping, padding, reducing, structure
from thalweg.data.arguments import (
    AUTOTUNE,
    batched_spec,
    common_spec,
    int64,
    slice_spec,
    sliceable,
    static_size,
)
from thalweg.data.generator import generated
from thalweg.data.iterator import EagerIterator, Iterator
from thalweg.data.matching_files import matching_files
from thalweg.data.options import Options
from thalweg.data.seeds import seed_tensors
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.composite import SparseTensor
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import executing_eagerly, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import Dimension, TensorShape
from thalweg.graph.tensor_spec import TensorSpec

_LARGEST: Final = np.iinfo(np.int64).max


@export("data.Dataset", "data.experimental.Dataset")
class Dataset:
    """A sequence of elements, each a structure (nested tuples and dicts) of tensors.

    A dataset is a node of the graph; nothing is read or computed before an iterator over it is run.

    Example:
        >>> dataset = tf.data.Dataset.range(5).map(lambda x: x * x).batch(2)
        >>> element = tf.data.make_one_shot_iterator(dataset).get_next()
        >>> with tf.Session() as session:
        ...     print(session.run(element), session.run(element))
        [0 1] [4 9]
    """

    def __init__(self, variant_tensor: Tensor, element_spec: Any = None, options: Options | None = None) -> None:
        """Used by the transformations: wraps the variant tensor of a dataset."""
        self._variant_tensor = variant_tensor
        self._element_spec = element_spec
        self._dataset_options = Options() if options is None else options

    @classmethod
    def _from_variant(cls, variant_tensor: Tensor, element_spec: Any) -> Dataset:
        return Dataset(variant_tensor, element_spec)

    @property
    def _type_spec(self) -> structure.DatasetSpec:
        return structure.DatasetSpec(self.element_spec)

    @property
    def element_spec(self) -> Any:
        """The structure of the elements: a spec for each tensor."""
        return self._element_spec

    @property
    def output_types(self) -> Any:
        """The structure of the elements, with the type of each tensor."""
        return structure.types_of(self.element_spec)

    @property
    def output_shapes(self) -> Any:
        """The structure of the elements, with the static shape of each tensor."""
        return structure.shapes_of(self.element_spec)

    @property
    def output_classes(self) -> Any:
        """The structure of the elements, with the class (Tensor or SparseTensor) of each."""
        return structure.classes_of(self.element_spec)

    def options(self) -> Options:
        """The options of this dataset and its inputs."""
        return self._dataset_options

    def _derived(self, op_type: str, *inputs: Any, spec: Any = None, name: str | None = None, **attrs: Any) -> Dataset:
        """The dataset that an op makes of this one."""
        spec = self.element_spec if spec is None else spec
        handle = apply_one(
            op_type, self._variant_tensor, *inputs, name=name, output_types=structure.flat_types(spec),
            output_shapes=structure.flat_shapes(spec), **attrs,
        )  # fmt: skip
        return self._with_variant(handle, spec)

    def _with_variant(self, handle: Tensor, spec: Any) -> Dataset:
        """The dataset that a node made of this one."""
        return Dataset(handle, spec, self._dataset_options)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} shapes: {self.output_shapes}, types: {self.output_types}>"

    def __iter__(self) -> Any:
        if not executing_eagerly():
            raise RuntimeError("dataset.__iter__() is only supported when eager execution is enabled: use an iterator.")
        return EagerIterator(self)

    def __bool__(self) -> bool:
        return True

    def cardinality(self) -> Tensor:
        """How many elements there are: -1 without end, -2 if that is not known."""
        return apply_one("DatasetCardinality", self._variant_tensor)

    def __len__(self) -> int:
        if not executing_eagerly():
            raise TypeError("A dataset has a length only when eager execution is enabled: see `cardinality`.")
        count = int(self.cardinality())
        if count < 0:
            raise TypeError("The dataset is infinite." if count == -1 else "The dataset length is unknown.")
        return count

    # Sources.

    @staticmethod
    def from_tensors(tensors: Any) -> Dataset:
        """One element: `tensors`."""
        with name_scope(None, "tensors"):
            values = structure.to_values(tensors)
        specs = structure.specs_of(values)
        handle = apply_one("TensorDataset", structure.to_tensors(values), output_shapes=structure.flat_shapes(specs))
        return Dataset(handle, specs)

    @staticmethod
    def from_tensor_slices(tensors: Any) -> Dataset:
        """The slices of `tensors` along their first dimension, which must be equal in all of them.

        Example:
            >>> dataset = tf.data.Dataset.from_tensor_slices({"x": [1.0, 2.0], "y": [b"a", b"b"]})
            >>> dataset.output_types
            {'x': tf.float32, 'y': tf.string}
        """
        with name_scope(None, "tensors"):
            values = structure.to_values(tensors)
        flat = structure.flatten(values)
        first = Dimension(None)
        for value in flat:
            if value.shape.ndims == 0:
                raise ValueError(f"from_tensor_slices needs tensors of at least one dimension, got the scalar {value}.")
            if value.shape.ndims is not None:
                first = first.merge_with(value.shape[0])
        specs = structure.map_structure(slice_spec, values)
        rows = [sliceable(value) for value in flat]
        handle = apply_one("TensorSliceDataset", rows, output_shapes=structure.flat_shapes(specs))
        return Dataset(handle, specs)

    @staticmethod
    def from_sparse_tensor_slices(sparse_tensor: Any) -> Dataset:
        """The slices of a sparse tensor along its first dimension, as sparse tensors."""
        if not isinstance(sparse_tensor, SparseTensor):
            raise TypeError(f"`sparse_tensor` must be a `tf.SparseTensor` object. Was {sparse_tensor}.")
        spec = slice_spec(sparse_tensor)
        handle = apply_one(
            "SparseTensorSliceDataset", sparse_tensor.indices, sparse_tensor.values, sparse_tensor.dense_shape
        )
        return Dataset(handle, spec)

    @staticmethod
    def from_generator(
        generator: Callable[..., Any], output_types: Any = None, output_shapes: Any = None, args: Any = None,
        output_signature: Any = None,
    ) -> Dataset:  # fmt: skip
        """The elements that a Python generator yields; see `thalweg.data.generator`.

        Args:
            generator: A function that returns an iterable; called anew for each pass over the dataset.
            output_types: The structure of the elements, with types.
            output_shapes: The same with shapes; unknown if None.
            args: Tensors whose values the function gets as arrays.
            output_signature: TensorSpecs, in place of types and shapes.

        Returns:
            A Dataset.
        """
        if output_signature is not None:
            output_types = structure.map_structure(lambda spec: spec.dtype, output_signature)
            output_shapes = structure.map_structure(lambda spec: spec.shape, output_signature)
        elif output_types is None:
            raise TypeError("from_generator needs `output_signature` or `output_types`.")
        return Dataset(*generated(generator, output_types, output_shapes, args))

    @staticmethod
    def range(*args: Any) -> Dataset:
        """The integers of `range(*args)`, as int64."""
        if not 1 <= len(args) <= 3:
            raise ValueError(f"range takes 1 to 3 arguments, got {len(args)}.")
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        spec = TensorSpec([], dtypes.int64)
        handle = apply_one(
            "RangeDataset", int64(start, "start"), int64(stop, "stop"), int64(step, "step"),
            output_types=[dtypes.int64], output_shapes=[TensorShape([])],
        )  # fmt: skip
        return Dataset(handle, spec)

    @staticmethod
    def zip(datasets: Any) -> Dataset:
        """Elements put together from those of several datasets, until the shortest ends.

        Args:
            datasets: A structure (nested tuples and dicts) of datasets.

        Returns:
            A Dataset whose elements have that structure.
        """
        flat = structure.flatten(datasets)
        for dataset in flat:
            if isinstance(dataset, list):
                raise TypeError("The argument to `Dataset.zip()` must be a nested structure of Dataset objects; "
                                "Python lists are not supported, use a tuple.")  # fmt: skip
            if not isinstance(dataset, Dataset):
                raise TypeError(
                    f"The argument to `Dataset.zip()` must be a nested structure of Dataset objects, got {dataset!r}."
                )
        spec = structure.map_structure(lambda dataset: dataset.element_spec, datasets)
        handle = apply_one(
            "ZipDataset", [dataset._variant_tensor for dataset in flat], output_types=structure.flat_types(spec),
            output_shapes=structure.flat_shapes(spec),
        )  # fmt: skip
        options = Options()
        for dataset in flat:
            options = options.merge(dataset._dataset_options)
        return Dataset(handle, spec, options)

    @staticmethod
    def list_files(file_pattern: Any, shuffle: bool | None = None, seed: Any = None) -> Dataset:
        """The names of the files that match a pattern (or patterns), shuffled unless `shuffle` is False.

        Running it fails if there is none.
        """
        with name_scope(None, "list_files"):
            found, count = matching_files(file_pattern)
            dataset = Dataset.from_tensor_slices(found)
            if shuffle is None or shuffle:
                size = apply_one("Maximum", count, int64(1, "one"))
                dataset = dataset.shuffle(size, seed=seed)
            return dataset

    # Joining and choosing.

    def concatenate(self, dataset: Any) -> Dataset:
        """The elements of this dataset, then those of another with the same structure and types."""
        if self.output_types != dataset.output_types or self.output_classes != dataset.output_classes:
            raise TypeError(
                "Two datasets to concatenate have different types "
                f"{self.output_types} and {dataset.output_types}, or classes."
            )
        spec = structure.map_structure(common_spec, self.element_spec, dataset.element_spec)
        joined = self._derived("ConcatenateDataset", dataset._variant_tensor, spec=spec)
        joined._dataset_options = self._dataset_options.merge(dataset._dataset_options)
        return joined

    def repeat(self, count: Any = None) -> Dataset:
        """The elements `count` times over; forever if it is None or negative."""
        return self._derived("RepeatDataset", int64(-1 if count is None else count, "count"))

    def take(self, count: Any) -> Dataset:
        """The first `count` elements; all if it is -1."""
        return self._derived("TakeDataset", int64(count, "count"))

    def skip(self, count: Any) -> Dataset:
        """The elements after the first `count`; none if it is -1."""
        return self._derived("SkipDataset", int64(count, "count"))

    def shard(self, num_shards: Any, index: Any) -> Dataset:
        """Every `num_shards`-th element, beginning with the `index`-th: one worker's part.

        Raises:
            errors.InvalidArgumentError: If `num_shards` is less than 1, or `index` is not in `[0, num_shards)`.
        """
        shards, place = int64(num_shards, "num_shards"), int64(index, "index")
        static_shards, static_index = static_size(shards), static_size(place)
        if static_shards is not None and static_shards < 1:
            raise errors.InvalidArgumentError(None, None, f"num_shards must be >= 1; got {static_shards}")
        if static_index is not None and static_index < 0:
            raise errors.InvalidArgumentError(None, None, f"index must be >= 0; got {static_index}")
        if static_index is not None and static_shards is not None and static_index >= static_shards:
            raise errors.InvalidArgumentError(None, None, f"index {static_index} is not < num_shards {static_shards}")
        return self._derived("ShardDataset", shards, place)

    def enumerate(self, start: Any = 0) -> Dataset:
        """Pairs of a number, counted from `start`, and an element."""
        return Dataset.zip((Dataset.range(start, _LARGEST), self))

    # Ordering and buffering.

    def shuffle(self, buffer_size: Any, seed: Any = None, reshuffle_each_iteration: bool | None = None) -> Dataset:
        """The elements in random order: each is drawn from a buffer of the next `buffer_size`.

        Args:
            buffer_size: How many elements to choose from; that of the dataset for a perfect shuffle.
            seed: With this, or with a seed of the graph, the order is the same in every run.
            reshuffle_each_iteration: Whether each repetition has an order of its own (so unless False).

        Returns:
            A Dataset.
        """
        size = int64(buffer_size, "buffer_size")
        seeds = seed_tensors(seed)
        again = True if reshuffle_each_iteration is None else reshuffle_each_iteration
        return self._derived("ShuffleDataset", size, *seeds, reshuffle_each_iteration=again)

    def prefetch(self, buffer_size: Any) -> Dataset:
        """The same elements, computed up to `buffer_size` ahead of the consumer, in the background."""
        return self._derived("PrefetchDataset", int64(AUTOTUNE if buffer_size is None else buffer_size, "buffer_size"))

    def cache(self, filename: Any = "") -> Dataset:
        """The same elements, kept in memory, or in a file, after they have been computed once.

        The file appears when the first pass has reached the end. It may be elsewhere (`s3://...`, through fsspec): then
        it is written locally first.
        """
        return self._derived("CacheDataset", convert_to_tensor(filename, dtypes.string, name="filename"))

    # Grouping.

    def batch(
        self, batch_size: Any, drop_remainder: Any = False, num_parallel_calls: Any = None, deterministic: Any = None
    ) -> Dataset:
        """Consecutive elements stacked along a new first dimension.

        Args:
            batch_size: How many elements make a batch.
            drop_remainder: Whether to leave out a last batch that is smaller; its size is then static.
            num_parallel_calls: Has no effect.
            deterministic: Has no effect.

        Returns:
            A Dataset.
        """
        size = int64(batch_size, "batch_size")
        drop = convert_to_tensor(drop_remainder, dtypes.bool, name="drop_remainder")
        rows = static_size(size) if constant_value(drop) is not None and bool(constant_value(drop)) else None
        spec = structure.map_structure(lambda s: batched_spec(s, rows), self.element_spec)
        return self._derived("BatchDatasetV2", size, drop, spec=spec)

    def padded_batch(
        self, batch_size: Any, padded_shapes: Any = None, padding_values: Any = None, drop_remainder: Any = False
    ) -> Dataset:
        """Consecutive elements padded to one shape and stacked.

        Args:
            batch_size: How many elements make a batch.
            padded_shapes: A structure like the elements' with shapes; None or -1 in one asks for the longest of the
                batch. None pads every unknown dimension.
            padding_values: A structure of scalars; zero or the empty string where it is None.
            drop_remainder: Whether to leave out a last batch that is smaller.

        Returns:
            A Dataset.
        """
        return padding.padded_batch(self, batch_size, padded_shapes, padding_values, drop_remainder)

    def unbatch(self) -> Dataset:
        """The rows of the elements, one by one."""
        return padding.unbatch(self)

    def window(self, size: Any, shift: Any = None, stride: Any = 1, drop_remainder: Any = False) -> Dataset:
        """Datasets of `size` elements each, beginning every `shift` elements, of every `stride`-th element.

        Every component of the elements becomes a dataset of its own.
        """
        length = int64(size, "size")
        spec = structure.map_structure(structure.DatasetSpec, self.element_spec)
        return self._derived(
            "WindowDataset", length, length if shift is None else int64(shift, "shift"), int64(stride, "stride"),
            convert_to_tensor(drop_remainder, dtypes.bool, name="drop_remainder"), spec=spec,
        )  # fmt: skip

    # With functions.

    def map(self, map_func: Callable[..., Any], num_parallel_calls: Any = None, deterministic: Any = None) -> Dataset:
        """The results of a function of the elements.

        Args:
            map_func: Takes the components of an element, returns a structure of tensors. It is traced once, and run by
                the core.
            num_parallel_calls: How many calls may run at once; `tf.data.experimental.AUTOTUNE` leaves it to Thalweg.
            deterministic: Whether parallel calls keep the order; if None, the dataset's options decide.

        Returns:
            A Dataset.
        """
        return mapping.map_dataset(self, map_func, num_parallel_calls, deterministic)

    def map_with_legacy_function(self, map_func: Callable[..., Any], num_parallel_calls: Any = None) -> Dataset:
        """Another name of `map`."""
        return self.map(map_func, num_parallel_calls)

    def flat_map(self, map_func: Callable[..., Any]) -> Dataset:
        """The elements of the datasets that a function returns, one dataset after the other."""
        return mapping.flat_map(self, map_func)

    def interleave(
        self,
        map_func: Callable[..., Any],
        cycle_length: Any = AUTOTUNE,
        block_length: Any = 1,
        num_parallel_calls: Any = None,
        deterministic: Any = None,
    ) -> Dataset:
        """The elements of the datasets that a function returns, several of them taking turns.

        Args:
            map_func: Takes the components of an element, returns a Dataset.
            cycle_length: How many datasets take turns.
            block_length: How many elements each gives in its turn.
            num_parallel_calls: If given, the datasets are read ahead in parallel.
            deterministic: Whether parallel reading keeps the order; if None, the dataset's options decide.

        Returns:
            A Dataset.
        """
        return mapping.interleave(self, map_func, cycle_length, block_length, num_parallel_calls, deterministic)

    def filter(self, predicate: Callable[..., Any]) -> Dataset:
        """The elements for which a function returns True."""
        return mapping.filter_dataset(self, predicate)

    def filter_with_legacy_function(self, predicate: Callable[..., Any]) -> Dataset:
        """Another name of `filter`."""
        return self.filter(predicate)

    def reduce(self, initial_state: Any, reduce_func: Callable[..., Any]) -> Any:
        """Tensors: the state after `state = reduce_func(state, element)` for all elements."""
        return reducing.reduce_dataset(self, initial_state, reduce_func)

    def apply(self, transformation_func: Callable[[Dataset], Any]) -> Dataset:
        """The result of a function of this dataset, which must be a dataset.

        Raises:
            TypeError: If the result is not a dataset.
        """
        dataset = transformation_func(self)
        if not isinstance(dataset, Dataset):
            raise TypeError(f"`transformation_func` must return a Dataset, got {dataset!r}.")
        return dataset

    def with_options(self, options: Options) -> Dataset:
        """The same elements, with options for the pipeline up to here."""
        merged = self._dataset_options.merge(options)
        dataset = self._derived("OptionsDataset", serialized_options=merged._serialized())
        dataset._dataset_options = merged
        return dataset

    # Iterators.

    def make_one_shot_iterator(self) -> Iterator:
        """An iterator that needs no initialization, over a dataset that depends on no state."""
        return iterator.make_one_shot_iterator(self)

    def make_initializable_iterator(self, shared_name: str | None = None) -> Iterator:
        """An iterator that starts over at each run of its `initializer`."""
        return iterator.make_initializable_iterator(self, shared_name)


structure.set_nested_reader(structure.DatasetSpec, Dataset._from_variant)
