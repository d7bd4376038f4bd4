"""TensorArrays as elements of datasets."""

from __future__ import annotations

import pytest

import thalweg as tf
from tests.data_pipeline.elements import values


def _squares(i: tf.Tensor) -> tf.TensorArray:
    array = tf.TensorArray(tf.int64, size=0, dynamic_size=True, element_shape=[])
    for k in range(3):
        array = array.write(k, i * i + k)
    return array


def test_arrays_are_made_and_read_by_functions() -> None:
    arrays = tf.data.Dataset.range(3).map(lambda i: (i, _squares(i)))
    assert arrays.element_spec[1] == tf.TensorArraySpec([], tf.int64, dynamic_size=True)
    assert arrays.output_types == (tf.int64, arrays.element_spec[1])
    stacked = arrays.map(lambda i, array: array.stack() + i)
    assert values(stacked) == [[0, 1, 2], [2, 3, 4], [6, 7, 8]]


@pytest.mark.parametrize(
    "stages",
    [
        lambda d: d.prefetch(2),
        lambda d: d.shuffle(3, seed=1).filter(lambda array: array.size() > 0),
        lambda d: d.repeat(2).cache().take(6),
        lambda d: d.map(lambda array: array.write(3, array.read(0)), num_parallel_calls=2),
    ],
)
def test_arrays_pass_through_stages(stages: object) -> None:
    dataset = stages(tf.data.Dataset.range(3).map(_squares))  # type: ignore[operator]
    found = values(dataset.map(lambda array: array.stack()))
    assert {row[1] - row[0] for row in found} == {1} and {row[0] for row in found} == {0, 1, 4}


def test_an_iterator_gives_an_array() -> None:
    iterator = tf.data.Dataset.range(2).map(_squares).make_one_shot_iterator()
    array = iterator.get_next()
    assert isinstance(array, tf.TensorArray) and array.element_shape.as_list() == [] and array.dynamic_size
    grown = array.write(3, 7).stack()
    with tf.Session() as session:
        assert session.run([array.size(), grown])[1].tolist() == [0, 1, 2, 7]
        assert session.run(grown).tolist() == [1, 2, 3, 7]


def test_arrays_are_not_batched() -> None:
    dataset = tf.data.Dataset.range(2).map(_squares)
    with pytest.raises(TypeError, match="arrays cannot be batched"):
        dataset.batch(2)


def test_specs_compare() -> None:
    spec = tf.TensorArraySpec([2], tf.float32)
    assert spec == tf.TensorArraySpec([2], tf.float32) and hash(spec) == hash(tf.TensorArraySpec([2], tf.float32))
    assert spec != tf.TensorArraySpec([2], tf.float32, infer_shape=False) and spec != tf.TensorArraySpec([3])
    assert tf.TensorArraySpec().is_compatible_with(spec) and not spec.is_compatible_with(tf.TensorArraySpec([3]))
    assert spec.is_compatible_with(tf.TensorArray(tf.float32, 1, element_shape=[2]))
