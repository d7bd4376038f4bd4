"""Named tuples as elements of datasets."""

from __future__ import annotations

import collections

import thalweg as tf
from tests.data_pipeline.elements import elements

Pair = collections.namedtuple("Pair", ["left", "right"])


def test_a_named_tuple_is_one_argument_of_map_and_filter() -> None:
    dataset = tf.data.Dataset.from_tensor_slices(Pair([1, 2, 3], [10, 20, 30]))
    assert elements(dataset.map(lambda pair: pair.left + pair.right)) == [11, 22, 33]
    assert elements(dataset.filter(lambda pair: pair.left > 1).map(lambda pair: pair.right)) == [20, 30]
    assert elements(dataset.map(lambda pair: (pair.left, pair.right)).map(lambda a, b: a * b)) == [10, 40, 90]
