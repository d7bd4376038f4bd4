"""Fourier transforms over the innermost one, two or three dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import complex64, complex128, float64
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape

_COMPLEX = "Tcomplex: {complex64, complex128} = complex64"
_REAL = "Treal: {float, double} = float"


def _suffix(rank: int) -> str:
    return "" if rank == 1 else f"{rank}D"


def _rank(op_type: str) -> int:
    return int(op_type[-2]) if op_type.endswith("D") else 1


def _complex_shape(c: ShapeContext) -> TensorShape:
    return shapes.with_rank_at_least(c.input(0), _rank(c.op_type))


def _real_shape(c: ShapeContext) -> TensorShape:
    rank = _rank(c.op_type)
    dims = shapes.with_rank_at_least(c.input(0), rank).dims_tuple
    shapes.merge(c.input(1), TensorShape._of((rank,)))
    if dims is None:
        return shapes.UNKNOWN
    length = c.constant(1)
    inner: list[int | None] = [None] * rank if length is None else [int(n) for n in length]
    if length is not None and min(int(n) for n in length) < 0:
        raise ValueError(f"fft_length must be non-negative, got {length.tolist()}")
    if not c.op_type.startswith("I") and inner[-1] is not None:
        inner[-1] = inner[-1] // 2 + 1 if inner[-1] else 0
    return TensorShape._of((*dims[: len(dims) - rank], *inner))


for _n in (1, 2, 3):
    for _op in (f"FFT{_suffix(_n)}", f"IFFT{_suffix(_n)}"):
        define(_op, "input: Tcomplex -> output: Tcomplex", _COMPLEX, shape=_complex_shape)
    define(
        f"RFFT{_suffix(_n)}",
        "input: Treal, fft_length: int32 -> output: Tcomplex",
        f"{_REAL}, {_COMPLEX}",
        shape=_real_shape,
    )
    define(
        f"IRFFT{_suffix(_n)}",
        "input: Tcomplex, fft_length: int32 -> output: Treal",
        f"{_REAL}, {_COMPLEX}",
        shape=_real_shape,
    )


def _complex_transform(rank: int, inverse: bool) -> Callable[..., Tensor]:
    letter, old = ("i" if inverse else ""), ("I" if inverse else "")
    name = f"{letter}fft{'' if rank == 1 else f'{rank}d'}"
    op_type = f"{old}FFT{_suffix(rank)}"

    def function(input: Any, name: str | None = None) -> Tensor:
        return apply_one(op_type, input, name=name)

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    kind = "inverse Fourier transform" if inverse else "Fourier transform"
    function.__doc__ = f"Returns the {kind} over the innermost {rank} dimension(s) of a complex tensor."
    return export(name, f"signal.{name}", f"spectral.{name}", deprecated=(f"batch_{name}",))(function)


fft, fft2d, fft3d = (_complex_transform(n, False) for n in (1, 2, 3))
ifft, ifft2d, ifft3d = (_complex_transform(n, True) for n in (1, 2, 3))


def _real_transform(rank: int, inverse: bool) -> Callable[..., Tensor]:
    name = f"{'i' if inverse else ''}rfft{'' if rank == 1 else f'{rank}d'}"
    op_type = f"{'I' if inverse else ''}RFFT{_suffix(rank)}"

    def function(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
        with name_scope(name, function.__name__, [input_tensor, fft_length]) as scope:
            x = convert_to_tensor(input_tensor, preferred_dtype=complex64 if inverse else None)
            length = _default_length(x, rank, inverse) if fft_length is None else fft_length
            wide = x.dtype.base_dtype in (complex128, float64)
            types = {"Tcomplex": complex128 if wide else complex64, "Treal": float64 if wide else None}
            return apply_one(op_type, x, length, **types, name=scope)

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    what = "real tensor whose Fourier transform is" if inverse else "Fourier transform, up to the Nyquist frequency, of"
    function.__doc__ = f"""Returns the {what} `input_tensor`, over its innermost {rank} dimension(s).

    Args:
        input_tensor: A {"complex" if inverse else "real"} tensor.
        fft_length: The length of the transform in each of them; the tensor is cut or padded with zeros accordingly.
        name: The node's name.

    Returns:
        A {"real" if inverse else "complex"} tensor.
    """
    return export(f"signal.{name}", f"spectral.{name}")(function)


def _default_length(x: Tensor, rank: int, inverse: bool) -> Any:
    """As long as the input is; an inverse transform takes its last dimension for half of an even length."""
    dims = x.shape.dims_tuple
    if dims is not None and len(dims) >= rank and None not in dims[-rank:]:
        sizes = np.array(dims[-rank:], np.int32)
        if inverse:
            sizes[-1] = max(0, 2 * (sizes[-1] - 1))
        return sizes
    dynamic = apply_one("Shape", x)[-rank:]
    if not inverse:
        return dynamic
    last = apply_one("Maximum", apply_one("Mul", 2, apply_one("Sub", dynamic[-1:], 1)), 0)
    return last if rank == 1 else apply_one("ConcatV2", [dynamic[:-1], last], 0)


rfft, rfft2d, rfft3d = (_real_transform(n, False) for n in (1, 2, 3))
irfft, irfft2d, irfft3d = (_real_transform(n, True) for n in (1, 2, 3))


def _count(x: Tensor, rank: int) -> Any:
    """The number of elements of one transform, in the type of `x`."""
    dims = x.shape.dims_tuple
    if dims is not None and None not in dims[-rank:]:
        size = int(np.prod([d or 0 for d in dims[-rank:]]))
        return apply_one("Const", value=np.array(size).astype(x.dtype.as_numpy_dtype), dtype=x.dtype.base_dtype)
    return apply_one("Cast", apply_one("Prod", apply_one("Shape", x)[-rank:], [0]), DstT=x.dtype.base_dtype)


@gradient("FFT", "FFT2D", "FFT3D")
def _fft_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one("Mul", apply_one(f"I{op.type}", grad), _count(grad, _rank(op.type)))


@gradient("IFFT", "IFFT2D", "IFFT3D")
def _ifft_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one("RealDiv", apply_one(op.type[1:], grad), _count(grad, _rank(op.type)))


def _cut_or_pad(x: Any, rank: int, target: Any) -> Any:
    """Cuts or pads the innermost dimensions of `x` with zeros, to the shape `target`."""
    sizes = apply_one("Shape", x)
    common = apply_one("Minimum", sizes, target)
    cut = apply_one("Slice", x, apply_one("ZerosLike", sizes), common)
    after = apply_one("Sub", target, common)
    return apply_one("Pad", cut, apply_one("Pack", [apply_one("ZerosLike", after), after], axis=1))


@gradient("RFFT", "RFFT2D", "RFFT3D")
def _rfft_grad(op: Operation, grad: Tensor) -> Any:
    """Re(sum over k of G[k] exp(2 pi i j k / n)): an inverse transform of the gradient, filled up with zeros."""
    x: Tensor = op.inputs[0]
    length: Any = op.inputs[1]
    rank = _rank(op.type)
    full = apply_one("ConcatV2", [apply_one("Shape", grad)[:-1], length[-1:]], 0)
    spread = apply_one(f"IFFT{_suffix(rank)}", _cut_or_pad(grad, rank, full))
    count = apply_one("Cast", apply_one("Prod", length, [0]), DstT=x.dtype.base_dtype)
    real = apply_one("Mul", apply_one("Real", spread, Tout=x.dtype.base_dtype), count)
    return _cut_or_pad(real, rank, apply_one("Shape", x)), None


@gradient("IRFFT", "IRFFT2D", "IRFFT3D")
def _irfft_grad(op: Operation, grad: Tensor) -> Any:
    """The transform of the gradient; frequencies whose conjugates the spectrum leaves out count twice."""
    x: Tensor = op.inputs[0]
    length: Any = op.inputs[1]
    kind = x.dtype.base_dtype
    spectrum = apply_one(op.type[1:], grad, length, Tcomplex=kind)
    last = length[-1]
    k = apply_one("Range", 0, apply_one("AddV2", apply_one("FloorDiv", last, 2), 1), 1)
    single = apply_one("LogicalOr", apply_one("Equal", k, 0), apply_one("Equal", apply_one("Mul", k, 2), last))
    weight = apply_one("Sub", 2, apply_one("Cast", single, DstT="int32"))
    scaled = apply_one(
        "RealDiv", apply_one("Cast", weight, DstT=kind), apply_one("Cast", apply_one("Prod", length, [0]), DstT=kind)
    )
    return _cut_or_pad(apply_one("Mul", spectrum, scaled), _rank(op.type), apply_one("Shape", x)), None
