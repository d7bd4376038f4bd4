"""Calls of op cases with a few changes: most get past the first checks of a kernel, which random ones seldom do."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import Any

import numpy as np

import tests.op_cases
import thalweg as tf
from tests.fuzz.random_calls import RandomCall, Skip, plain_types, random_attr
from tests.op_cases import CASES
from tests.ops.test_op_cases import build, draw
from thalweg.graph.definitions.op_registry import OpDef
from thalweg.graph.dtypes import DType, as_dtype

_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, 1e-40, 1e-45, 1e38, -1e38, 65504.0, 1e10, np.inf, -np.inf, np.nan]
_SMALL = [0, 1, 2, 3, -1, -2, -3, 5, 7, 31, 32, 63, 64]
_STRINGS = [b"", b"a", b"\x00", b"a\x00b", b"\xff\xfe", "é".encode(), b"1", b" -2.5e3 ", b"x" * 70, b"1e999"]


@functools.cache
def _cases() -> dict[str, list[Any]]:
    for module in pkgutil.iter_modules(tests.op_cases.__path__):
        importlib.import_module(f"tests.op_cases.{module.name}")
    found: dict[str, list[Any]] = {}
    for case in CASES:
        if case.samples and case.dtypes:
            found.setdefault(case.op, []).append(case)
    return found


class RecordedCall(RandomCall):
    """A call of one op as in a sample of its cases, changed in one to three places."""

    def __init__(self, op: OpDef, seed: int) -> None:
        """Draws everything from the seed."""
        rng = np.random.default_rng(seed)
        self.op = op
        self.seed = seed
        cases = _cases().get(op.name)
        if not cases:
            raise Skip
        case = cases[rng.integers(len(cases))]
        self._take(case, case.dtypes[rng.integers(len(case.dtypes))], case.samples[rng.integers(len(case.samples))])
        self.known_shapes = bool(rng.random() < 0.3)
        for _ in range(int(rng.choice([1, 1, 2, 3]))):
            change = rng.choice(["value", "value", "shape", "shapes", "attribute", "type"])
            getattr(self, f"_change_{change}")(rng)

    def _take(self, case: Any, dtype: DType, sample: Any) -> None:
        """The inputs and attributes of the case's node."""
        with tf.Graph().as_default() as graph, tf.Session() as session:
            try:
                _, feeds = build(case, draw(sample, dtype, case.name), sample.kwargs, True)
                node = next(op for op in graph.get_operations() if op.type == case.op)
                if any(tensor.dtype.base_dtype not in plain_types() for tensor in node.inputs):
                    raise Skip
                values = session.run(list(node.inputs), feeds) if node.inputs else []
            except (tf.errors.OpError, ValueError, TypeError, StopIteration):
                raise Skip from None
            arrays = [np.array(v, object) if isinstance(v, bytes) else np.asarray(v) for v in values]
            inferred = {a for arg in self.op.inputs for a in (arg.type_attr, arg.number_attr, arg.type_list_attr)}
            self.attrs = {name: node.get_attr(name) for name in self.op.attrs if name not in inferred}
            self.inputs = []
            for arg in self.op.inputs:
                if arg.number_attr is None and arg.type_list_attr is None:
                    self.inputs.append(arrays.pop(0))
                    continue
                several = node.get_attr(arg.number_attr or arg.type_list_attr)
                count = several if arg.number_attr else len(several)
                self.inputs.append([arrays.pop(0) for _ in range(count)])

    def _places(self) -> list[tuple[Any, int]]:
        """Where each array is: a list and an index."""
        found: list[tuple[Any, int]] = []
        for i, value in enumerate(self.inputs):
            found += [(value, k) for k in range(len(value))] if isinstance(value, list) else [(self.inputs, i)]
        return found

    def _change_value(self, rng: np.random.Generator) -> None:
        places = self._places()
        if not places:
            return
        holder, i = places[rng.integers(len(places))]
        holder[i] = array = np.array(holder[i])
        flat = array.reshape(-1)
        for at in rng.integers(0, max(flat.size, 1), min(flat.size, int(rng.integers(1, 4)))):
            flat[at] = _edge(rng, array.dtype)

    def _change_shape(self, rng: np.random.Generator) -> None:
        places = self._places()
        if places:
            holder, i = places[rng.integers(len(places))]
            holder[i] = _other_shape(int(rng.integers(9)), np.asarray(holder[i]))

    def _change_shapes(self, rng: np.random.Generator) -> None:
        how = int(rng.integers(9))
        for holder, i in self._places():
            holder[i] = _other_shape(how, np.asarray(holder[i]))

    def _change_attribute(self, rng: np.random.Generator) -> None:
        names = sorted(name for name in self.attrs if self.op.attrs[name].kind not in ("func", "tensor"))
        if names:
            name = names[rng.integers(len(names))]
            try:
                self.attrs[name] = random_attr(rng, self.op.attrs[name])
            except Skip:
                pass  # A kind that is not drawn: it stays as it is.

    def _change_type(self, rng: np.random.Generator) -> None:
        names = sorted({arg.type_attr for arg in self.op.inputs if arg.type_attr})
        if not names:
            return
        name = names[rng.integers(len(names))]
        numbers = [d for d in self.op.attrs[name].allowed or plain_types() if d in plain_types() and _is_number(d)]
        if not numbers:
            return
        kind = numbers[rng.integers(len(numbers))].as_numpy_dtype
        with np.errstate(all="ignore"):
            for i, arg in enumerate(self.op.inputs):
                several = self.inputs[i] if isinstance(self.inputs[i], list) else [self.inputs[i]]
                if arg.type_attr == name and all(_is_number(as_dtype(x.dtype)) for x in several):
                    changed = [(x.real if x.dtype.kind == "c" else x).astype(kind) for x in several]
                    self.inputs[i] = changed if isinstance(self.inputs[i], list) else changed[0]


def _is_number(dtype: DType) -> bool:
    return not (dtype.is_quantized or dtype.name == "string")


def _edge(rng: np.random.Generator, kind: np.dtype[Any]) -> Any:
    """A value near the ends of a type, or one that is often special."""
    if kind.kind == "O":
        return _STRINGS[rng.integers(len(_STRINGS))]
    if kind.fields is not None or kind.kind == "b":
        return np.zeros((), kind)[()]
    if kind.kind in "iu":
        info = np.iinfo(kind)
        choices = [x for x in (*_SMALL, info.min, info.min + 1, info.max - 1, info.max) if info.min <= x <= info.max]
        return choices[rng.integers(len(choices))]
    with np.errstate(all="ignore"):
        return np.asarray(_FLOATS[rng.integers(len(_FLOATS))]).astype(kind)


def _other_shape(how: int, x: np.ndarray) -> np.ndarray:
    """The elements of x in another shape: more or fewer dimensions, one entry more or less, none, one, turned."""
    changes: dict[int, Any] = {
        0: lambda: x[np.newaxis], 1: lambda: x[..., np.newaxis], 2: lambda: x[:1], 3: lambda: x[:0],
        4: lambda: np.concatenate([x, x[:1]]), 5: lambda: x.reshape(-1), 6: lambda: x[..., :1],
        7: lambda: x.reshape(-1)[:1].reshape(()) if x.size else x, 8: lambda: np.ascontiguousarray(x.T),
    }  # fmt: skip
    return changes[how]() if x.ndim or how in (0, 1, 5, 7, 8) else x
