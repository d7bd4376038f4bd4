"""Cases of the ops on sound."""

from __future__ import annotations

import io
import wave
from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from thalweg.graph.apply import apply, apply_one

_SAMPLES = np.array([[0, 1], [-32768, 32767], [100, -100], [5, 6], [7, 8]], "<i2")


def _file(samples: np.ndarray, rate: int = 8000, width: int = 2) -> np.ndarray:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(samples.shape[1])
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return np.array(out.getvalue(), object)


def _decoded(data: np.ndarray, channels: int = -1, samples: int = -1) -> list[Any]:
    with wave.open(io.BytesIO(data.item())) as file:
        shape = (file.getnframes(), file.getnchannels())
        values = np.frombuffer(file.readframes(shape[0]), "<i2").reshape(shape).astype(np.float32) / 32768
        rate = file.getframerate()
    if channels > 0:
        values = np.repeat(values, channels, 1) if shape[1] == 1 else values[:, :channels]
    if samples >= 0:
        padded = np.zeros((samples, values.shape[1]), np.float32)
        padded[: min(samples, len(values))] = values[:samples]
        values = padded
    return [values, np.int32(rate)]


_WAV = _file(_SAMPLES)
case(
    "DecodeWav",
    lambda x, channels=-1, samples=-1: list(tf.audio.decode_wav(x, channels, samples)),
    _decoded,
    samples=[
        Args(_WAV),
        Args(_WAV, channels=1),
        Args(_WAV, samples=3),
        Args(_WAV, channels=2, samples=9),
        Args(_file(_SAMPLES[:, :1], 44100), channels=2),
    ],
    dtypes="float32",
    bad=[
        Bad(Args(np.array(b"RIFF", object)), match="RIFF"),
        Bad(Args(np.array(_WAV.item()[:50], object)), match="too short"),
        Bad(Args(np.array(_WAV.item()[:30], object)), match="too short"),
        Bad(Args(_file(_SAMPLES.astype(np.uint8), width=1)), match="16-bit"),
        Bad(Args(_WAV, channels=3), match="channels"),
    ],
)
case(
    "EncodeWav",
    lambda x, rate: tf.audio.encode_wav(x, rate),
    lambda x, rate: _file(np.clip(np.round(x * 32768), -32768, 32767).astype("<i2"), int(rate)),
    samples=[
        Args(np.array([[0.1, -1.0], [0.7, 2.0]], np.float32), np.int32(16000)),
        Args(np.array([[0.3]], np.float32), np.int32(8000)),
    ],
    dtypes="float32",
    bad=[Bad(Args(real(3), np.int32(8000)), match="2-dim"), Bad(Args(real(3, 1), np.int32(0)), match="sample_rate")],
)


def _spectrogram(x: np.ndarray, window: int, stride: int, squared: bool) -> np.ndarray:
    size = 2
    while size < window:
        size *= 2
    weights = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    rows = []
    for channel in x.T:
        starts = range(0, len(channel) - window + 1, stride)
        energy = [np.abs(np.fft.rfft(channel[i : i + window] * weights, size)) ** 2 for i in starts]
        rows.append(np.reshape(energy, (len(starts), size // 2 + 1)))
    return np.array(rows if squared else np.sqrt(rows), np.float32)


case(
    "AudioSpectrogram",
    lambda x, w, s, squared: apply_one("AudioSpectrogram", x, window_size=w, stride=s, magnitude_squared=squared),
    _spectrogram,
    samples=[Args(real(40, 2), 8, 3, True), Args(real(40, 1), 10, 10, False), Args(real(5, 1), 8, 1, True)],
    dtypes="float32",
    bad=[Bad(Args(real(40, 2), 1, 3, True), match="window_size"), Bad(Args(real(4), 2, 1, True), match="")],
)


def _mfcc(x: np.ndarray, rate: np.ndarray, upper: float, lower: float, channels: int, count: int) -> np.ndarray:
    """Each bin's magnitude goes to the two filters whose centers it lies between, by its distance on the mel scale."""

    def mel(frequency: float) -> float:
        return 1127.0 * np.log1p(frequency / 700.0)

    edges = np.linspace(mel(lower), mel(upper), channels + 2)
    width = 0.5 * int(rate) / (x.shape[2] - 1)
    energies = np.zeros((*x.shape[:2], channels))
    for i in range(int(1.5 + lower / width), min(int(upper / width), x.shape[2] - 1) + 1):
        place = mel(i * width)
        right = max(1, int(np.searchsorted(edges[:-1], place)))
        share = (edges[right] - place) / (edges[right] - edges[right - 1])
        if right >= 2:
            energies[..., right - 2] += np.sqrt(x[..., i]) * share
        if right - 1 < channels:
            energies[..., right - 1] += np.sqrt(x[..., i]) * (1 - share)
    logs = np.log(np.maximum(energies, 1e-12))
    basis = np.cos(np.pi / channels * np.arange(count)[:, None] * (np.arange(channels) + 0.5))
    return (logs @ basis.T * np.sqrt(2.0 / channels)).astype(np.float32)


case(
    "Mfcc",
    lambda x, rate, upper, lower, channels, count: apply(
        "Mfcc",
        x,
        rate,
        upper_frequency_limit=upper,
        lower_frequency_limit=lower,
        filterbank_channel_count=channels,
        dct_coefficient_count=count,
    ),
    _mfcc,
    samples=[
        Args(real(2, 3, 129, low=0.1), np.int32(8000), 3800.0, 20.0, 12, 5),
        Args(real(1, 2, 65, low=0.1), np.int32(16000), 4000.0, 300.0, 8, 8),
    ],
    dtypes="float32",
    bad=[
        Bad(Args(real(2, 3, 1, low=0.1), np.int32(8000), 4000.0, 20.0, 12, 5), match="bins"),
        Bad(Args(real(1, 3, 9, low=0.1), np.int32(8000), 4000.0, 20.0, 12, 13), match="dct_coefficient_count"),
        Bad(Args(real(1, 3, 9, low=0.1), np.int32(8000), 20.0, 4000.0, 12, 5), match="frequency"),
    ],
)


def _joined(strings: np.ndarray, ids: np.ndarray, count: np.ndarray, separator: str) -> np.ndarray:
    out = np.empty((int(count), *strings.shape[ids.ndim :]), object)
    for place in np.ndindex(out.shape):
        chosen = [strings[(*at, *place[1:])] for at in np.ndindex(ids.shape) if ids[at] == place[0]]
        out[place] = separator.encode().join(chosen)
    return out


_STRINGS = np.array([[b"a", b"b"], [b"c", b"d"], [b"e", b"f"]], object)
case(
    "UnsortedSegmentJoin",
    lambda x, ids, count, separator: tf.strings.unsorted_segment_join(x, ids, count, separator),
    _joined,
    samples=[
        Args(_STRINGS, np.array([1, 0, 1], np.int32), np.int32(3), "|"),
        Args(_STRINGS, np.array([[1, 0], [1, 1], [0, 0]], np.int64), np.int32(2), ""),
    ],
    dtypes="float32",
    bad=[
        Bad(Args(_STRINGS, np.array([1, 0, 3], np.int32), np.int32(3), ""), match="exceed"),
        Bad(Args(_STRINGS, np.array([1, 0, -1], np.int32), np.int32(3), ""), match="negative"),
        Bad(Args(_STRINGS, np.array([1, 0], np.int32), np.int32(3), ""), match="first dimensions"),
    ],
)
