"""resolve(): types, attributes and errors of one use of an op, for an engine that has values and no graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg import errors
from thalweg.graph import resolve as resolve_module
from thalweg.graph.constant_values import as_array
from thalweg.graph.definitions import op_registry
from thalweg.graph.definitions.op_registry import define
from thalweg.graph.definitions.prepared_op import prepare
from thalweg.graph.definitions.shape_functions import unknown
from thalweg.graph.dtypes import DType
from thalweg.graph.graph import Graph
from thalweg.graph.resolve import Resolved, resolve


class Value:
    """The tensor of an engine that computes at once: an array and its type."""

    def __init__(self, array: Any, dtype: DType) -> None:
        self.array = array
        self.dtype = dtype


def to_value(value: Any, dtype: DType | None, name: str, preferred_dtype: DType | None, as_ref: bool) -> Value:
    """The engine's conversion."""
    if isinstance(value, Value):
        if dtype is not None and value.dtype is not dtype:
            raise TypeError(f"{name} is {value.dtype.name}, not {dtype.name}")
        return value
    if dtype is None and preferred_dtype is not None:
        try:
            return Value(*as_array(value, preferred_dtype))
        except (TypeError, ValueError):
            pass
    return Value(*as_array(value, dtype))


def run(op_type: str, *inputs: Any, **attrs: Any) -> Resolved[Value]:
    return resolve(op_type, inputs, attrs, to_value, Value)


@pytest.fixture(autouse=True)
def no_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every construction of a graph fail."""

    def refuse(self: Graph) -> None:
        raise AssertionError("resolve() made a graph.")

    monkeypatch.setattr(Graph, "__init__", refuse)


@pytest.fixture(autouse=True, scope="module")
def op_with_lists() -> Iterator[None]:
    define("TestResolved", "values: N * T, rest: L, flag: bool -> out: N * T, more: L, last: float",
           "T: {float, int32}, N: int >= 2, L: list(type) >= 1, mode: {'A', 'B'} = 'A', k: int >= 1 = 1",
           shape=unknown)  # fmt: skip
    yield
    del op_registry._OPS["TestResolved"]


def test_values_become_tensors_of_the_engine_and_attributes_are_complete() -> None:
    definition, inputs, attrs, types = run("MatMul", np.ones((2, 3)), [[1.0], [2.0], [3.0]], transpose_b=None)
    assert definition.name == "MatMul"
    assert [type(value) for value in inputs] == [Value, Value]
    assert [value.dtype for value in inputs] == [tf.float64, tf.float64]
    np.testing.assert_array_equal(inputs[0].array @ inputs[1].array, [[6.0], [6.0]])
    assert {key: attrs[key] for key in ("T", "transpose_a", "transpose_b")} == {
        "T": tf.float64, "transpose_a": False, "transpose_b": False,
    }  # fmt: skip
    assert set(attrs) == set(definition.attrs)
    assert list(types) == [tf.float64]


def test_tensors_of_matching_type_are_passed_on_unconverted() -> None:
    x, y = Value(np.ones(2, np.float32), tf.float32), Value(np.ones(2, np.float32), tf.float32)

    def never(*args: Any) -> Value:
        raise AssertionError(f"converted {args}")

    resolved = resolve("AddV2", (x, y), {}, never, Value)
    assert resolved.inputs == (x, y)
    assert resolved.attrs == {"T": tf.float32}
    assert list(resolved.output_dtypes) == [tf.float32]
    assert list(resolve("Less", (x, y), {}, never, Value).output_dtypes) == [tf.bool]


def test_python_values_follow_the_tensors_beside_them_in_any_place() -> None:
    x = Value(np.ones(2, np.int64), tf.int64)
    for inputs in ((x, 1), (1, x)):
        resolved = run("AddV2", *inputs)
        assert [value.dtype for value in resolved.inputs] == [tf.int64, tf.int64]
    packed = run("Pack", [1, x, 2], axis=0)
    assert (packed.attrs["T"], packed.attrs["N"]) == (tf.int64, 3)


def test_types_that_an_attribute_gives_decide_the_conversion() -> None:
    resolved = run("Cast", 1.5, DstT=tf.int32)
    assert (resolved.attrs["SrcT"], resolved.attrs["DstT"]) == (tf.float32, tf.int32)
    assert list(resolved.output_dtypes) == [tf.int32]
    assert run("AddV2", 1, 2, T=tf.float64).inputs[1].dtype is tf.float64


def test_lists_infer_lengths_and_types_and_flatten() -> None:
    definition, inputs, attrs, types = run("TestResolved", [1.0, 2, 3.0], ["a", 3], True, mode="B")
    assert (attrs["N"], attrs["T"], attrs["L"], attrs["mode"], attrs["k"]) == (
        3, tf.float32, [tf.string, tf.int32], b"B", 1,
    )  # fmt: skip
    assert len(inputs) == 6
    assert list(types) == [tf.float32] * 3 + [tf.string, tf.int32, tf.float32]
    result = prepare(definition.name, ([], [], True)).results(list("abcdef"), attrs)
    assert (result.out, result.more, result.last) == (["a", "b", "c"], ["d", "e"], "f")


def test_attributes_of_two_uses_are_independent() -> None:
    first, second = run("MatMul", [[1.0]], [[1.0]]), run("MatMul", [[1.0]], [[1.0]])
    first.attrs["transpose_a"] = True
    assert second.attrs["transpose_a"] is False


@pytest.mark.parametrize(
    ("op_type", "inputs", "attrs", "error", "match"),
    [
        ("NoSuchOp", (), {}, errors.NotFoundError, "NoSuchOp"),
        ("MatMul", ([[1.0]],), {}, TypeError, r"'MatMul' Op takes 2 inputs \(a, b\), got 1"),
        ("MatMul", ([[1.0]], [["a"]]), {}, TypeError, "'b' of 'MatMul' Op has type string that does not match type"),
        ("MatMul", ([["a"]], [["a"]]), {}, TypeError, "'a' has DataType string not in list of allowed values"),
        ("MatMul", ([[1.0]], None), {}, ValueError, "None values not supported"),
        ("MatMul", ([[1.0]], [[1.0]]), {"transpose": True}, TypeError, "unexpected attribute 'transpose'"),
        ("MatMul", ([[1.0]], [[1.0]]), {"transpose_a": 1}, TypeError, "Expected bool for argument 'transpose_a'"),
        ("Cast", (1.0,), {}, TypeError, "needs the attribute 'DstT'"),
        ("TestResolved", ([1.0, "a"], ["a"], True), {}, TypeError, r"have types \[float32, string\]"),
        ("TestResolved", ([1.0], ["a"], True), {}, ValueError, "length 1 shorter than minimum length 2"),
        ("TestResolved", ([1.0, 2.0], [], True), {}, ValueError, "passed list of length 0"),
        ("TestResolved", ([1.0, 2.0], ["a"], 1.0), {}, TypeError, "'flag' .* has type float32 .* type of bool"),
    ],
)  # fmt: skip
def test_errors_name_the_op_the_argument_and_both_sides(
    op_type: str, inputs: tuple[Any, ...], attrs: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        resolve(op_type, inputs, attrs, to_value, Value)


def test_tensors_of_types_that_do_not_match_are_refused_without_conversion() -> None:
    x, i = Value(np.ones(2, np.float32), tf.float32), Value(np.ones(2, np.int32), tf.int32)
    with pytest.raises(TypeError, match="'y' of 'AddV2' Op has type int32 that does not match type float32"):
        run("AddV2", x, i)
    with pytest.raises(TypeError, match="'x' has DataType int32 not in list of allowed values"):
        run("Tanh", i)


def test_resolving_imports_nothing_that_builds_graphs() -> None:
    folder = Path(resolve_module.__file__).parent
    for file in ("resolve.py", "convert_inputs.py", "definitions/prepared_op.py", "definitions/attr_conversion.py"):
        imported = {
            node.module for node in ast.walk(ast.parse((folder / file).read_text())) if isinstance(node, ast.ImportFrom)
        }
        parts = ("graph", "default_graph", "scopes", "operation", "tensor", "conversion", "apply")
        assert imported.isdisjoint({f"thalweg.graph.{part}" for part in parts}), file
