"""`tensorflow.examples.tutorials.mnist.input_data`: MNIST from local files, in batches. Nothing is downloaded."""

from __future__ import annotations

import os
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.datasets.mnist import read_idx

Datasets = namedtuple("Datasets", ["train", "validation", "test"])
DEFAULT_SOURCE_URL = "https://storage.googleapis.com/cvdf-datasets/mnist/"
_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


class DataSet:
    """Images and labels, and batches of them in an order that changes with each epoch."""

    def __init__(
        self,
        images: Any,
        labels: Any,
        fake_data: bool = False,
        one_hot: bool = False,
        dtype: Any = np.float32,
        reshape: bool = True,
        seed: int | None = None,
    ) -> None:
        """Takes arrays; images of bytes become floats from 0 to 1 if `dtype` is float32, and rows if `reshape`.

        Raises:
            TypeError: If `dtype` is neither uint8 nor float32.
            ValueError: If there are not as many labels as images.
        """
        name = getattr(dtype, "name", None) or np.dtype(dtype).name
        if name not in ("uint8", "float32"):
            raise TypeError(f"Invalid image dtype {dtype!r}, expected uint8 or float32")
        self._random = np.random.RandomState(seed)
        self._fake = fake_data
        self.one_hot = one_hot
        if fake_data:
            self._num_examples = 10000
        else:
            if len(images) != len(labels):
                raise ValueError(f"images.shape: {np.shape(images)} labels.shape: {np.shape(labels)}")
            self._num_examples = len(images)
            if reshape:
                images = images.reshape(len(images), -1)
            if name == "float32" and images.dtype == np.uint8:
                images = images.astype(np.float32) / np.float32(255.0)
        self._images = images
        self._labels = labels
        self._epochs_completed = 0
        self._index_in_epoch = 0

    @property
    def images(self) -> Any:
        """The images, in the order of the current epoch."""
        return self._images

    @property
    def labels(self) -> Any:
        """The labels, in the order of the current epoch."""
        return self._labels

    @property
    def num_examples(self) -> int:
        """How many there are."""
        return self._num_examples

    @property
    def epochs_completed(self) -> int:
        """How often all of them have been drawn."""
        return self._epochs_completed

    def _shuffle(self) -> None:
        order = self._random.permutation(self._num_examples)
        self._images, self._labels = self._images[order], self._labels[order]

    def next_batch(self, batch_size: int, fake_data: bool = False, shuffle: bool = True) -> tuple[Any, Any]:
        """The next examples: images and labels. A batch may span two epochs."""
        if fake_data or self._fake:
            label: Any = [1] + [0] * 9 if self.one_hot else 0
            return [[1.0] * 784 for _ in range(batch_size)], [label for _ in range(batch_size)]
        start = self._index_in_epoch
        if self._epochs_completed == 0 and start == 0 and shuffle:
            self._shuffle()
        if start + batch_size <= self._num_examples:
            self._index_in_epoch = start + batch_size
            return self._images[start : start + batch_size], self._labels[start : start + batch_size]
        self._epochs_completed += 1
        rest = self._images[start:], self._labels[start:]
        if shuffle:
            self._shuffle()
        self._index_in_epoch = batch_size - len(rest[0])
        if self._index_in_epoch > self._num_examples:
            raise ValueError(f"A batch of {batch_size} cannot be drawn from {self._num_examples} examples")
        first = self._images[: self._index_in_epoch], self._labels[: self._index_in_epoch]
        return np.concatenate([rest[0], first[0]]), np.concatenate([rest[1], first[1]])


def dense_to_one_hot(labels_dense: Any, num_classes: int) -> Any:
    """Rows with a one in the column of the label."""
    return np.eye(num_classes)[labels_dense]


def _path(folder: Any, name: str) -> Path:
    for candidate in (Path(folder) / (name + ".gz"), Path(folder) / name):
        if candidate.exists():
            return candidate
    raise FileNotFoundError(
        f"There is no {name}.gz in '{os.fspath(folder)}'. Thalweg downloads nothing: put the four files of MNIST there "
        f"({', '.join(each + '.gz' for pair in _FILES.values() for each in pair)}), gzipped or not."
    )


def extract_images(f: Any) -> Any:
    """The images of an open gzipped IDX file: [n, height, width, 1]."""
    return read_idx(Path(f.name))[..., None]


def extract_labels(f: Any, one_hot: bool = False, num_classes: int = 10) -> Any:
    """The labels of an open gzipped IDX file."""
    labels = read_idx(Path(f.name))
    return dense_to_one_hot(labels, num_classes) if one_hot else labels


def read_data_sets(
    train_dir: Any,
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: Any = np.float32,
    reshape: bool = True,
    validation_size: int = 5000,
    seed: int | None = None,
    source_url: str = DEFAULT_SOURCE_URL,
) -> Datasets:
    """Reads MNIST from the IDX files in a folder.

    Args:
        train_dir: The folder.
        fake_data: Whether to make up batches instead.
        one_hot: Whether labels are rows with a one.
        dtype: uint8 (0 to 255) or float32 (0 to 1).
        reshape: Whether images are rows.
        validation_size: How many of the training images are kept for validation.
        seed: Of the order of the batches.
        source_url: Not used: nothing is downloaded.

    Returns:
        Three DataSets: train, validation and test.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If `validation_size` does not fit.
    """
    if fake_data:
        return Datasets(*(DataSet([], [], True, one_hot, dtype, seed=seed) for _ in range(3)))
    arrays = {}
    for part, (images, labels) in _FILES.items():
        numbers: Any = read_idx(_path(train_dir, labels))
        arrays[part] = (
            read_idx(_path(train_dir, images))[..., None],
            dense_to_one_hot(numbers, 10) if one_hot else numbers,
        )
    train_images, train_labels = arrays["train"]
    if not 0 <= validation_size <= len(train_images):
        raise ValueError(f"Validation size should be between 0 and {len(train_images)}. Received: {validation_size}.")
    size = validation_size

    def dataset(images: Any, labels: Any) -> DataSet:
        return DataSet(images, labels, one_hot=one_hot, dtype=dtype, reshape=reshape, seed=seed)

    return Datasets(
        dataset(train_images[size:], train_labels[size:]), dataset(train_images[:size], train_labels[:size]),
        dataset(*arrays["test"]),
    )  # fmt: skip
