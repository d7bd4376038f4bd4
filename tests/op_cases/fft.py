"""Cases of the Fourier transforms."""

from __future__ import annotations

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real


def _of(function, rank):
    return lambda x, *length: function(
        x, *([list(length[0])] if length else [None]), axes=list(range(x.ndim - rank, x.ndim))
    )


def _complex(call):
    """From two real tensors, so that gradients can be checked."""
    return lambda re, im, *length: call(tf.complex(re, im), *length)


_LONG = {
    1: [(1,), (7,), (31,), (37,), (2, 74), (9, 60), (11, 64), (360,), (1009,), (3, 2048), (5, 6000)],
    2: [(37, 3), (60, 10), (2, 9, 74)],
    3: [(2, 7, 9)],
}

for _rank, _suffix in ((1, ""), (2, "2d"), (3, "3d")):
    _shapes = [(6,) * _rank, (2, *(3, 4, 5)[-_rank:])]
    _op = "FFT" + _suffix.upper()
    _low = [Bad(Args(real(*(3,) * (_rank - 1))), match=str(_rank))]
    for _name, _call, _reference in (
        (_op, getattr(tf.signal, f"fft{_suffix}"), np.fft.fftn),
        ("I" + _op, getattr(tf.signal, f"ifft{_suffix}"), np.fft.ifftn),
    ):
        case(
            _name,
            _call,
            _of(_reference, _rank),
            dtypes="complex64 complex128",
            bad=_low,
            samples=[*(Args(real(*s)) for s in _shapes), Args(real(0, *(2,) * _rank))],
        )
        case(
            _name,
            _complex(_call),
            lambda re, im, f=_reference, r=_rank: _of(f, r)(re + 1j * im),
            dtypes="float64",
            samples=[Args(real(*s), real(*s)) for s in _shapes],
            order=2,
        )
    _forward, _inverse = getattr(tf.signal, f"rfft{_suffix}"), getattr(tf.signal, f"irfft{_suffix}")
    for _name, _call, _reference in (
        (_op, getattr(tf.signal, f"fft{_suffix}"), np.fft.fftn),
        ("I" + _op, getattr(tf.signal, f"ifft{_suffix}"), np.fft.ifftn),
    ):
        # Lengths with every radix, with a large prime factor, and long enough to be cut in two; full and partial lanes.
        case(
            _name,
            _call,
            _of(_reference, _rank),
            dtypes="complex64 complex128",
            tolerance=2e-4,
            samples=[Args(real(*s)) for s in _LONG[_rank]],
        )
    _lengths = [np.array([n] * _rank, np.int32) for n in (3, 4, 7)]
    case(
        "R" + _op,
        _forward,
        _of(np.fft.rfftn, _rank),
        dtypes="float32 float64",
        order=2,
        samples=[*(Args(real(*s)) for s in _shapes), *(Args(real(*_shapes[1]), n) for n in _lengths)],
        bad=[
            *_low,
            Bad(Args(real(*_shapes[0]), np.array([-1] * _rank, np.int32)), match="-1"),
            Bad(Args(real(*_shapes[0]), np.array([2] * (_rank + 1), np.int32)), match=str(_rank)),
        ],
    )
    _real = {1: [(2,), (5,), (37,), (9, 100), (74,), (8, 2048), (3, 1000)], 2: [(3, 37), (10, 60)], 3: [(2, 3, 74)]}
    case(
        "R" + _op,
        _forward,
        _of(np.fft.rfftn, _rank),
        tolerance=2e-4,
        samples=[Args(real(*s)) for s in _real[_rank]],
    )
    case(
        "IR" + _op,
        _inverse,
        _of(np.fft.irfftn, _rank),
        dtypes="complex64 complex128",
        tolerance=2e-4,
        samples=[
            Args(real(*s), np.array([*s[len(s) - _rank : -1], 2 * s[-1] - k], np.int32))
            for s in _real[_rank]
            for k in (1, 2)
        ],
    )
    case(
        "IR" + _op,
        _inverse,
        _of(np.fft.irfftn, _rank),
        dtypes="complex64 complex128",
        samples=[*(Args(real(*s)) for s in _shapes), *(Args(real(*_shapes[1]), n) for n in _lengths)],
        bad=[*_low, Bad(Args(real(*_shapes[0]), np.array([-1] * _rank, np.int32)), match="-1")],
    )
    case(
        "IR" + _op,
        _complex(_inverse),
        lambda re, im, *n, r=_rank: _of(np.fft.irfftn, r)(re + 1j * im, *n),
        dtypes="float64",
        order=1,
        samples=[
            Args(real(*_shapes[1]), real(*_shapes[1])),
            *(Args(real(*_shapes[1]), real(*_shapes[1]), n) for n in _lengths),
        ],
    )
