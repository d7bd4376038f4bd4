"""Short-time Fourier transforms, cosine transforms, the MDCT, mel scales and MFCCs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import thalweg
from thalweg.graph.definitions.op_registry import export
from thalweg.signal.frames import frame, overlap_and_add
from thalweg.signal.windows import hann_window

tf: Any = thalweg  # The public names are bound at run time.


def _enclosing_power_of_two(value: Any) -> Any:
    known = tf.get_static_value(value)
    if known is not None:
        return tf.constant(int(2 ** math.ceil(math.log2(max(int(known), 1)))), value.dtype)
    return tf.cast(tf.pow(2.0, tf.ceil(tf.log(tf.cast(value, tf.float32)) / math.log(2.0))), value.dtype)


@export("signal.stft")
def stft(
    signals: Any,
    frame_length: Any,
    frame_step: Any,
    fft_length: Any = None,
    window_fn: Callable[..., Any] | None = hann_window,
    pad_end: bool = False,
    name: str | None = None,
) -> Any:
    """The short-time Fourier transform of real signals.

    Args:
        signals: `[..., samples]`.
        frame_length: The samples of a frame.
        frame_step: The distance of two frames.
        fft_length: The length of the transforms; the power of two that is not below `frame_length` if None.
        window_fn: Gives the window for a length and a dtype; none if None.
        pad_end: Whether the end is padded so that every sample is in a frame.
        name: A name for the operation.

    Returns:
        `[..., frames, fft_length // 2 + 1]`, complex.
    """
    with tf.name_scope(name, "stft", [signals, frame_length, frame_step]):
        signals = tf.convert_to_tensor(signals, name="signals")
        length = tf.convert_to_tensor(frame_length, name="frame_length")
        size = _enclosing_power_of_two(length) if fft_length is None else tf.convert_to_tensor(fft_length)
        frames = frame(signals, length, frame_step, pad_end=pad_end)
        if window_fn is not None:
            frames = frames * window_fn(length, dtype=frames.dtype)
        return tf.signal.rfft(frames, [size])


@export("signal.inverse_stft_window_fn")
def inverse_stft_window_fn(
    frame_step: Any, forward_window_fn: Callable[..., Any] = hann_window, name: str | None = None
) -> Callable[[Any, Any], Any]:
    """The window of `inverse_stft` with which it gives the signal back that `stft` was given."""

    def inverse_window(frame_length: Any, dtype: Any) -> Any:
        with tf.name_scope(name, "inverse_stft_window_fn", [forward_window_fn]):
            length = tf.convert_to_tensor(frame_length, name="frame_length")
            step = tf.convert_to_tensor(frame_step, name="frame_step")
            forward = forward_window_fn(length, dtype=dtype)
            squares = tf.square(forward)
            overlaps = -(-length // step)
            squares = tf.pad(squares, [[0, overlaps * step - length]])
            sums = tf.reduce_sum(tf.reshape(squares, [overlaps, step]), 0, keepdims=True)
            return forward / tf.reshape(tf.tile(sums, [overlaps, 1]), [overlaps * step])[:length]

    return inverse_window


@export("signal.inverse_stft")
def inverse_stft(
    stfts: Any,
    frame_length: Any,
    frame_step: Any,
    fft_length: Any = None,
    window_fn: Callable[..., Any] | None = hann_window,
    name: str | None = None,
) -> Any:
    """The signals of short-time Fourier transforms.

    Args:
        stfts: `[..., frames, fft_length // 2 + 1]`, complex.
        frame_length: The samples of a frame.
        frame_step: The distance of two frames.
        fft_length: The length of the transforms; the power of two that is not below `frame_length` if None.
        window_fn: The window; `inverse_stft_window_fn(frame_step)` gives back what `stft` was given.
        name: A name for the operation.
    """
    with tf.name_scope(name, "inverse_stft", [stfts]):
        stfts = tf.convert_to_tensor(stfts, name="stfts")
        stfts.shape.with_rank_at_least(2)
        length = tf.convert_to_tensor(frame_length, name="frame_length")
        size = _enclosing_power_of_two(length) if fft_length is None else tf.convert_to_tensor(fft_length)
        frames = tf.signal.irfft(stfts, [size])
        known, whole = tf.get_static_value(length), tf.get_static_value(size)
        frames = frames[..., :length]
        if known is not None and whole is not None and int(known) > int(whole):
            rank = frames.shape.ndims
            frames = tf.pad(frames, [[0, 0]] * (rank - 1) + [[0, int(known) - int(whole)]])
        if known is not None:
            frames.set_shape([*frames.shape.as_list()[:-1], int(known)])
        if window_fn is not None:
            frames = frames * window_fn(length, dtype=frames.dtype)
        return overlap_and_add(frames, frame_step)


def _checked_dct(kind: int, n: Any, axis: int, norm: Any) -> None:
    if kind not in (1, 2, 3, 4):
        raise ValueError("Types I, II, III and IV (I)DCT are supported.")
    if axis != -1:
        raise NotImplementedError(f"axis must be -1. Got: {axis}")
    if n is not None and n < 1:
        raise ValueError("n should be a positive integer or None")
    if norm not in (None, "ortho"):
        raise ValueError(f"Unknown normalization. Expected None or 'ortho', got: {norm}")
    if kind == 1 and norm == "ortho":
        raise ValueError("Normalization is not supported for the Type-I DCT.")


@export("signal.dct", "spectral.dct")
def dct(
    input: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: Any = None, name: str | None = None
) -> Any:
    """The discrete cosine transform of the last axis, of type I, II, III or IV, as `scipy.fft.dct`.

    Args:
        input: `[..., samples]`, real.
        type: 1, 2, 3 or 4.
        n: The number of samples: the input is cut or padded with zeros; all if None.
        axis: Must be -1.
        norm: None or 'ortho'.
        name: A name for the operation.
    """
    _checked_dct(type, n, axis, norm)
    with tf.name_scope(name, "dct", [input]):
        x = tf.convert_to_tensor(input)
        if n is not None:
            x = _resized(x, n)
        return _dct(x, type, norm)


def _resized(x: Any, n: int) -> Any:
    size = x.shape.as_list()[-1]
    if size is None:
        raise ValueError("n needs an input whose last dimension is known.")
    if n <= size:
        return x[..., :n]
    return tf.pad(x, [[0, 0]] * (x.shape.ndims - 1) + [[0, n - size]])


def _dct(x: Any, kind: int, norm: Any) -> Any:
    dtype = x.dtype
    size = tf.shape(x)[-1]
    static = x.shape.as_list()[-1]
    count = static if static is not None else size
    real = tf.cast(count, dtype)
    number = tf.cast(tf.range(count), dtype)
    pi = tf.constant(math.pi, dtype)
    if kind == 1:
        if static is not None and static < 2:
            raise ValueError("Type-I DCT requires the dimension to be greater than one.")
        mirrored = tf.concat([x, x[..., -2:0:-1]], axis=-1)
        return tf.math.real(tf.signal.rfft(mirrored))
    if kind == 2:
        scale = 2.0 * tf.exp(tf.complex(tf.zeros_like(number), -number * pi * 0.5 / real))
        padded = tf.signal.rfft(x, [2 * count])[..., :count]
        out = tf.math.real(padded * scale)
        if norm == "ortho":
            first = tf.equal(tf.range(count), 0)
            factor = tf.where(first, tf.fill([count], 0.5 * tf.rsqrt(real)), tf.fill([count], tf.sqrt(0.5 / real)))
            out = out * factor
        return out
    if kind == 3:
        if norm == "ortho":
            first = tf.equal(tf.range(count), 0)
            x = x * tf.where(first, tf.fill([count], tf.sqrt(real)), tf.fill([count], tf.sqrt(0.5 * real)))
        else:
            x = x * real
        scale = 2.0 * tf.exp(tf.complex(tf.zeros_like(number), number * pi * 0.5 / real))
        return tf.signal.irfft(scale * tf.complex(x, tf.zeros_like(x)), [2 * count])[..., :count]
    # Type IV: the odd elements of a type II of twice the length.
    padded = tf.concat([x, tf.zeros_like(x)], axis=-1)
    out = _dct(padded, 2, None)[..., 1::2]
    return out * tf.rsqrt(2.0 * real) if norm == "ortho" else out


@export("signal.idct", "spectral.idct")
def idct(
    input: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: Any = None, name: str | None = None
) -> Any:
    """The inverse of `dct` up to scale: with 'ortho', or after division by twice the number of samples, exactly."""
    _checked_dct(type, n, axis, norm)
    inverse = {1: 1, 2: 3, 3: 2, 4: 4}[type]
    return dct(input, inverse, n, axis, norm, name or "idct")


@export("signal.mdct")
def mdct(
    signals: Any,
    frame_length: int,
    window_fn: Callable[..., Any] | None = None,
    pad_end: bool = False,
    norm: Any = None,
    name: str | None = None,
) -> Any:
    """The modified discrete cosine transform: `[..., frames, frame_length // 2]`.

    Args:
        signals: `[..., samples]`.
        frame_length: The samples of a frame, a multiple of 4; frames overlap by half.
        window_fn: The window; the Vorbis window if None.
        pad_end: Whether the end is padded.
        norm: None or 'ortho'.
        name: A name for the operation.
    """
    if frame_length % 4:
        raise ValueError(f"frame_length must be a multiple of 4, got {frame_length}.")
    with tf.name_scope(name, "mdct", [signals]):
        half = frame_length // 2
        frames = frame(signals, frame_length, half, pad_end=pad_end)
        window = (window_fn or tf.signal.vorbis_window)(frame_length, dtype=frames.dtype)
        frames = frames * window
        a, b, c, d = tf.split(frames, 4, axis=-1)
        folded = tf.concat([-c[..., ::-1] - d, a - b[..., ::-1]], axis=-1)
        return _dct(folded, 4, norm)


@export("signal.inverse_mdct")
def inverse_mdct(
    mdcts: Any, window_fn: Callable[..., Any] | None = None, norm: Any = None, name: str | None = None
) -> Any:
    """The signals of modified discrete cosine transforms."""
    with tf.name_scope(name, "inverse_mdct", [mdcts]):
        mdcts = tf.convert_to_tensor(mdcts)
        half = mdcts.shape.as_list()[-1]
        if half is None:
            raise ValueError("The last dimension of mdcts must be known.")
        folded = _dct(mdcts, 4, norm)
        if norm is None:
            folded = folded * (0.5 / half)
        left, right = tf.split(folded, 2, axis=-1)
        frames = tf.concat([right, -right[..., ::-1], -left[..., ::-1], -left], axis=-1)
        window = (window_fn or tf.signal.vorbis_window)(2 * half, dtype=frames.dtype)
        return overlap_and_add(frames * window, half)


def _mel(frequency: Any) -> Any:
    return 1127.0 * tf.log(1.0 + frequency / 700.0)


@export("signal.linear_to_mel_weight_matrix")
def linear_to_mel_weight_matrix(
    num_mel_bins: int = 20,
    num_spectrogram_bins: Any = 129,
    sample_rate: Any = 8000,
    lower_edge_hertz: float = 125.0,
    upper_edge_hertz: float = 3800.0,
    dtype: Any = None,
    name: str | None = None,
) -> Any:
    """The matrix `[num_spectrogram_bins, num_mel_bins]` that warps linear spectrograms to the mel scale.

    Raises:
        ValueError: If a number makes no sense.
    """
    dtype = tf.as_dtype(dtype or tf.float32)
    rate = tf.get_static_value(sample_rate) if isinstance(sample_rate, tf.Tensor) else sample_rate
    if num_mel_bins <= 0:
        raise ValueError(f"num_mel_bins must be positive. Got: {num_mel_bins}")
    if lower_edge_hertz < 0.0 or lower_edge_hertz >= upper_edge_hertz:
        raise ValueError(
            f"lower_edge_hertz {lower_edge_hertz} must be from 0 to below upper_edge_hertz {upper_edge_hertz}."
        )
    if rate is not None and (rate <= 0 or upper_edge_hertz > rate / 2):
        raise ValueError(
            "upper_edge_hertz must not be larger than the Nyquist frequency (sample_rate / 2). "
            f"Got {upper_edge_hertz} for sample_rate: {rate}"
        )
    with tf.name_scope(name, "linear_to_mel_weight_matrix"):
        nyquist = tf.cast(sample_rate, dtype) / 2.0
        # Bin 0, the constant part, belongs to no band.
        bins = tf.lin_space(tf.zeros([], dtype), nyquist, num_spectrogram_bins)[1:]
        bins = tf.expand_dims(_mel(bins), 1)
        low, high = (_mel(tf.constant(edge, dtype)) for edge in (lower_edge_hertz, upper_edge_hertz))
        edges = tf.lin_space(low, high, num_mel_bins + 2)
        left, centre, right = (edges[k : num_mel_bins + k][tf.newaxis, :] for k in range(3))
        rising, falling = (bins - left) / (centre - left), (right - bins) / (right - centre)
        return tf.pad(tf.maximum(tf.zeros([], dtype), tf.minimum(rising, falling)), [[1, 0], [0, 0]])


@export("signal.mfccs_from_log_mel_spectrograms")
def mfccs_from_log_mel_spectrograms(log_mel_spectrograms: Any, name: str | None = None) -> Any:
    """The mel-frequency cepstral coefficients of log mel spectrograms `[..., bands]`."""
    with tf.name_scope(name, "mfccs_from_log_mel_spectrograms", [log_mel_spectrograms]):
        spectrograms = tf.convert_to_tensor(log_mel_spectrograms)
        bands = spectrograms.shape.as_list()[-1]
        if bands == 0:
            raise ValueError("num_mel_bins must be positive. Got: 0")
        count = tf.cast(bands if bands is not None else tf.shape(spectrograms)[-1], spectrograms.dtype)
        return _dct(spectrograms, 2, None) * tf.rsqrt(2.0 * count)


def _shifted(x: Any, axes: Any, sign: int, name: str | None, default: str) -> Any:
    with tf.name_scope(name, default, [x]):
        x = tf.convert_to_tensor(x)
        if axes is None:
            if x.shape.ndims is None:
                raise ValueError(f"{default} without axes needs a tensor of known rank.")
            axes = list(range(x.shape.ndims))
        axes = [axes] if isinstance(axes, int) else list(axes)
        sizes = [tf.shape(x)[axis] for axis in axes]
        shifts = [size // 2 if sign > 0 else -(size // 2) for size in sizes]
        return tf.roll(x, tf.stack(shifts), axes)


@export("signal.fftshift")
def fftshift(x: Any, axes: Any = None, name: str | None = None) -> Any:
    """Moves the zero frequency to the middle of the axes."""
    return _shifted(x, axes, 1, name, "fftshift")


@export("signal.ifftshift")
def ifftshift(x: Any, axes: Any = None, name: str | None = None) -> Any:
    """The reverse of `fftshift`."""
    return _shifted(x, axes, -1, name, "ifftshift")
