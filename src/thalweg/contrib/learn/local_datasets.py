"""tf.contrib.learn.datasets: CSV files and small datasets from local files. Nothing is downloaded."""

from __future__ import annotations

import csv
from collections import namedtuple
from typing import Any

import numpy as np

from thalweg.contrib.public_names import tf
from thalweg.datasets import input_data
from thalweg.graph.definitions.op_registry import export, export_value

Dataset = namedtuple("Dataset", ["data", "target"])
_SPACES = ("contrib.learn.datasets.base", "contrib.learn.python.learn.datasets.base")
for _space in _SPACES:
    export_value(Dataset, f"{_space}.Dataset")
    export_value(input_data.Datasets, f"{_space}.Datasets")


@export(*(f"{space}.load_csv_with_header" for space in _SPACES))
def load_csv_with_header(filename: Any, target_dtype: Any, features_dtype: Any, target_column: int = -1) -> Dataset:
    """Reads a CSV file whose first line says how many examples and features there are."""
    with tf.gfile.GFile(filename) as file:
        rows = csv.reader(file)
        header = next(rows)
        examples, features = int(header[0]), int(header[1])
        data = np.zeros((examples, features), dtype=features_dtype)
        target = np.zeros((examples,), dtype=target_dtype)
        for i, row in enumerate(rows):
            target[i] = np.asarray(row.pop(target_column), dtype=target_dtype)
            data[i] = np.asarray(row, dtype=features_dtype)
    return Dataset(data=data, target=target)


@export(*(f"{space}.load_csv_without_header" for space in _SPACES))
def load_csv_without_header(filename: Any, target_dtype: Any, features_dtype: Any, target_column: int = -1) -> Dataset:
    """Reads a CSV file without a header."""
    data, target = [], []
    with tf.gfile.GFile(filename) as file:
        for row in csv.reader(file):
            target.append(row.pop(target_column))
            data.append(np.asarray(row, dtype=features_dtype))
    return Dataset(data=np.array(data), target=np.array(target, dtype=target_dtype))


@export(*(f"{space}.maybe_download" for space in _SPACES))
def maybe_download(filename: str, work_directory: str, source_url: str) -> str:
    """The path of a file that is there.

    Raises:
        FileNotFoundError: If it is not: nothing is downloaded.
    """
    import os

    path = os.path.join(work_directory, filename)
    if not tf.gfile.Exists(path):
        raise FileNotFoundError(
            f"There is no '{path}'. Thalweg downloads nothing: get it from {source_url} and put it there."
        )
    return path


@export("contrib.learn.datasets.load_dataset")
def load_dataset(name: str, size: str = "small", test_with_fake_data: bool = False) -> Any:
    """A dataset by name; only 'mnist' from the folder 'MNIST-data'.

    Raises:
        ValueError: For other names.
    """
    if name != "mnist":
        raise ValueError(f"Name of dataset is not found: {name}. Thalweg has 'mnist', read from local files.")
    return input_data.read_data_sets("MNIST-data", fake_data=test_with_fake_data)


export_value({"mnist": input_data.read_data_sets}, "contrib.learn.datasets.DATASETS")
