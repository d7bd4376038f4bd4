"""Frames of a signal, and the signal of overlapping frames."""

from __future__ import annotations

from typing import Any

import thalweg
from thalweg.graph.definitions.op_registry import export

tf: Any = thalweg  # The public names are bound at run time.


@export("signal.frame")
def frame(
    signal: Any,
    frame_length: Any,
    frame_step: Any,
    pad_end: bool = False,
    pad_value: Any = 0,
    axis: int = -1,
    name: str | None = None,
) -> Any:
    """Cuts an axis of a signal into frames, which may overlap.

    Args:
        signal: `[..., samples, ...]`.
        frame_length: The samples of a frame.
        frame_step: The distance of two frames.
        pad_end: Whether the end is padded so that every sample is in a frame.
        pad_value: What the end is padded with.
        axis: The axis of the samples.
        name: A name for the operation.

    Returns:
        `[..., frames, frame_length, ...]`.

    Example:
        >>> with tf.Session() as sess:
        ...     print(sess.run(tf.signal.frame(tf.range(6), 4, 2)))
        [[0 1 2 3]
         [2 3 4 5]]
    """
    with tf.name_scope(name, "frame", [signal, frame_length, frame_step]):
        signal = tf.convert_to_tensor(signal, name="signal")
        length = tf.convert_to_tensor(frame_length, tf.int32, name="frame_length")
        step = tf.convert_to_tensor(frame_step, tf.int32, name="frame_step")
        for tensor in (length, step):
            tensor.shape.assert_has_rank(0)
        if signal.shape.ndims is None:
            raise ValueError("frame needs a signal of known rank.")
        rank = signal.shape.ndims
        axis = axis + rank if axis < 0 else axis
        if not 0 <= axis < rank:
            raise ValueError(f"axis {axis} is not one of a signal of rank {rank}.")
        samples = tf.shape(signal)[axis]
        if pad_end:
            count = -(-samples // step)
            missing = tf.maximum(0, length + step * (count - 1) - samples)
            paddings = [[0, missing if i == axis else 0] for i in range(rank)]
            signal = tf.pad(signal, paddings, constant_values=pad_value)
        else:
            count = tf.maximum(0, 1 + (samples - length) // step)
        places = tf.range(count)[:, tf.newaxis] * step + tf.range(length)[tf.newaxis, :]
        # The gradient of a gather is sparse, and that of a reshape dense: signals are not tables.
        frames = tf.gather(tf.reshape(signal, tf.shape(signal)), places, axis=axis)
        frames.set_shape(_static_shape(signal, frame_length, frame_step, pad_end, axis, frames.shape.as_list()))
        return frames


def _static_shape(signal: Any, length: Any, step: Any, pad_end: bool, axis: int, found: list[Any]) -> list[Any]:
    size = tf.get_static_value(length) if isinstance(length, tf.Tensor) else length
    distance = tf.get_static_value(step) if isinstance(step, tf.Tensor) else step
    samples = signal.shape.as_list()[axis]
    if size is not None:
        found[axis + 1] = int(size)
    if None not in (size, distance, samples) and found[axis] is None and not pad_end:
        found[axis] = max(0, 1 + (samples - int(size)) // int(distance))
    return found


@export("signal.overlap_and_add")
def overlap_and_add(signal: Any, frame_step: Any, name: str | None = None) -> Any:
    """Adds overlapping frames to a signal: the reverse of `frame`.

    Args:
        signal: `[..., frames, frame_length]`.
        frame_step: The distance of two frames; at most their length.
        name: A name for the operation.

    Returns:
        `[..., (frames - 1) * frame_step + frame_length]`.

    Example:
        >>> with tf.Session() as sess:
        ...     print(sess.run(tf.signal.overlap_and_add([[1, 1, 1], [2, 2, 2]], 1)))
        [1 3 3 2]
    """
    with tf.name_scope(name, "overlap_and_add", [signal, frame_step]):
        signal = tf.convert_to_tensor(signal, name="signal")
        signal.shape.with_rank_at_least(2)
        step = tf.convert_to_tensor(frame_step, name="frame_step")
        step.shape.assert_has_rank(0)
        if not step.dtype.is_integer:
            raise ValueError(f"frame_step must be an integer. Got {step.dtype}")
        step = tf.cast(step, tf.int32)
        shape = tf.shape(signal)
        outer, count, length = shape[:-2], shape[-2], shape[-1]
        size = (count - 1) * step + length
        places = tf.range(count)[:, tf.newaxis] * step + tf.range(length)[tf.newaxis, :]
        # The frames' samples first, so that the sum runs over the first axis.
        rows = tf.transpose(tf.reshape(signal, tf.concat([[-1], [count * length]], 0)))
        sums = tf.unsorted_segment_sum(rows, tf.reshape(places, [-1]), size)
        result = tf.reshape(tf.transpose(sums), tf.concat([outer, [size]], 0))
        known = signal.shape.as_list() if signal.shape.ndims is not None else None
        if known is not None:
            static_step = tf.get_static_value(step)
            width = None
            if None not in (known[-1], known[-2], static_step):
                width = (known[-2] - 1) * int(static_step) + known[-1]
            result.set_shape([*known[:-2], width])
        return result
