"""Convolutions and their gradients in NumPy, in any number of dimensions, grouped: the reference of the kernels."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def _split(x: Array, groups: int) -> Array:
    return x.reshape(*x.shape[:-1], groups, x.shape[-1] // groups)


@dataclass
class Convolution:
    """A convolution of given attributes, on channels-last arrays unless `channels_first`."""

    strides: Any = 1
    padding: Any = "VALID"
    dilations: Any = 1
    channels_first: bool = False
    depthwise: bool = False

    def _steps(self, value: Any, spatial: int) -> list[int]:
        values = [value] if isinstance(value, int) else list(value)
        if len(values) == spatial + 2:
            values = values[2:] if self.channels_first else values[1:-1]
        return values * spatial if len(values) == 1 else values

    def _geometry(self, image: tuple[int, ...], kernel: tuple[int, ...]) -> None:
        n = self.spatial = len(kernel) - 2
        self.stride, self.dilation = self._steps(self.strides, n), self._steps(self.dilations, n)
        extents = [(k - 1) * d + 1 for k, d in zip(kernel[:n], self.dilation, strict=True)]
        sizes = image[1:-1]
        if self.padding == "SAME":
            self.out = [-(-size // s) for size, s in zip(sizes, self.stride, strict=True)]
            total = [
                max(0, (o - 1) * s + e - size)
                for o, s, e, size in zip(self.out, self.stride, extents, sizes, strict=True)
            ]
            self.pads = [(t // 2, t - t // 2) for t in total]
        else:
            pads = [(0, 0)] * n if self.padding == "VALID" else [tuple(p) for p in self.padding]
            if len(pads) == n + 2:
                pads = pads[2:] if self.channels_first else pads[1:-1]
            self.pads = pads
            self.out = [
                (size + p[0] + p[1] - e + s) // s
                for size, p, e, s in zip(sizes, pads, extents, self.stride, strict=True)
            ]

    def _windows(self, kernel: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
        """Each position in the kernel, and the part of the padded image that it meets."""
        for at in itertools.product(*map(range, kernel[: self.spatial])):
            yield (
                at,
                tuple(
                    slice(i * d, i * d + (o - 1) * s + 1, s) if o else slice(0, 0)
                    for i, d, o, s in zip(at, self.dilation, self.out, self.stride, strict=True)
                ),
            )

    def _grouped(self, kernel: Array, channels: int) -> tuple[Array, int]:
        """The kernel with its outputs split by group: [..., inputs, groups, outputs]."""
        if self.depthwise:
            return kernel[..., None, :, :], channels
        groups = channels // kernel.shape[-2]
        return _split(kernel, groups), groups

    def _to_channels_last(self, x: Array) -> Array:
        return np.moveaxis(x, 1, -1) if self.channels_first else x

    def _to_layout(self, x: Array) -> Array:
        return np.moveaxis(x, -1, 1) if self.channels_first else x

    def _padded(self, x: Array) -> Array:
        return np.pad(x, [(0, 0), *self.pads, (0, 0)])

    def forward(self, x: Array, kernel: Array) -> Array:
        """The convolution itself."""
        dtype, x = x.dtype, self._to_channels_last(x).astype(np.float64)
        self._geometry(x.shape, kernel.shape)
        w, groups = self._grouped(kernel.astype(np.float64), x.shape[-1])
        x = self._padded(x)
        x = _split(x, groups)
        out = np.zeros([x.shape[0], *self.out, groups, w.shape[-1]])
        for at, window in self._windows(kernel.shape):
            out += np.einsum("n...gi,igo->n...go", x[(slice(None), *window)], w[at])
        return self._to_layout(out.reshape(*out.shape[:-2], groups * w.shape[-1])).astype(dtype)

    def input_gradient(self, sizes: Any, kernel: Array, grad: Array) -> Array:
        """The gradient of the input, given that of the output."""
        dtype, grad = grad.dtype, self._to_channels_last(grad).astype(np.float64)
        shape = self._to_channels_last(np.empty(tuple(int(s) for s in sizes))).shape
        self._geometry(shape, kernel.shape)
        w, groups = self._grouped(kernel.astype(np.float64), shape[-1])
        grad = _split(grad, groups)
        whole = np.zeros(
            [shape[0], *(s + b + a for s, (b, a) in zip(shape[1:-1], self.pads, strict=True)), groups, w.shape[-3]]
        )
        for at, window in self._windows(kernel.shape):
            whole[(slice(None), *window)] += np.einsum("n...go,igo->n...gi", grad, w[at])
        crop = tuple(slice(b, b + s) for s, (b, _) in zip(shape[1:-1], self.pads, strict=True))
        return self._to_layout(whole[(slice(None), *crop)].reshape(shape)).astype(dtype)

    def filter_gradient(self, x: Array, sizes: Any, grad: Array) -> Array:
        """The gradient of the filter, given that of the output."""
        dtype, x, grad = (
            x.dtype,
            self._to_channels_last(x).astype(np.float64),
            self._to_channels_last(grad).astype(np.float64),
        )
        kernel = tuple(int(s) for s in sizes)
        self._geometry(x.shape, kernel)
        out, groups = self._grouped(np.zeros(kernel), x.shape[-1])
        x = self._padded(x)
        x = _split(x, groups)
        grad = _split(grad, groups)
        places = int(np.prod([x.shape[0], *self.out]))
        for at, window in self._windows(kernel):
            met = x[(slice(None), *window)]
            out[at] = np.einsum(
                "pgi,pgo->igo", met.reshape(places, *met.shape[-2:]), grad.reshape(places, *grad.shape[-2:])
            )
        return out.reshape(kernel).astype(dtype)
