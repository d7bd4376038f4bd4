"""apply(): conversion of inputs, inferred attributes, names, results, and errors that say what is wrong."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.graph.apply import apply, apply_list, apply_one, apply_op
from thalweg.graph.definitions import op_registry
from thalweg.graph.definitions.op_registry import define
from thalweg.graph.definitions.shape_functions import unknown


@pytest.fixture(autouse=True, scope="module")
def ops_for_tests() -> Iterator[None]:
    """Ops with lists and restricted attributes, in the registry only while this file runs."""
    define("TestMixed", "values: N * T, rest: L, flag: bool -> out: N * T, more: L, last: float",
           "T: {float, int32}, N: int >= 2, L: list(type) >= 1, mode: {'A', 'B'} = 'A', k: int >= 1 = 1",
           shape=unknown)  # fmt: skip
    define("TestIndex", "x: T, i: Tidx -> y: T", "T: type, Tidx: {int32, int64} = int32", shape=unknown)
    yield
    del op_registry._OPS["TestMixed"], op_registry._OPS["TestIndex"]


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def test_python_values_follow_the_type_of_the_tensors() -> None:
    x = tf.placeholder(tf.float64, [2])
    for y in (x + 1, 1 + x, x * np.float64(2), tf.add(1, x)):
        assert y.dtype is tf.float64
        assert all(tensor.dtype is tf.float64 for tensor in y.op.inputs)


def test_nodes_and_converted_constants_are_named_as_in_tensorflow() -> None:
    x = tf.placeholder(tf.float32)
    names = [y.op.name for y in (x + 1.0, tf.add(x, x), x - x, 2.0 * x, -x, tf.tanh(x), tf.tanh(x))]
    assert names == ["add", "Add_1", "sub", "mul", "Neg", "Tanh", "Tanh_1"]
    operations = [op.name for op in x.graph.get_operations()]
    assert "add/y" in operations and "mul/x" in operations
    assert tf.add(x, 1.0, name="foo").op.inputs[1].op.name == "foo/y"
    with tf.name_scope("s"):
        assert (x + 1.0).op.inputs[1].op.name == "s/add/y"


def test_a_default_type_is_preferred_but_a_tensor_decides() -> None:
    x = tf.placeholder(tf.float32)
    assert apply("TestIndex", x, 3).op.get_attr("Tidx") is tf.int32
    assert apply("TestIndex", x, tf.placeholder(tf.int64)).op.get_attr("Tidx") is tf.int64
    assert apply("TestIndex", x, np.int64(3)).op.get_attr("Tidx") is tf.int32
    assert apply("TestIndex", x, 3, Tidx=tf.int64).op.inputs[1].dtype is tf.int64
    with pytest.raises(TypeError, match=r"'i' has DataType float32 not in list of allowed values: int32, int64"):
        apply("TestIndex", x, 1.5)


def test_lists_infer_their_length_and_types() -> None:
    result = apply("TestMixed", [1.0, tf.placeholder(tf.float32), 2], ["a", 3], True)
    op = result.last.op
    assert (op.get_attr("N"), op.get_attr("T"), op.get_attr("L")) == (3, tf.float32, [tf.string, tf.int32])
    assert (op.get_attr("mode"), op.get_attr("k")) == (b"A", 1)
    assert [len(result.out), len(result.more)] == [3, 2]
    assert [tensor.dtype for tensor in result.more] == [tf.string, tf.int32]
    assert result._fields == ("out", "more", "last")


@pytest.mark.parametrize(
    ("args", "attrs", "error", "match"),
    [
        (([1.0], ["a"], True), {}, ValueError, "'values' to 'TestMixed' Op with length 1 shorter than minimum"),
        ((3.0, ["a"], True), {}, TypeError, "Expected list for 'values' argument to 'TestMixed' Op"),
        (([1.0, "a"], ["a"], True), {}, TypeError, r"'values' of 'TestMixed' Op have types \[float32, string\]"),
        (([1.0, 2.0], [], True), {}, ValueError, "Attr 'L' of 'TestMixed' Op passed list of length 0"),
        (([1.0, 2.0], ["a"], 1.0), {}, TypeError, "'flag' of 'TestMixed' Op has type float32 .* type of bool"),
        ((["a", "b"], ["a"], True), {}, TypeError, "DataType string not in list of allowed values: float32, int32"),
        (([1.0, 2.0], ["a"], True), {"mode": "C"}, ValueError, "'TestMixed' Op passed string 'C' not in: \"A\""),
        (([1.0, 2.0], ["a"], True), {"k": 0}, ValueError, "Attr 'k' of 'TestMixed' Op passed 0 less than minimum 1"),
        (([1.0, 2.0], ["a"], True), {"k": "x"}, TypeError, "Expected int for argument 'k'"),
        (([1.0, 2.0], ["a"], True), {"zz": 1}, TypeError, "unexpected attribute 'zz'"),
        (([1.0, 2.0], ["a"]), {}, TypeError, r"takes 3 inputs \(values, rest, flag\), got 2"),
        (([1.0, None], ["a"], True), {}, ValueError, "None"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(args: Any, attrs: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        apply("TestMixed", *args, **attrs)


def test_type_mismatch_names_both_sides() -> None:
    x, i = tf.placeholder(tf.float32), tf.placeholder(tf.int32)
    with pytest.raises(
        TypeError, match="'y' of 'AddV2' Op has type int32 that does not match type float32 of argument 'x'"
    ):
        x + i
    with pytest.raises(TypeError, match="has type float32 that does not match type int32"):
        i + 1.5
    with pytest.raises(TypeError, match="'x' has DataType int32 not in list of allowed values"):
        tf.tanh(i)


def test_shape_errors_name_the_node_and_the_shapes() -> None:
    x, y = tf.placeholder(tf.float32, [2, 3]), tf.placeholder(tf.float32, [4])
    with pytest.raises(ValueError, match=r"are 3 and 4 for 'bad' \(op: 'AddV2'\) with input shapes: \[2,3\], \[4\]"):
        tf.add(x, y, name="bad")
    assert "bad" not in [op.name for op in x.graph.get_operations()]


def test_tensors_of_two_graphs_do_not_mix() -> None:
    x = tf.placeholder(tf.float32)
    with tf.Graph().as_default():
        y = tf.placeholder(tf.float32)
    with pytest.raises(ValueError, match="must be from the same graph"):
        x + y


def test_the_graph_of_the_inputs_wins_over_the_default_graph(graph: tf.Graph) -> None:
    x = tf.placeholder(tf.float32)
    with tf.Graph().as_default() as other:
        y = x + 1.0
    assert y.graph is graph
    assert not other.get_operations()


def test_an_operation_knows_the_users_line() -> None:
    x = tf.placeholder(tf.float32)
    y = x + 1.0
    file, _, function, text = y.op.traceback[-1]
    assert file == __file__
    assert function == "test_an_operation_knows_the_users_line"
    assert text == "y = x + 1.0"


def test_every_op_is_reachable_as_a_raw_op() -> None:
    x = tf.placeholder(tf.float32, [2])
    assert tf.raw_ops.AddV2(x=x, y=x, name="raw").op.name == "raw"
    with pytest.raises(AttributeError):
        _ = tf.raw_ops.NoSuchOp
    with pytest.raises(TypeError, match="misses the inputs y"):
        tf.raw_ops.AddV2(x=x)


def test_building_a_large_graph_takes_few_calls_a_node() -> None:
    x, y = tf.placeholder(tf.float32, [2, 3]), tf.placeholder(tf.float32, [3])
    z = x + y
    calls = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for _ in range(1000):
            z = z + y
    finally:
        sys.setprofile(before)
    assert calls / 1000 < 40  # 22 for a graph of any size: some 15 us


def test_each_form_returns_what_its_name_says() -> None:
    x = tf.placeholder(tf.float32, [2])
    assert isinstance(apply_one("Tanh", x), tf.Tensor)
    assert [part.shape.as_list() for part in apply_list("Unpack", x, num=2)] == [[], []]
    assert apply_op("NoOp", name="nothing").name == "nothing"
    assert apply("Unique", x)._fields == ("y", "idx")


@pytest.mark.parametrize(
    ("form", "op_type", "inputs", "match"),
    [
        (apply_one, "NoOp", (), r"apply_one\('NoOp', ...\) should be apply_op\('NoOp', ...\): its outputs are: none"),
        (apply_one, "Unique", ([1.0],), r"should be apply\('Unique', ...\): its outputs are: y, idx"),
        (apply_one, "IdentityN", ([1.0],), r"should be apply_list\('IdentityN', ...\): its outputs are: output"),
        (apply_list, "Tanh", (1.0,), r"should be apply_one\('Tanh', ...\)"),
        (apply_op, "Tanh", (1.0,), r"should be apply_one\('Tanh', ...\)"),
    ],
)
def test_the_wrong_form_says_which_is_right(form: Any, op_type: str, inputs: tuple[Any, ...], match: str) -> None:
    with pytest.raises(AssertionError, match=match):
        form(op_type, *inputs)


def test_every_op_function_uses_the_form_that_fits_its_op() -> None:
    """What a rarely run line would otherwise raise one day."""
    forms = {"apply": 0, "apply_one": 1, "apply_list": 2, "apply_op": 3}
    wrong = []
    for file in sorted(Path(tf.__file__).parent.rglob("*.py")):
        for call in ast.walk(ast.parse(file.read_text())):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in forms):
                continue
            op_type = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
            definition = op_registry.find_op(op_type) if isinstance(op_type, str) else None
            if definition is None:
                continue
            outputs = definition.outputs
            is_list = len(outputs) == 1 and (outputs[0].number_attr or outputs[0].type_list_attr) is not None
            right = 0 if len(outputs) > 1 else 3 if not outputs else 2 if is_list else 1
            if forms[call.func.id] != right:
                wrong.append(f"{file.name}:{call.lineno}: {call.func.id}({op_type!r})")
    assert wrong == []
