"""Sound: WAV files to samples and back, spectrograms, and the cepstral coefficients that speech models read.

Kernels on NumPy. Programs of TensorFlow 1 and frozen models of speech have these op types.
"""

from __future__ import annotations

import functools
import struct
from typing import Any

import numpy as np

from thalweg.graph.apply import apply, apply_one
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, not_differentiable, python_kernel
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.sparse.kernel_arrays import require, require_memory

Array = np.ndarray[Any, Any]
_FULL_SCALE = 32768.0
_LEAST_ENERGY = 1e-12  # What the logarithm is taken of where a filter finds nothing.


def _decoded_shape(c: ShapeContext) -> list[TensorShape]:
    shapes.with_rank(c.input(0), 0)
    sizes = [c.attr("desired_samples"), c.attr("desired_channels")]
    return [TensorShape([None if size < 0 else size for size in sizes]), TensorShape([])]


def _spectrogram_shape(c: ShapeContext) -> TensorShape:
    length, channels = shapes.with_rank(c.input(0), 2).dims_tuple or (None, None)
    window, stride = c.attr("window_size"), c.attr("stride")
    if window < 2 or stride < 1:
        raise ValueError(f"window_size must be at least 2 and stride at least 1, got {window} and {stride}")
    slices = None if length is None else _slices(length, window, stride)
    return TensorShape([channels, slices, _transform_size(window) // 2 + 1])


def _cepstrum_shape(c: ShapeContext) -> TensorShape:
    sizes = shapes.with_rank(c.input(0), 3).dims_tuple or (None, None, None)
    return TensorShape([sizes[0], sizes[1], c.attr("dct_coefficient_count")])


define(
    "DecodeWav",
    "contents: string -> audio: float, sample_rate: int32",
    "desired_channels: int = -1, desired_samples: int = -1",
    shape=_decoded_shape,
)
define("EncodeWav", "audio: float, sample_rate: int32 -> contents: string", shape=shapes.scalar)
define(
    "AudioSpectrogram",
    "input: float -> spectrogram: float",
    "window_size: int, stride: int, magnitude_squared: bool = false",
    shape=_spectrogram_shape,
)
define(
    "Mfcc",
    "spectrogram: float, sample_rate: int32 -> output: float",
    "upper_frequency_limit: float = 4000.0, lower_frequency_limit: float = 20.0, filterbank_channel_count: int = 40, "
    "dct_coefficient_count: int = 13",
    shape=_cepstrum_shape,
)
not_differentiable("DecodeWav", "EncodeWav", "AudioSpectrogram", "Mfcc")


@python_kernel("DecodeWav")
def _decode_kernel(inputs: list[Any], attrs: dict[str, Any]) -> Any:
    contents = np.asarray(inputs[0], object).item()
    rate, channels, samples = _read_wav(contents)
    wanted = attrs["desired_channels"]
    if wanted > 0 and wanted != channels:
        require(channels == 1 or wanted < channels, f"the file has {channels} channels, {wanted} are desired")
        samples = np.repeat(samples, wanted, 1) if channels == 1 else samples[:, :wanted]
    length = attrs["desired_samples"]
    if length >= 0:
        require_memory(2 * length * samples.shape[1] * samples.itemsize)
        samples = np.pad(samples[:length], ((0, max(0, length - len(samples))), (0, 0)))
    return [np.ascontiguousarray(samples), np.int32(rate)]


def _read_wav(data: bytes) -> tuple[int, int, Array]:
    """Rate, channels and samples of a file of 16-bit PCM."""
    require(data[:4] == b"RIFF" and data[8:12] == b"WAVE", "Header mismatch: Expected a RIFF file of type WAVE")
    place, form = 12, None
    while place + 8 <= len(data):
        name, size = struct.unpack_from("<4sI", data, place)
        body = data[place + 8 : place + 8 + size]
        if name == b"fmt ":
            require(len(body) >= 16, "Data too short when trying to read the format of the samples")
            form = struct.unpack_from("<HHIIHH", body)
        elif name == b"data":
            require(form is not None, "Data chunk found before format chunk")
            assert form is not None
            kind, channels, rate, _, _, bits = form
            require(kind == 1 and bits == 16, f"Can only read 16-bit PCM files, got format {kind} with {bits} bits")
            require(channels > 0 and rate > 0, f"Bad number of channels or rate: {channels}, {rate}")
            require(len(body) == size, f"Data too short: expected {size} bytes of samples, got {len(body)}")
            count = size // (2 * channels)
            values = np.frombuffer(body, "<i2", count * channels).reshape(count, channels)
            return rate, channels, values.astype(np.float32) / np.float32(_FULL_SCALE)
        place += 8 + size + size % 2
    require(False, "No data chunk found in WAV")
    raise AssertionError


@python_kernel("EncodeWav")
def _encode_kernel(inputs: list[Any], attrs: dict[str, Any]) -> Any:
    audio, rate = np.asarray(inputs[0]), np.asarray(inputs[1])
    require(audio.ndim == 2, f"audio must be 2-dimensional, got shape {list(audio.shape)}")
    require(rate.ndim == 0 and int(rate) > 0, f"sample_rate must be a positive scalar, got {rate}")
    channels = audio.shape[1]
    require(0 < channels < 2**15, f"audio must have from 1 to {2**15 - 1} channels, got {channels}")
    scaled = audio * np.float32(_FULL_SCALE)
    rounded = np.trunc(scaled + np.copysign(np.float32(0.5), scaled))  # Halves go away from zero.
    body = np.clip(np.nan_to_num(rounded), -_FULL_SCALE, _FULL_SCALE - 1).astype("<i2").tobytes()
    step = 2 * channels
    form = struct.pack("<HHIIHH", 1, channels, int(rate), int(rate) * step, step, 16)
    chunks = b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(body)) + body
    return np.array(b"RIFF" + struct.pack("<I", len(chunks) + 4) + b"WAVE" + chunks, object)


def _transform_size(window: int) -> int:
    """The power of two that a window fits in."""
    return 1 << (window - 1).bit_length()


def _slices(length: int, window: int, stride: int) -> int:
    return 1 + (length - window) // stride if length >= window else 0


@python_kernel("AudioSpectrogram")
def _spectrogram_kernel(inputs: list[Any], attrs: dict[str, Any]) -> Any:
    audio = np.asarray(inputs[0])
    require(audio.ndim == 2, f"input must be 2-dimensional, got shape {list(audio.shape)}")
    window, stride = attrs["window_size"], attrs["stride"]
    require(window >= 2 and stride >= 1, f"window_size must be at least 2 and stride at least 1: {window}, {stride}")
    count, size = _slices(len(audio), window, stride), _transform_size(window)
    if count == 0:
        return np.zeros((audio.shape[1], 0, size // 2 + 1), np.float32)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    frames = np.lib.stride_tricks.sliding_window_view(audio, window, 0)[::stride][:count]
    energy = np.abs(np.fft.rfft(frames * hann, size)) ** 2
    found = energy if attrs["magnitude_squared"] else np.sqrt(energy)
    return np.ascontiguousarray(found.transpose(1, 0, 2).astype(np.float32))


def _mel(frequency: Any) -> Any:
    return 1127.0 * np.log1p(frequency / 700.0)


@functools.lru_cache(8)
def _filters(bins: int, rate: int, channels: int, lower: float, upper: float) -> Array:
    """Triangles over the bins of a spectrum, evenly apart on the mel scale: `[bins, channels]`."""
    low = _mel(lower)
    centers = low + (_mel(upper) - low) / (channels + 1) * np.arange(1, channels + 2)
    width = 0.5 * rate / (bins - 1)
    first, last = int(1.5 + lower / width), int(upper / width)
    filters = np.zeros((bins, channels))
    for i in range(max(first, 0), min(last, bins - 1) + 1):
        mel = _mel(i * width)
        band = int(np.searchsorted(centers[:channels], mel)) - 1  # The last center that is below.
        begin = low if band < 0 else centers[band]
        share = (centers[band + 1] - mel) / (centers[band + 1] - begin)
        if band >= 0:
            filters[i, band] = share
        if band + 1 < channels:
            filters[i, band + 1] += 1 - share
    return filters


@python_kernel("Mfcc")
def _cepstrum_kernel(inputs: list[Any], attrs: dict[str, Any]) -> Any:
    spectrogram, rate = np.asarray(inputs[0], np.float64), np.asarray(inputs[1])
    require(spectrogram.ndim == 3, f"spectrogram must be 3-dimensional, got shape {list(spectrogram.shape)}")
    require(rate.size == 1 and int(rate.reshape(-1)[0]) > 0, f"sample_rate must be a positive scalar, got {rate}")
    channels, count = attrs["filterbank_channel_count"], attrs["dct_coefficient_count"]
    lower, upper = float(attrs["lower_frequency_limit"]), float(attrs["upper_frequency_limit"])
    bins = spectrogram.shape[2]
    require(bins >= 2, f"spectrogram must have at least 2 bins, got {bins}")
    require(0 < count <= channels, f"dct_coefficient_count must be from 1 to {channels}, got {count}")
    require(0 <= lower < upper, f"upper_frequency_limit must be above lower_frequency_limit, got {upper} and {lower}")
    filters = _filters(bins, int(rate.reshape(-1)[0]), channels, lower, upper)
    energies = np.log(np.maximum(np.sqrt(np.maximum(spectrogram, 0.0)) @ filters, _LEAST_ENERGY))
    places = np.pi / channels * (np.arange(channels) + 0.5)
    cosines = np.sqrt(2.0 / channels) * np.cos(np.arange(count)[:, None] * places)
    return (energies @ cosines.T).astype(np.float32)


@export("audio.decode_wav")
def decode_wav(contents: Any, desired_channels: int = -1, desired_samples: int = -1, name: str | None = None) -> Any:
    """Returns the samples of a WAV file of 16-bit PCM, from -1 to 1, and its rate.

    Args:
        contents: The bytes of the file.
        desired_channels: How many channels to return; those of the file if -1. One channel is repeated.
        desired_samples: How many samples to return; those of the file if -1. Zeros follow where it has fewer.
        name: The node's name.

    Returns:
        A namedtuple: `audio`, `[samples, channels]`, and `sample_rate`.
    """
    return apply("DecodeWav", contents, desired_channels=desired_channels, desired_samples=desired_samples, name=name)


@export("audio.encode_wav")
def encode_wav(audio: Any, sample_rate: Any, name: str | None = None) -> Tensor:
    """Returns samples `[samples, channels]` from -1 to 1 as the bytes of a WAV file of 16-bit PCM."""
    return apply_one("EncodeWav", audio, sample_rate, name=name)
