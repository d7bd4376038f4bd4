"""The summary ops: each gives a serialized Summary message. Scalars, histograms and merging have native kernels."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from thalweg import errors
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, not_differentiable, python_kernel
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.messages.tensor_proto import tensor_proto_of

Array = np.ndarray[Any, Any]

_REAL = "{float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}"

define("ScalarSummary", "tags: string, values: T -> summary: string", f"T: {_REAL}", shape=shapes.scalar)
define("HistogramSummary", "tag: string, values: T -> summary: string", f"T: {_REAL} = float", shape=shapes.scalar)
define("MergeSummary", "inputs: N * string -> summary: string", "N: int >= 1", shape=shapes.scalar)
define(
    "ImageSummary", "tag: string, tensor: T -> summary: string",
    "max_images: int >= 1 = 3, T: {uint8, float, half, double} = float, bad_color: tensor = uint8[255, 0, 0, 255]",
    shape=shapes.scalar,
)  # fmt: skip
define(
    "AudioSummary", "tag: string, tensor: float -> summary: string", "sample_rate: float, max_outputs: int >= 1 = 3",
    shape=shapes.scalar,
)  # fmt: skip
define(
    "AudioSummaryV2", "tag: string, tensor: float, sample_rate: float -> summary: string", "max_outputs: int >= 1 = 3",
    shape=shapes.scalar,
)  # fmt: skip
define(
    "TensorSummary", "tensor: T -> summary: string",
    'T: type, description: string = "", labels: list(string) = [], display_name: string = ""',
    shape=shapes.scalar,
)  # fmt: skip
define(
    "TensorSummaryV2", "tag: string, tensor: T, serialized_summary_metadata: string -> summary: string", "T: type",
    shape=shapes.scalar,
)  # fmt: skip
not_differentiable(
    "ScalarSummary", "HistogramSummary", "MergeSummary", "ImageSummary", "AudioSummary", "AudioSummaryV2",
    "TensorSummary", "TensorSummaryV2",
)  # fmt: skip


def _summary() -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary  # Start-up time: protobuf is slow to import.

    return Summary()


def _invalid(message: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(None, None, message)


def _scalar_text(array: Array, what: str) -> str:
    if array.size != 1:
        raise _invalid(f"{what} must be a scalar, got shape {list(array.shape)}.")
    return bytes(array.reshape(())[()]).decode("utf-8", "replace")


def _serialized(summary: Any) -> Array:
    return np.array(summary.SerializeToString(), dtype=object)


@python_kernel("ImageSummary")
def _image_summary(inputs: list[Any], attrs: dict[str, Any]) -> Any:
    tag, images = _scalar_text(inputs[0], "tag"), inputs[1]
    if images.ndim != 4 or images.shape[3] not in (1, 3, 4):
        raise _invalid(
            "Tensor must be 4-D with last dim 1, 3, or 4 (batch, height, width, channels), "
            f"got shape {list(images.shape)}."
        )
    height, width, channels = images.shape[1:]
    if height * width == 0 or height >= 2**24 or width >= 2**24:
        raise _invalid(f"An image of {height} by {width} pixels cannot be encoded.")
    bad_color = np.asarray(attrs["bad_color"])
    if bad_color.dtype != np.uint8 or bad_color.ndim != 1 or bad_color.size < channels:
        raise _invalid(
            f"bad_color must be a uint8 vector with at least {channels} elements, got {bad_color.dtype} of shape "
            f"{list(bad_color.shape)}."
        )
    summary = _summary()
    count = min(attrs["max_images"], images.shape[0])
    for i in range(count):
        name = f"{tag}/image" if attrs["max_images"] == 1 else f"{tag}/image/{i}"
        pixels = images[i] if images.dtype == np.uint8 else _to_bytes(images[i], bad_color[:channels])
        image = summary.value.add(tag=name).image
        image.height, image.width, image.colorspace = height, width, channels
        image.encoded_image_string = _png(pixels)
    return _serialized(summary)


def _to_bytes(image: Array, bad_color: Array) -> Array:
    """Scales floats to 0..255: from zero if none is negative, else with zero at 128."""
    values = image.astype(np.float32, copy=False) if image.dtype != np.float64 else image
    finite = np.isfinite(values)
    pixel_is_finite = finite.all(axis=-1)
    known = values[pixel_is_finite]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    nearly_zero = 1e-6
    if low < 0:
        largest, top, offset = max(abs(low), abs(high)), 127.0, 128.0
    else:
        largest, top, offset = high, 255.0, 0.0
    # The factor is a float for any element type, as TensorFlow has it: the last bit of a pixel depends on it.
    scale = values.dtype.type(0.0 if largest < nearly_zero else np.float32(top) / np.float32(largest))
    scaled = np.where(finite, values, 0) * scale + values.dtype.type(offset)
    out: Array = scaled.astype(np.uint8)
    out[~pixel_is_finite] = bad_color
    return out


def _png(pixels: Array) -> bytes:
    from PIL import Image  # Start-up time: PIL is slow to import.

    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)).save(out, "PNG")
    return out.getvalue()


@python_kernel("AudioSummary", "AudioSummaryV2")
def _audio_summary(inputs: list[Any], attrs: dict[str, Any]) -> Any:
    tag, clips = _scalar_text(inputs[0], "tag"), inputs[1]
    rate = np.asarray(inputs[2] if len(inputs) > 2 else np.float32(attrs["sample_rate"]))
    if rate.size != 1 or not rate.reshape(()) > 0 or not np.isfinite(rate).all():
        raise _invalid(f"sample_rate must be a number > 0, got {rate.tolist()}.")
    if clips.ndim not in (2, 3):
        raise _invalid(
            "Tensor must be 3-D (batch, frames, channels) or 2-D (batch, frames), got: " + str(list(clips.shape))
        )
    frames = clips.shape[1]
    channels = clips.shape[2] if clips.ndim == 3 else 1
    if not 1 <= channels < 2**16:
        raise _invalid(f"num_channels must be in [1, 65535], got {channels}.")
    if frames * channels * 2 >= 2**32 - 64:
        raise _invalid(f"A clip of {frames} frames with {channels} channels is too long for a WAV file.")
    summary = _summary()
    sample_rate = float(rate.reshape(()))
    for i in range(min(attrs["max_outputs"], clips.shape[0])):
        name = f"{tag}/audio" if attrs["max_outputs"] == 1 else f"{tag}/audio/{i}"
        audio = summary.value.add(tag=name).audio
        audio.sample_rate, audio.num_channels, audio.length_frames = sample_rate, channels, frames
        audio.content_type = "audio/wav"
        audio.encoded_audio_string = _wav(clips[i].reshape(frames, channels), sample_rate)
    return _serialized(summary)


def _wav(samples: Array, sample_rate: float) -> bytes:
    """16-bit PCM; samples are clipped to [-1, 1]."""
    import struct

    scaled = np.nan_to_num(samples, nan=0.0) * np.float32(2**15)
    rounded = np.trunc(scaled + np.copysign(np.float32(0.5), scaled))
    data = np.clip(rounded, -(2**15), 2**15 - 1).astype("<i2").tobytes()
    channels = samples.shape[1]
    rate = min(int(sample_rate + 0.5), 2**32 // (2 * channels) - 1)
    header = struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, channels, rate, rate * channels * 2, channels * 2, 16,
        b"data", len(data),
    )  # fmt: skip
    return header + data


@python_kernel("TensorSummary", "TensorSummaryV2")
def _tensor_summary(inputs: list[Any], attrs: dict[str, Any]) -> Any:
    summary = _summary()
    value = summary.value.add()
    tensor = inputs[0]
    if len(inputs) == 3:
        value.tag = _scalar_text(inputs[0], "tag")
        tensor = inputs[1]
        metadata = inputs[2]
        if metadata.size != 1:
            raise _invalid(f"serialized_summary_metadata must be a scalar, got shape {list(metadata.shape)}.")
        _parse_metadata(value.metadata, bytes(metadata.reshape(())[()]))
    value.tensor.CopyFrom(tensor_proto_of(tensor, as_dtype(attrs["T"])))
    return _serialized(summary)


def _parse_metadata(metadata: Any, content: bytes) -> None:
    from google.protobuf.message import DecodeError  # Start-up time: protobuf is slow to import.

    metadata.SetInParent()
    try:
        metadata.ParseFromString(content)
    except DecodeError as e:
        raise _invalid(f"serialized_summary_metadata is not a SummaryMetadata: {e}") from None
