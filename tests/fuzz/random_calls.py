"""Random calls of any registered op: element types, shapes, attributes and values, plausible and absurd."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import thalweg as tf
from tests.fuzz.hostile_graphs import mutated
from thalweg.graph import dtypes
from thalweg.graph.apply import apply
from thalweg.graph.definitions.op_registry import OpDef
from thalweg.graph.definitions.op_signature import ArgDef, AttrDef
from thalweg.graph.dtypes import DType

_PLAIN = [
    dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16, dtypes.int8, dtypes.int16, dtypes.int32,
    dtypes.int64, dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64, dtypes.bool, dtypes.string,
    dtypes.complex64, dtypes.complex128, dtypes.qint8, dtypes.quint8, dtypes.qint16, dtypes.quint16, dtypes.qint32,
]  # fmt: skip
_DIMS = [0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 16, 33]
_INTS = [-(2**31), -100, -2, -1, 0, 0, 1, 1, 2, 2, 3, 4, 5, 8, 100, 2**31 - 1]
_WIDE = [*_INTS, -(2**63), 2**63 - 1, 2**32]
_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.25, 1e-30, 1e30, np.inf, -np.inf, np.nan]
_STRINGS = [b"", b"a", b"1", b"-2.5", b"a,b,,c", b"\x00\xff", "é".encode(), b"x" * 100, b"[", b"(a", b"%d{}\\1"]
# What programs pass by mistake: made anew for each call, since some can be read only once.
_ODD: list[Callable[[], Any]] = [
    lambda: None, lambda: True, lambda: -1, lambda: 2**63, lambda: -(2**200), lambda: 0.5, lambda: float("nan"),
    lambda: 1j, lambda: "text", lambda: b"\x00\xff", lambda: "\ud800", lambda: "", list, lambda: (), dict,
    lambda: {"a": 1}, lambda: {1, 2}, lambda: [[1, 2], [3]], lambda: [None], lambda: ["a", 1], lambda: [1, 2.5, True],
    lambda: [[[]]], object, lambda: int, lambda: iter([1, 2]), lambda: len, lambda: np.array(None),
    lambda: np.array([object()]), lambda: np.zeros(2, "datetime64[s]"), lambda: np.zeros(2, "S3"),
    lambda: np.zeros(2, [("a", int)]), lambda: np.zeros((2, 0, 3)), lambda: np.longdouble(1.5), lambda: np.float16(3),
    lambda: np.ones([1] * 32), lambda: tf.float32, lambda: tf.int64, lambda: tf.TensorShape(None),
    lambda: tf.TensorShape([None, 2]), lambda: [tf.float32, tf.string], lambda: tf.no_op(),
    lambda: tf.SparseTensor([[0, 0]], [1.0], [2, 2]), lambda: tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0])),
    lambda: tf.raw_ops.MutableHashTableV2(key_dtype=tf.string, value_dtype=tf.int64),
    lambda: tf.raw_ops.FIFOQueueV2(component_types=[tf.float32]),
    lambda: tf.raw_ops.VarHandleOp(dtype=tf.int8, shape=[2]),
    lambda: tf.raw_ops.TensorListReserve(element_shape=[], num_elements=1, element_dtype=tf.int32),
    lambda: tf.Variable(1.0, use_resource=False), lambda: tf.Graph(), lambda: "NHWC", lambda: memoryview(b"ab"),
    lambda: range(3), lambda: Exception("a"), lambda: slice(1, 2), lambda: np.ma.masked, lambda: 10**400,
]  # fmt: skip


class Skip(Exception):
    """This op cannot be called at random."""


def plain_types() -> list[DType]:
    """The element types that are drawn."""
    return _PLAIN


def random_shape(rng: np.random.Generator) -> tuple[int, ...]:
    rank = int(rng.choice([0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 8]))
    return tuple(int(d) for d in rng.choice(_DIMS if rank < 4 else _DIMS[:6], rank))


def random_array(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    if dtype == dtypes.string:
        array = np.empty(shape, object)
        flat = array.reshape(-1)
        for i in range(flat.size):
            flat[i] = _STRINGS[rng.integers(len(_STRINGS))]
        return flat.reshape(shape)
    if dtype.is_bool:
        return rng.random(shape) < 0.5
    kind = np.dtype(dtype.as_numpy_dtype)
    if dtype.is_quantized:
        return np.zeros(shape, kind)
    if dtype.is_integer:
        info = np.iinfo(kind)
        choices = [x for x in (_WIDE if rng.random() < 0.2 else _INTS) if info.min <= x <= info.max]
        small = rng.integers(0, 4, shape)
        return np.where(rng.random(shape) < 0.7, small, rng.choice(np.array(choices, kind), shape)).astype(kind)
    values = np.where(rng.random(shape) < 0.8, rng.normal(size=shape), rng.choice(_FLOATS, shape))
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(kind)


def random_attr(rng: np.random.Generator, attr: AttrDef) -> Any:
    """A value for an attribute, or None to leave it at its default."""
    if attr.has_default and rng.random() < 0.5:
        return None
    if attr.kind.startswith("list("):
        element = attr._replace(kind=attr.kind[5:-1], minimum=None, has_default=False)
        return [random_attr(rng, element) for _ in range(int(rng.integers(0, 5)))]
    match attr.kind:
        case "type":
            allowed = [d for d in (attr.allowed or _PLAIN) if d in _PLAIN]
            if not allowed:
                raise Skip
            return allowed[rng.integers(len(allowed))]
        case "bool":
            return bool(rng.random() < 0.5)
        case "int":
            return int(rng.choice(_INTS))
        case "float":
            return float(rng.choice(_FLOATS))
        case "string":
            return (attr.allowed or _STRINGS)[rng.integers(len(attr.allowed or _STRINGS))]
        case "shape":
            return None if rng.random() < 0.2 else tf.TensorShape(random_shape(rng))
        case "tensor":
            return random_array(rng, dtypes.float32, random_shape(rng))
    raise Skip


class RandomCall:
    """One op with random arguments; `build` adds it to the default graph."""

    def __init__(self, op: OpDef, seed: int) -> None:
        """Draws everything from the seed."""
        rng = np.random.default_rng(seed)
        self.op = op
        self.seed = seed
        self.attrs: dict[str, Any] = {}
        inferred = {a for arg in op.inputs for a in (arg.type_attr, arg.number_attr, arg.type_list_attr) if a}
        types: dict[str, Any] = {
            name: random_attr(rng, op.attrs[name]._replace(has_default=False))
            for name in sorted(inferred)  # The order of a set differs between processes.
        }
        for name, attr in op.attrs.items():
            if name not in inferred:
                self.attrs[name] = random_attr(rng, attr)
        shape = random_shape(rng)
        self.inputs = [self._input(rng, arg, types, shape) for arg in op.inputs]
        self.known_shapes = bool(rng.random() < 0.3)

    @staticmethod
    def _input(rng: np.random.Generator, arg: ArgDef, types: dict[str, Any], shape: tuple[int, ...]) -> Any:
        def one(dtype: DType) -> np.ndarray:
            if dtype not in _PLAIN:
                raise Skip
            # Half of the time the shapes agree, so that calls get past the first check.
            return random_array(rng, dtype, shape if rng.random() < 0.5 else random_shape(rng))

        if arg.is_ref:
            raise Skip
        if arg.type_list_attr is not None:
            return [one(dtype) for dtype in types[arg.type_list_attr]]
        dtype = arg.dtype if arg.dtype is not None else types[arg.type_attr or ""]
        if arg.number_attr is not None:
            return [one(dtype) for _ in range(min(abs(types[arg.number_attr]), 4))]
        return one(dtype)

    def build(self) -> tuple[list[Any], dict[Any, Any]]:
        """Returns the outputs (or the operation) and the feeds."""
        feeds: dict[Any, Any] = {}

        def placeholder(array: np.ndarray) -> Any:
            tensor = tf.placeholder(tf.as_dtype(array.dtype), array.shape if self.known_shapes else None)
            feeds[tensor] = array
            return tensor

        tensors = [[placeholder(a) for a in x] if isinstance(x, list) else placeholder(x) for x in self.inputs]
        return tf.nest.flatten(apply(self.op.name, *tensors, **self.attrs)), feeds

    def constants(self) -> tuple[list[Any], dict[Any, Any]]:
        """The same with constants, whose values shape functions and the folding of constants see."""
        return self.call_by_name(), {}

    def odd_values(self) -> tuple[list[Any], dict[Any, Any]]:
        """The same with values of Python in the places of one or two arguments that fit none of them."""
        return self.call_by_name(odd=True), {}

    def imported(self) -> tuple[list[Any], dict[Any, Any]]:
        """The call's graph, changed as another program could write it, and imported again."""
        with tf.Graph().as_default() as graph:
            outputs, feeds = self.build()
        rng = random.Random(self.seed)
        tf.import_graph_def(mutated(graph.as_graph_def(), rng), name="")
        # A node may have lost its outputs, or got others.
        imported = tf.get_default_graph().get_operation_by_name
        fetches = [imported(output.name.split(":")[0]) for output in outputs]
        fed = {imported(tensor.op.name): array for tensor, array in feeds.items()}
        return fetches, {node.outputs[0]: array for node, array in fed.items() if node.outputs}

    def call_by_name(self, odd: bool = False) -> list[Any]:
        """Calls the op in `tf.raw_ops`, in whatever mode the program is."""
        arguments = {arg.name: value for arg, value in zip(self.op.inputs, self.inputs, strict=True)} | self.attrs
        if odd and arguments:
            rng = random.Random(self.seed)
            for name in rng.choices(sorted(arguments), k=rng.randint(1, 2)):
                arguments[name] = rng.choice(_ODD)()
        return tf.nest.flatten(getattr(tf.raw_ops, self.op.name)(**arguments))

    def __repr__(self) -> str:
        def short(x: Any) -> str:
            if isinstance(x, list):
                return f"[{', '.join(map(short, x))}]"
            return f"{x.dtype}{list(x.shape)}" if x.size > 12 else f"{x.dtype}{list(x.shape)}{x.tolist()!r:.160}"

        return f"{self.op.name}({', '.join(map(short, self.inputs))}, {self.attrs})"
