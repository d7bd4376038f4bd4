"""tf.signal against SciPy: windows, frames, transforms and their inverses, mel scales."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.fft
from scipy.signal import windows

import thalweg as tf

RNG = np.random.default_rng(0)


def run(value: Any) -> Any:
    with tf.Session() as session:
        return session.run(value)


@pytest.mark.parametrize("size", [1, 2, 7, 16])
def test_windows(size: int) -> None:
    even = size % 2 == 0
    for ours, name in ((tf.signal.hann_window, "hann"), (tf.signal.hamming_window, "hamming")):
        symmetric = windows.get_window(name, size, fftbins=False)
        np.testing.assert_allclose(run(ours(size, periodic=False)), symmetric, atol=1e-6)
        expected = windows.get_window(name, size, fftbins=True) if even else symmetric
        np.testing.assert_allclose(run(ours(size)), expected, atol=1e-6)
    np.testing.assert_allclose(run(tf.signal.kaiser_window(size, 8.0)), windows.kaiser(size, 8.0), atol=1e-5)
    if even:
        derived = run(tf.signal.kaiser_bessel_derived_window(size, 4.0))
        np.testing.assert_allclose(derived, windows.kaiser_bessel_derived(size, beta=4.0), atol=1e-5)
    with pytest.raises(ValueError, match="floating"):
        tf.signal.hann_window(size, dtype=tf.int32)


@pytest.mark.parametrize("pad_end", [False, True])
@pytest.mark.parametrize("axis", [0, -1])
def test_frame(pad_end: bool, axis: int) -> None:
    x = np.arange(22).reshape(2, 11)
    source = x if axis == -1 else x.T
    framed = tf.signal.frame(source, 4, 3, pad_end=pad_end, axis=axis)
    value = run(framed)
    assert framed.shape.is_compatible_with(value.shape)
    padded = np.pad(x, [[0, 0], [0, 4 * pad_end]])
    expected = np.stack([padded[:, i : i + 4] for i in range(0, 11 if pad_end else 8, 3)], axis=1)
    np.testing.assert_array_equal(value if axis == -1 else np.moveaxis(value, 2, 0), expected)
    with pytest.raises(ValueError, match="axis"):
        tf.signal.frame(source, 4, 3, axis=5)


def test_overlap_and_add() -> None:
    frames = RNG.normal(size=(2, 5, 6)).astype(np.float32)
    expected = np.zeros((2, 4 * 4 + 6), np.float32)
    for i in range(5):
        expected[:, 4 * i : 4 * i + 6] += frames[:, i]
    found = tf.signal.overlap_and_add(frames, 4)
    assert found.shape.as_list() == [2, 22]
    np.testing.assert_allclose(run(found), expected, rtol=1e-5)
    with pytest.raises(ValueError, match="integer"):
        tf.signal.overlap_and_add(frames, 2.5)
    with pytest.raises(ValueError, match="rank"):
        tf.signal.overlap_and_add([1, 2], 1)


def test_the_inverse_stft_gives_the_signal_back() -> None:
    x = RNG.normal(size=(2, 160)).astype(np.float32)
    transformed = tf.signal.stft(x, 32, 8, pad_end=False)
    assert transformed.shape.as_list() == [2, 17, 17]
    window = tf.signal.inverse_stft_window_fn(8)
    back = run(tf.signal.inverse_stft(transformed, 32, 8, window_fn=window))
    np.testing.assert_allclose(back[:, 32:-32], x[:, 32:-32], atol=1e-4)
    first = np.fft.rfft(x[0, :32] * windows.hann(32, sym=False))
    np.testing.assert_allclose(run(transformed)[0, 0], first, atol=1e-4)
    assert tf.signal.stft(x, 20, 10).shape.as_list()[-1] == 17  # of the next power of two


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
@pytest.mark.parametrize("norm", [None, "ortho"])
def test_cosine_transforms(kind: int, norm: str | None) -> None:
    x = RNG.normal(size=(3, 9))
    if kind == 1 and norm:
        with pytest.raises(ValueError, match="Normalization"):
            tf.signal.dct(x, kind, norm=norm)
        return
    np.testing.assert_allclose(run(tf.signal.dct(x, kind, norm=norm)), scipy.fft.dct(x, kind, norm=norm), atol=1e-9)
    for n in (5, 12):
        np.testing.assert_allclose(run(tf.signal.dct(x, kind, n=n)), scipy.fft.dct(x, kind, n=n), atol=1e-9)
    back = run(tf.signal.idct(tf.signal.dct(x, kind, norm=norm), kind, norm=norm))
    np.testing.assert_allclose(back, x * (1 if norm else 16 if kind == 1 else 18), atol=1e-8)


def test_wrong_cosine_transforms_are_refused() -> None:
    with pytest.raises(ValueError, match="Types"):
        tf.signal.dct([1.0, 2.0], type=5)
    with pytest.raises(ValueError, match="n should"):
        tf.signal.dct([1.0, 2.0], n=0)
    with pytest.raises(ValueError, match="normalization"):
        tf.signal.dct([1.0, 2.0], norm="x")


@pytest.mark.parametrize("norm", [None, "ortho"])
def test_the_inverse_mdct_gives_the_signal_back(norm: str | None) -> None:
    x = RNG.normal(size=(2, 64)).astype(np.float32)
    transformed = tf.signal.mdct(x, 16, norm=norm)
    assert run(transformed).shape == (2, 7, 8)
    back = run(tf.signal.inverse_mdct(transformed, norm=norm))
    np.testing.assert_allclose(back[:, 8:-8], x[:, 8:-8], atol=1e-4)
    with pytest.raises(ValueError, match="multiple of 4"):
        tf.signal.mdct(x, 18)


def test_mel_scale_and_cepstral_coefficients() -> None:
    matrix = run(tf.signal.linear_to_mel_weight_matrix(6, 33, 8000, 100.0, 3800.0))

    def mel(f: Any) -> Any:
        return 1127.0 * np.log1p(np.asarray(f) / 700.0)

    edges = np.linspace(mel(100.0), mel(3800.0), 8)
    bins = mel(np.linspace(0, 4000, 33))
    expected = np.stack([np.interp(bins, edges[i : i + 3], [0, 1, 0]) for i in range(6)], axis=1)
    np.testing.assert_allclose(matrix, expected, atol=1e-4)
    assert not matrix[0].any()
    x = RNG.normal(size=(2, 6)).astype(np.float32)
    coefficients = run(tf.signal.mfccs_from_log_mel_spectrograms(x))
    np.testing.assert_allclose(coefficients, scipy.fft.dct(x, 2) / np.sqrt(12), atol=1e-5)
    with pytest.raises(ValueError, match="Nyquist"):
        tf.signal.linear_to_mel_weight_matrix(6, 33, 8000, 100.0, 4100.0)


def test_shifts_of_the_zero_frequency() -> None:
    x = RNG.normal(size=(3, 4))
    np.testing.assert_array_equal(run(tf.signal.fftshift(x)), np.fft.fftshift(x))
    np.testing.assert_array_equal(run(tf.signal.ifftshift(x, 1)), np.fft.ifftshift(x, 1))


def test_gradients_reach_the_signal() -> None:
    x = tf.constant(RNG.normal(size=64).astype(np.float32))
    loss = tf.reduce_sum(tf.square(tf.abs(tf.signal.stft(x, 16, 8))))
    (slope,) = tf.gradients(loss, x)
    assert np.isfinite(run(slope)).all() and np.abs(run(slope)).max() > 0
