"""Datasets of record files, a parallel reader, and DatasetDataProvider, which gives one example at a time."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


@export("contrib.slim.dataset.Dataset")
class Dataset:
    """What is known about a dataset: files, reader, decoder, size; further facts are attributes."""

    def __init__(
        self, data_sources: Any, reader: Any, decoder: Any, num_samples: int, items_to_descriptions: dict[str, str],
        **kwargs: Any,
    ) -> None:  # fmt: skip
        """Takes the files (a pattern or a list), the class of the reader, the decoder, and the rest."""
        facts = {
            "data_sources": data_sources, "reader": reader, "decoder": decoder, "num_samples": num_samples,
            "items_to_descriptions": items_to_descriptions, **kwargs,
        }  # fmt: skip
        self.__dict__.update(facts)


@export("contrib.slim.parallel_reader.get_data_files")
def get_data_files(data_sources: Any) -> list[str]:
    """The files of a pattern, or of a list of patterns.

    Raises:
        ValueError: If there are none.
    """
    if isinstance(data_sources, (list, tuple)):
        files = [path for source in data_sources for path in get_data_files(source)]
    elif any(letter in data_sources for letter in "*?["):
        files = tf.gfile.Glob(data_sources)
    else:
        files = [data_sources]
    if not files:
        raise ValueError(f"No data files found in {data_sources}")
    return list(files)


@export("contrib.slim.parallel_reader.parallel_read")
def parallel_read(
    data_sources: Any, reader_class: Any, num_epochs: int | None = None, num_readers: int = 4,
    reader_kwargs: dict[str, Any] | None = None, shuffle: bool = True, dtypes: Any = None, capacity: int = 256,
    min_after_dequeue: int = 128, seed: int | None = None, scope: str | None = None,
) -> Any:  # fmt: skip
    """Key and value of the next record, read by several readers into one queue."""
    with tf.name_scope(scope, "parallel_read"):
        files = tf.train.string_input_producer(
            get_data_files(data_sources), num_epochs=num_epochs, shuffle=shuffle, seed=seed, name="filenames"
        )
        kinds = dtypes or [tf.string, tf.string]
        queue: tf.QueueBase
        if shuffle:
            queue = tf.RandomShuffleQueue(capacity, min_after_dequeue, kinds, seed=seed, name="common_queue")
        else:
            queue = tf.FIFOQueue(capacity, kinds, name="common_queue")
        tf.summary.scalar(f"fraction_of_{capacity}_full", tf.to_float(queue.size()) * (1.0 / capacity))
        readers = [reader_class(**(reader_kwargs or {})) for _ in range(num_readers)]
        runner = tf.train.QueueRunner(queue, [queue.enqueue(reader.read(files)) for reader in readers])
        tf.train.add_queue_runner(runner)
        return queue.dequeue()


@export("contrib.slim.parallel_reader.single_pass_read")
def single_pass_read(
    data_sources: Any, reader_class: Any, reader_kwargs: dict[str, Any] | None = None, scope: str | None = None
) -> Any:
    """Key and value of the next record, each record once and in order."""
    with tf.name_scope(scope, "single_pass_read"):
        files = tf.train.string_input_producer(
            get_data_files(data_sources), num_epochs=1, shuffle=False, capacity=1, name="filenames"
        )
        return reader_class(**(reader_kwargs or {})).read(files)


class DataProvider:
    """Gives the items of the next example as tensors."""

    def __init__(self, items_to_tensors: dict[str, Any], num_samples: int) -> None:
        """Takes the tensors by item, and the number of examples."""
        self._items_to_tensors = items_to_tensors
        self._num_samples = num_samples

    def get(self, items: Any) -> list[Any]:
        """The tensors of items.

        Raises:
            ValueError: If one is unknown.
        """
        unknown = [item for item in items if item not in self._items_to_tensors]
        if unknown:
            raise ValueError(f"Unknown item {unknown[0]!r}: there are {', '.join(sorted(self._items_to_tensors))}")
        return [self._items_to_tensors[item] for item in items]

    def list_items(self) -> list[str]:
        """The names of the items."""
        return list(self._items_to_tensors)

    def num_samples(self) -> int:
        """How many examples there are."""
        return self._num_samples


@export("contrib.slim.dataset_data_provider.DatasetDataProvider")
class DatasetDataProvider(DataProvider):
    """Reads and decodes the records of a Dataset with several readers."""

    def __init__(
        self, dataset: Any, num_readers: int = 1, reader_kwargs: Any = None, shuffle: bool = True,
        num_epochs: int | None = None, common_queue_capacity: int = 256, common_queue_min: int = 128,
        record_key: str = "record_key", seed: int | None = None, scope: str | None = None,
    ) -> None:  # fmt: skip
        """Takes the Dataset, and how it is read."""
        key, data = parallel_read(
            dataset.data_sources, reader_class=dataset.reader, num_epochs=num_epochs, num_readers=num_readers,
            reader_kwargs=reader_kwargs, shuffle=shuffle, capacity=common_queue_capacity,
            min_after_dequeue=common_queue_min, seed=seed, scope=scope,
        )  # fmt: skip
        items = dataset.decoder.list_items()
        found = dict(zip(items, dataset.decoder.decode(data, items), strict=True))
        if record_key in found:
            raise ValueError(
                f"The item name used for `record_key` cannot also be used for a dataset item: {record_key}"
            )
        found[record_key] = key
        super().__init__(found, dataset.num_samples)


@export("contrib.slim.prefetch_queue.prefetch_queue")
def prefetch_queue(
    tensors: Any, capacity: int = 8, num_threads: int = 1, dynamic_pad: bool = False, shared_name: str | None = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """A queue that holds batches which are computed ahead: `queue.dequeue()` gives one."""
    named = isinstance(tensors, dict)
    keys = sorted(tensors) if named else None
    flat = [tf.convert_to_tensor(tensors[key]) for key in keys] if keys else [tf.convert_to_tensor(t) for t in tensors]
    with tf.name_scope(name, "prefetch_queue", flat) as scope:
        queue_class = tf.PaddingFIFOQueue if dynamic_pad else tf.FIFOQueue
        options = {"names": keys} if keys else {}
        shapes = [tensor.shape for tensor in flat]
        queue = queue_class(
            capacity=capacity, dtypes=[tensor.dtype for tensor in flat],
            shapes=shapes if dynamic_pad or all(s.is_fully_defined() for s in shapes) else None,
            shared_name=shared_name, name=scope.rstrip("/").rpartition("/")[2], **options,
        )  # fmt: skip
        value = dict(zip(keys, flat, strict=True)) if keys else flat
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(value)] * num_threads))
        tf.summary.scalar(f"fraction_of_{capacity}_full", tf.to_float(queue.size()) * (1.0 / capacity))
        return queue
