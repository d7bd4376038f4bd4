"""Random numbers of a key and a counter: what TensorFlow 2 makes of `tf.random.stateless_*`, for its models."""

from __future__ import annotations

from typing import Final

from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.tensor_shape import TensorShape

_FLOATS: Final = "{float16, bfloat16, float32, float64} = float32"
_INTEGERS: Final = "{int32, int64, uint32, uint64}"
_KEYED: Final = "shape: Tshape, key: uint64, counter: uint64, alg: int32"
_SHAPE: Final = "Tshape: {int32, int64} = int32"


def _keyed_shape(c: ShapeContext) -> TensorShape:
    for index, rank in ((0, 1), (1, 1), (2, 1), (3, 0)):
        shapes.with_rank(c.input(index), rank)
    return c.constant_as_shape(0)


def _seeded_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank(c.input(0), 1)
    shapes.merge(shapes.with_rank(c.input(1), 1), TensorShape([2]))
    return c.constant_as_shape(0)


def _key_shape(c: ShapeContext) -> list[TensorShape]:
    shapes.merge(shapes.with_rank(c.input(0), 1), TensorShape([2]))
    return [TensorShape([1]), TensorShape([2])]


for _op in ("StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessTruncatedNormalV2"):
    define(_op, f"{_KEYED} -> output: dtype", f"dtype: {_FLOATS}, {_SHAPE}", shape=_keyed_shape)
define(
    "StatelessRandomUniformIntV2",
    f"{_KEYED}, minval: dtype, maxval: dtype -> output: dtype",
    f"dtype: {_INTEGERS}, {_SHAPE}",
    shape=_keyed_shape,
)
define(
    "StatelessRandomUniformFullIntV2",
    f"{_KEYED} -> output: dtype",
    f"dtype: {_INTEGERS} = uint64, {_SHAPE}",
    shape=_keyed_shape,
)
define(
    "StatelessRandomUniformFullInt",
    "shape: T, seed: Tseed -> output: dtype",
    f"dtype: {_INTEGERS} = uint64, T: {{int32, int64}} = int32, Tseed: {{int32, int64}} = int64",
    shape=_seeded_shape,
)
_SEED: Final = "Tseed: {int32, int64} = int64"
define("StatelessRandomGetKeyCounter", "seed: Tseed -> key: uint64, counter: uint64", _SEED, shape=_key_shape)
define(
    "StatelessRandomGetKeyCounterAlg",
    "seed: Tseed -> key: uint64, counter: uint64, alg: int32",
    _SEED,
    shape=lambda c: [*_key_shape(c), TensorShape([])],
)
define("StatelessRandomGetAlg", "-> alg: int32", shape=shapes.scalar)
not_differentiable(
    "StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessTruncatedNormalV2", "StatelessRandomUniformIntV2",
    "StatelessRandomUniformFullIntV2", "StatelessRandomUniformFullInt", "StatelessRandomGetKeyCounter",
    "StatelessRandomGetKeyCounterAlg", "StatelessRandomGetAlg",
)  # fmt: skip
