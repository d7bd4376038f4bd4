"""Window functions: the weights of the samples of a frame."""

from __future__ import annotations

import math
from typing import Any

import thalweg
from thalweg.graph.definitions.op_registry import export

tf: Any = thalweg  # The public names are bound at run time.


def _raised_cosine(length: Any, periodic: Any, dtype: Any, a: float, b: float, name: str, default: str) -> Any:
    dtype = tf.as_dtype(dtype)
    if not dtype.is_floating:
        raise ValueError(f"dtype must be a floating point type. Found {dtype}")
    with tf.name_scope(name, default, [length, periodic]):
        size = tf.convert_to_tensor(length, tf.int32, name="window_length")
        size.shape.assert_has_rank(0)
        known = tf.get_static_value(size)
        if known is not None and int(known) == 1:
            return tf.ones([1], dtype)
        is_periodic = tf.cast(tf.convert_to_tensor(periodic, tf.bool, name="periodic"), tf.int32)
        even = 1 - tf.mod(size, 2)
        # A periodic window is one sample longer; of a window of odd length nothing is left out in either case.
        steps = tf.cast(size + is_periodic * even - 1, dtype)
        phase = tf.constant(2 * math.pi, dtype) * tf.cast(tf.range(size), dtype) / steps
        window = tf.constant(a, dtype) - tf.constant(b, dtype) * tf.cos(phase)
        return window if known is not None else tf.cond(tf.equal(size, 1), lambda: tf.ones([1], dtype), lambda: window)


@export("signal.hann_window")
def hann_window(window_length: Any, periodic: Any = True, dtype: Any = None, name: str | None = None) -> Any:
    """The Hann window.

    Args:
        window_length: The number of samples.
        periodic: Whether it is meant for a Fourier transform of that length (as TensorFlow does it: of even length).
        dtype: A floating-point type; float32 if None.
        name: A name for the operation.

    Example:
        >>> with tf.Session() as sess:
        ...     print(sess.run(tf.signal.hann_window(4)))
        [0.  0.5 1.  0.5]
    """
    return _raised_cosine(window_length, periodic, dtype or tf.float32, 0.5, 0.5, name or "", "hann_window")


@export("signal.hamming_window")
def hamming_window(window_length: Any, periodic: Any = True, dtype: Any = None, name: str | None = None) -> Any:
    """The Hamming window; the arguments are those of `hann_window`."""
    return _raised_cosine(window_length, periodic, dtype or tf.float32, 0.54, 0.46, name or "", "hamming_window")


@export("signal.kaiser_window")
def kaiser_window(window_length: Any, beta: Any = 12.0, dtype: Any = None, name: str | None = None) -> Any:
    """The Kaiser window: `beta` weighs the width of the main lobe against the side lobes."""
    with tf.name_scope(name, "kaiser_window", [window_length, beta]):
        dtype = tf.as_dtype(dtype or tf.float32)
        size = tf.cast(tf.convert_to_tensor(window_length), dtype)
        half = (size - 1) / 2
        place = tf.range(tf.cast(size, tf.int32))
        offset = tf.cast(place, dtype) - half
        beta = tf.cast(tf.convert_to_tensor(beta), dtype)
        inner = beta * tf.sqrt(tf.nn.relu(1 - tf.square(tf.div_no_nan(offset, half))))
        return tf.exp(inner - beta) * tf.math.bessel_i0e(inner) / tf.math.bessel_i0e(beta)


@export("signal.kaiser_bessel_derived_window")
def kaiser_bessel_derived_window(
    window_length: Any, beta: Any = 12.0, dtype: Any = None, name: str | None = None
) -> Any:
    """The window made of sums of a Kaiser window, which fits the MDCT."""
    with tf.name_scope(name, "kaiser_bessel_derived_window", [window_length, beta]):
        half = tf.convert_to_tensor(window_length) // 2
        sums = tf.cumsum(kaiser_window(half + 1, beta, dtype))
        rising = tf.sqrt(sums[:-1] / sums[-1])
        return tf.concat([rising, rising[::-1]], axis=0)


@export("signal.vorbis_window")
def vorbis_window(window_length: Any, dtype: Any = None, name: str | None = None) -> Any:
    """The window of the Vorbis codec, which fits the MDCT."""
    with tf.name_scope(name, "vorbis_window", [window_length]):
        dtype = tf.as_dtype(dtype or tf.float32)
        size = tf.convert_to_tensor(window_length)
        place = tf.cast(tf.range(size), dtype)
        inner = tf.sin(tf.constant(math.pi, dtype) * (place + 0.5) / tf.cast(size, dtype))
        return tf.sin(tf.constant(math.pi / 2, dtype) * tf.square(inner))
