"""UCI Adult ("census income"): ages, educations and jobs of people, and whether they earn more than 50,000 dollars."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

SAMPLE = Path(__file__).with_name("census_sample.csv.gz")
NUMBERS = ("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week")
COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship", "race",
    "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country",
)  # fmt: skip
_SAMPLE_TRAIN = 3200


class Census(NamedTuple):
    """The people of one file.

    Attributes:
        features: The columns by name: float32 for the numbers, bytes for all others.
        labels: float32: 1.0 for an income above 50,000.
    """

    features: dict[str, npt.NDArray[np.generic]]
    labels: npt.NDArray[np.float32]


def load(folder: str | Path | None = None) -> tuple[Census, Census]:
    """Reads the data to train with, and the data to test with.

    Args:
        folder: A folder with `adult.data` and `adult.test`. Without one, the sample of the package is read: 3,200
            people to train with and 800 to test with.

    Raises:
        FileNotFoundError: The folder does not have the files.
        ValueError: A line does not have 15 fields, or a number is none.

    Example:
        >>> from thalweg.datasets import census
        >>> train, test = census.load()
        >>> len(train.labels), len(test.labels), train.features["education"][0]
        (3200, 800, b'9th')
    """
    if folder is None:
        with gzip.open(SAMPLE, "rt", encoding="ascii") as file:
            people = _people(file, SAMPLE.name)
        return _census(people[:_SAMPLE_TRAIN]), _census(people[_SAMPLE_TRAIN:])
    found = []
    for name in ("adult.data", "adult.test"):
        with open(Path(folder) / name, encoding="ascii") as file:
            found.append(_census(_people(file, name)))
    return found[0], found[1]


def _people(lines: Iterable[str], name: str) -> list[list[str]]:
    people = []
    for number, fields in enumerate(csv.reader(lines, skipinitialspace=True), 1):
        if not fields or fields[0].startswith("|"):  # UCI's own adult.test begins with a remark.
            continue
        if len(fields) != len(COLUMNS) + 1:
            raise ValueError(f"{name}, line {number}: {len(fields)} fields instead of {len(COLUMNS) + 1}")
        people.append(fields)
    return people


def _census(people: list[list[str]]) -> Census:
    columns = list(zip(*people, strict=True))
    features: dict[str, npt.NDArray[np.generic]] = {
        name: np.array(column, np.float32) if name in NUMBERS else np.array([each.encode() for each in column])
        for name, column in zip(COLUMNS, columns, strict=False)
    }
    return Census(features, np.array([label.startswith(">50K") for label in columns[-1]], np.float32))
