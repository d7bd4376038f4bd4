"""Datasets of Examples: `parse_example_dataset` and `make_batched_features_dataset`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.data.csv_datasets import _matching_files, _shuffle_and_repeat, _shuffled_files
from thalweg.data.dataset import Dataset
from thalweg.data.files import TFRecordDataset
from thalweg.graph.definitions.op_registry import export
from thalweg.ops.text.parsing import parse_example


@export("data.experimental.parse_example_dataset")
def parse_example_dataset(
    features: Any, num_parallel_calls: Any = 1, deterministic: Any = None
) -> Callable[[Dataset], Dataset]:
    """A transformation from vectors of serialized Examples to dictionaries of tensors.

    Args:
        features: See `tf.io.parse_example`.
        num_parallel_calls: How many batches may be parsed at once.
        deterministic: Whether they stay in order; if None, the dataset's options decide.

    Returns:
        A transformation for `Dataset.apply`.

    Raises:
        ValueError: If `features` is None.
    """
    if features is None:
        raise ValueError("Missing: features was None.")
    calls = None if num_parallel_calls == 1 else num_parallel_calls
    return lambda dataset: dataset.map(lambda serialized: parse_example(serialized, features), calls, deterministic)


@export("data.experimental.make_batched_features_dataset")
def make_batched_features_dataset(
    file_pattern: Any,
    batch_size: Any,
    features: Any,
    reader: Any = TFRecordDataset,
    label_key: str | None = None,
    reader_args: Any = None,
    num_epochs: Any = None,
    shuffle: bool = True,
    shuffle_buffer_size: Any = 10000,
    shuffle_seed: Any = None,
    prefetch_buffer_size: Any = None,
    reader_num_threads: Any = None,
    parser_num_threads: Any = None,
    sloppy_ordering: bool = False,
    drop_final_batch: bool = False,
) -> Dataset:
    """Batches of features of the Examples in files, without end unless `num_epochs` says otherwise.

    Args:
        file_pattern: Names of files, or patterns.
        batch_size: How many Examples make a batch.
        features: See `tf.io.parse_example`.
        reader: From a file name to a dataset of serialized Examples, or of pairs whose second part they are.
        label_key: A feature to split off: elements are then pairs of features and label.
        reader_args: Further arguments of the reader.
        num_epochs: How often to go over the files; without end if None.
        shuffle: Whether to shuffle the Examples.
        shuffle_buffer_size: See `Dataset.shuffle`.
        shuffle_seed: See `Dataset.shuffle`.
        prefetch_buffer_size: How many batches to compute ahead; chosen if None.
        reader_num_threads: How many files to read at once.
        parser_num_threads: How many batches to parse at once.
        sloppy_ordering: Whether files that are read at once may come in any order.
        drop_final_batch: Whether to leave out a last batch that is smaller.

    Returns:
        A Dataset.

    Raises:
        ValueError: If no file matches, or `label_key` is none of the features.
    """
    if label_key is not None and label_key not in features:
        raise ValueError(f"The `label_key` provided ({label_key!r}) must be one of the `features` keys.")
    if reader is None:
        reader = TFRecordDataset
    files = _shuffled_files(_matching_files(file_pattern), shuffle, shuffle_seed)
    threads = reader_num_threads or 1
    dataset = files.interleave(
        lambda name: reader(name, *(reader_args or ())), threads, num_parallel_calls=None if threads == 1 else threads,
        deterministic=False if sloppy_ordering else None,
    )  # fmt: skip
    if isinstance(dataset.element_spec, tuple):
        # Readers of keys and values: the Example is the value.
        dataset = dataset.map(lambda _, value: value)
    dataset = _shuffle_and_repeat(dataset, shuffle, shuffle_buffer_size, shuffle_seed, num_epochs)
    dataset = dataset.batch(batch_size, drop_remainder=drop_final_batch or num_epochs is None)
    dataset = dataset.apply(parse_example_dataset(features, parser_num_threads or 2))
    if label_key is not None:

        def split(parsed: Any) -> Any:
            rest = dict(parsed)
            return rest, rest.pop(label_key)

        dataset = dataset.map(split)
    return dataset.prefetch(1 if prefetch_buffer_size is None else prefetch_buffer_size)
