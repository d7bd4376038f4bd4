"""tf.contrib.data: transformations and functions that later moved to tf.data."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export, export_value

for _name in ("Dataset", "Iterator", "TFRecordDataset", "FixedLengthRecordDataset", "TextLineDataset"):
    export_value(getattr(tf.data, _name), f"contrib.data.{_name}")


@export("contrib.data.batch_and_drop_remainder")
def batch_and_drop_remainder(batch_size: Any) -> Any:
    """For `Dataset.apply`: batches, without the last if it is smaller."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


@export("contrib.data.padded_batch_and_drop_remainder")
def padded_batch_and_drop_remainder(batch_size: Any, padded_shapes: Any, padding_values: Any = None) -> Any:
    """For `Dataset.apply`: padded batches, without the last if it is smaller."""
    return lambda dataset: dataset.padded_batch(batch_size, padded_shapes, padding_values, drop_remainder=True)


@export("contrib.data.sloppy_interleave")
def sloppy_interleave(map_func: Any, cycle_length: Any, block_length: Any = 1) -> Any:
    """For `Dataset.apply`: interleaves datasets as their elements come."""
    return tf.data.experimental.parallel_interleave(map_func, cycle_length, block_length, sloppy=True)


@export("contrib.data.read_batch_features")
def read_batch_features(
    file_pattern: Any, batch_size: int, features: Any, reader: Any = None, reader_args: Any = None,
    randomize_input: bool = True, num_epochs: int | None = None, capacity: int = 10000,
) -> Any:  # fmt: skip
    """The features of the next batch of Examples in record files."""
    dataset = tf.data.experimental.make_batched_features_dataset(
        file_pattern, batch_size, features, num_epochs=num_epochs, shuffle=randomize_input,
        shuffle_buffer_size=capacity,
    )  # fmt: skip
    return dataset.make_one_shot_iterator().get_next()


@export("contrib.data.assert_element_shape")
def assert_element_shape(expected_shapes: Any) -> Any:
    """For `Dataset.apply`: checks the shapes of elements."""

    def check(*elements: Any) -> Any:
        given = elements[0] if len(elements) == 1 else elements
        return tf.contrib.framework.nest.map_structure(lambda e, s: tf.ensure_shape(e, s), given, expected_shapes)

    return lambda dataset: dataset.map(check)
