"""Declaring ops: the grammar of signatures and attributes, gradients, kernels, public names."""

from __future__ import annotations

import uuid

import pytest

import thalweg as tf
from thalweg import errors
from thalweg.graph.definitions import op_registry
from thalweg.graph.definitions.op_registry import define, gradient_function, op_def
from thalweg.graph.definitions.op_signature import parse_attrs, parse_signature


def test_attributes_of_every_kind_parse() -> None:
    attrs = parse_attrs(
        "Op",
        "b: bool = true, i: int >= 2 = 3, f: float = -1.5, s: string = 'a, b', t: type = float, h: shape = unknown, "
        "k: shape = [2, ?], l: list(int) >= 1 = [1, -2], e: {'SAME', 'VALID'} = 'SAME', T: {float, int32}, "
        "L: list({half, double}) = [], n: func, v: tensor, N: numbertype",
    )
    assert attrs["b"].default is True
    assert (attrs["i"].default, attrs["i"].minimum) == (3, 2)
    assert attrs["f"].default == -1.5
    assert attrs["s"].default == b"a, b"
    assert attrs["t"].default is tf.float32
    assert attrs["h"].default.ndims is None
    assert attrs["k"].default.as_list() == [2, None]
    assert (attrs["l"].kind, attrs["l"].minimum, attrs["l"].default) == ("list(int)", 1, [1, -2])
    assert attrs["e"].allowed == (b"SAME", b"VALID")
    assert attrs["T"].allowed == (tf.float32, tf.int32)
    assert not attrs["T"].has_default
    assert (attrs["L"].kind, attrs["L"].allowed, attrs["L"].default) == ("list(type)", (tf.float16, tf.float64), [])
    assert (attrs["n"].kind, attrs["v"].kind) == ("func", "tensor")
    assert tf.qint8 in attrs["N"].allowed and tf.string not in attrs["N"].allowed


def test_arguments_of_every_kind_parse() -> None:
    attrs = parse_attrs("Op", "T: type, N: int, L: list(type)")
    inputs, outputs = parse_signature("Op", "a: T, b: float, c: N * T, d: L, e: Ref(T), f: N * int32 -> g: T", attrs)
    assert [arg.name for arg in inputs] == list("abcdef")
    assert inputs[0].type_attr == "T"
    assert inputs[1].dtype is tf.float32
    assert (inputs[2].number_attr, inputs[2].type_attr) == ("N", "T")
    assert inputs[3].type_list_attr == "L"
    assert inputs[4].is_ref
    assert (inputs[5].number_attr, inputs[5].dtype) == ("N", tf.int32)
    assert outputs[0].type_attr == "T"


@pytest.mark.parametrize("text", ["a", "a: nonsense", "a: int = x", "a: list(int) = 3", "a: int, a: int"])
def test_bad_attributes_are_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="'Op'"):
        parse_attrs("Op", text)


@pytest.mark.parametrize("text", ["a", "a: Unknown -> b: T", "1a: T", "a: M * T"])
def test_bad_arguments_are_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="'Op'"):
        parse_signature("Op", text, parse_attrs("Op", "T: type"))


def test_every_defined_op_parses() -> None:
    for definition in op_registry.all_ops():
        assert definition.attrs is not None
        assert definition.inputs is not None


def test_unknown_op_is_not_found_and_a_near_name_is_suggested() -> None:
    with pytest.raises(errors.NotFoundError, match=r"'MatMull'.*Did you mean 'MatMul'"):
        op_def("MatMull")


def test_an_op_is_defined_only_once() -> None:
    with pytest.raises(ValueError, match="'Tanh' is defined twice"):
        define("Tanh", "x: T -> y: T", "T: type")


def test_gradients_register_once_and_under_user_names() -> None:
    name = f"Custom{uuid.uuid4().hex}"

    @tf.RegisterGradient(name)
    def custom(op: tf.Operation, grad: tf.Tensor) -> tf.Tensor:
        return grad

    assert gradient_function(name) is custom
    with pytest.raises(KeyError, match=name):
        tf.RegisterGradient(name)(custom)
    with pytest.raises(TypeError, match="string"):
        tf.RegisterGradient(3)  # type: ignore[arg-type]
    tf.NotDifferentiable(name + "None")
    assert gradient_function(name + "None") is None
    with pytest.raises(LookupError, match="No gradient defined"):
        gradient_function(name + "Missing")


def test_python_kernels_belong_to_defined_ops() -> None:
    with pytest.raises(errors.NotFoundError):
        op_registry.python_kernel("NoSuchOp")(lambda inputs, attrs: inputs[0])


def test_a_public_name_has_one_meaning() -> None:
    with pytest.raises(ValueError, match=r"tf\.tanh"):
        op_registry.export("tanh")(lambda x: x)


def test_ops_decided_by_the_step_are_not_foldable() -> None:
    assert op_def("Tanh").is_foldable
    assert not op_def("Placeholder").is_foldable
    assert not op_def("NoOp").is_foldable
