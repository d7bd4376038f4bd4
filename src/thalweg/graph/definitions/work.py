"""How much work an op does: arithmetic and memory traffic, from the shapes of its inputs and outputs.

A family file states it beside its ops, as it states shapes and gradients:

    work(works.contraction(0), "MatMul")

Ops without a rule count as one pass over all inputs and outputs. These are estimates for placement
(placement/costs.py); measurements replace them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

Shape = tuple[int, ...]


class Work(NamedTuple):
    """The work of one run of a node: floating-point operations, and bytes read and written."""

    flops: float
    bytes: float


class WorkContext(NamedTuple):
    """A node as the rules see it; unknown dimensions have been guessed."""

    attrs: Mapping[str, Any]
    inputs: Sequence[Shape]
    outputs: Sequence[Shape]
    input_bytes: Sequence[int]
    output_bytes: Sequence[int]

    def traffic(self) -> float:
        """The bytes of all inputs and outputs."""
        return float(sum(self.input_bytes) + sum(self.output_bytes))


WorkFunction = Callable[[WorkContext], Work]

_LIGHT: set[WorkFunction] = set()


def one_pass(c: WorkContext) -> Work:
    """One operation for each element of the largest input or output: what element-wise ops and reductions do."""
    return Work(_most_elements(c), c.traffic())


def passes(operations: float) -> WorkFunction:
    """A number of operations for each element: transcendental functions, normalizations, random numbers."""

    def rule(c: WorkContext) -> Work:
        return Work(operations * _most_elements(c), c.traffic())

    _LIGHT.add(rule)
    return rule


def is_light(rule: WorkFunction | None) -> bool:
    """Whether an op only passes over its elements, so that it may as well run on the device of its input."""
    return rule is None or rule in _LIGHT


def free(c: WorkContext) -> Work:
    """No work: the value is forwarded, or exists already."""
    return Work(0.0, 0.0)


_LIGHT.update((one_pass, free))


def picking(c: WorkContext) -> Work:
    """Reads only the returned elements of its first input: gathers and slices."""
    return Work(0.0, float(sum(c.input_bytes[1:]) + 2 * sum(c.output_bytes)))


def contraction(attr: str) -> WorkFunction:
    """A matrix product, perhaps of batches; `attr` says whether the first matrix is transposed."""

    def rule(c: WorkContext) -> Work:
        a = c.inputs[0]
        depth = 1 if len(a) < 2 else a[-2] if c.attrs.get(attr) else a[-1]
        return Work(2.0 * math.prod(c.outputs[0]) * depth, c.traffic())

    return rule


def convolution(images: Callable[[WorkContext], Shape], filters: Callable[[WorkContext], Shape]) -> WorkFunction:
    """A convolution or one of its gradients: each pixel of the result's images meets the whole filter.

    Args:
        images: The shape of the images that the forward convolution returns.
        filters: The shape of its filter; the last dimension are output channels.
    """

    def rule(c: WorkContext) -> Work:
        filter_shape = filters(c)
        per_pixel = math.prod(filter_shape[:-1]) if filter_shape else 1
        return Work(2.0 * math.prod(images(c)) * per_pixel, c.traffic())

    return rule


def depthwise(images: Callable[[WorkContext], Shape], filters: Callable[[WorkContext], Shape]) -> WorkFunction:
    """A depthwise convolution or one of its gradients: each pixel meets the filter of its own channel."""

    def rule(c: WorkContext) -> Work:
        return Work(2.0 * math.prod(images(c)) * math.prod(filters(c)[:-2]), c.traffic())

    return rule


def input_shape(index: int) -> Callable[[WorkContext], Shape]:
    """The shape of an input, for `convolution`."""
    return lambda c: c.inputs[index]


def output_shape(index: int = 0) -> Callable[[WorkContext], Shape]:
    """The shape of an output, for `convolution`."""
    return lambda c: c.outputs[index]


def pooling(c: WorkContext) -> Work:
    """Each element of the smaller side meets a window of attribute `ksize`."""
    window = math.prod(max(1, int(size)) for size in c.attrs.get("ksize", (1, 2, 2, 1)))
    smaller = min(math.prod(shape) for shape in (*c.inputs, *c.outputs) if len(shape) > 2 or shape == c.outputs[0])
    return Work(float(window * smaller), c.traffic())


def cubic(c: WorkContext) -> Work:
    """Decompositions and solutions of systems: the cube of the side of a matrix, for each of them."""
    shape = c.inputs[0]
    side = max(shape[-2:], default=1)
    return Work(10.0 * math.prod(shape) * side, c.traffic())


def sorting(c: WorkContext) -> Work:
    """N log n comparisons along the last dimension; transforms of signals are alike."""
    elements = _most_elements(c)
    length = max((shape[-1] for shape in c.inputs if shape), default=1)
    return Work(5.0 * elements * math.log2(max(2, length)), c.traffic())


def _most_elements(c: WorkContext) -> float:
    return float(max((math.prod(shape) for shape in (*c.inputs, *c.outputs)), default=1))
