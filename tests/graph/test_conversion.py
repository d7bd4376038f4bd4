"""convert_to_tensor and tf.constant: which values become which tensors, and which do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.graph.definitions.op_registry import is_defined


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize(
    ("value", "dtype", "shape"),
    [
        (1, tf.int32, []), (2**31, tf.int64, []), (1.5, tf.float32, []), (True, tf.bool, []), (1j, tf.complex128, []),
        ("a", tf.string, []), (b"a", tf.string, []), ([1, 2.5], tf.float32, [2]), ([True, 1], tf.int32, [2]),
        ([], tf.float32, [0]), ([[]], tf.float32, [1, 0]), ([(1, 2), [3, 4]], tf.int32, [2, 2]),
        (np.float64(1), tf.float64, []), ([np.float64(1)], tf.float32, [1]), (np.arange(3), tf.int64, [3]),
        (np.array(["a", "b"]), tf.string, [2]), (np.array([1, 2], ">i4"), tf.int32, [2]),
        (np.zeros((0, 3)), tf.float64, [0, 3]),
        ([2**31, 1], tf.int64, [2]), (range(3), tf.int32, [3]), (np.ones([2, 3])[:, ::2], tf.float64, [2, 2]),
        ([tf.Dimension(3), 2], tf.int32, [2]), (np.array([], object), tf.string, [0]),
    ],
)  # fmt: skip
def test_types_are_inferred(value: Any, dtype: tf.DType, shape: list[int]) -> None:
    tensor = tf.constant(value)
    assert (tensor.dtype, tensor.shape.as_list()) == (dtype, shape)


@pytest.mark.parametrize(
    ("value", "dtype", "error", "match"),
    [
        ([[1, 2], [3]], None, ValueError, "non-rectangular"),
        ([["a"], ["b", "c"]], None, ValueError, "non-rectangular"),
        ([1, "a"], None, TypeError, "list"),
        (["a", 1], None, TypeError, "mixes strings with int"),
        (None, None, ValueError, "None values not supported"),
        ([1, None], None, TypeError, "None"),
        (object(), None, TypeError, "object"),
        ({1, 2}, None, TypeError, "set"),
        (2**70, None, TypeError, "int"),
        (1.5, tf.int32, TypeError, "Expected int32, but got 1.5 of type 'float'"),
        ([1, 2.5], tf.int32, TypeError, "Expected int32, but got 2.5"),
        (1, tf.bool, TypeError, "Expected bool, but got 1 of type 'int'"),
        (1, tf.string, TypeError, "Expected string"),
        ("a", tf.float32, TypeError, "Expected float32, but got a of type 'str'"),
        (1j, tf.float32, TypeError, "Expected float32"),
        (2**31, tf.int32, ValueError, "out of range"),
        (np.array(["2020-01-01"], "datetime64[D]"), None, TypeError, "M8"),
        (3, tf.resource, TypeError, "resource"),
    ],
)
def test_values_that_are_no_tensors(value: Any, dtype: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        tf.constant(value, dtype)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float64, tf.int8, tf.uint64, tf.complex64, tf.qint8])
def test_a_type_can_be_asked_for(dtype: tf.DType) -> None:
    tensor = tf.constant([1, 2], dtype)
    assert tensor.dtype is dtype
    assert tensor.op.get_attr("value").dtype == np.dtype(dtype.as_numpy_dtype)


def test_strings_keep_their_bytes() -> None:
    value = tf.constant([b"a\0", "é"]).op.get_attr("value")
    assert value.tolist() == [b"a\0", "é".encode()]


def test_shape_fills_with_the_last_element() -> None:
    assert tf.constant([1, 2, 3], shape=[2, 2]).op.get_attr("value").tolist() == [[1, 2], [3, 3]]
    with pytest.raises(ValueError, match="Needed at most 2, but received 3"):
        tf.constant([1, 2, 3], shape=[2])
    with pytest.raises(TypeError, match=r"Expected Tensor's shape: \(3,\), got \(2,\)"):
        tf.constant([1, 2], shape=[3], verify_shape=True)
    with pytest.raises(ValueError, match="fully defined"):
        tf.constant(1, shape=[None])


def test_a_constant_does_not_change_with_the_array_it_came_from() -> None:
    array = np.zeros(3)
    value = tf.constant(array).op.get_attr("value")
    array[0] = 1
    assert value[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        value[0] = 1


def test_a_constant_of_a_tensor_is_refused() -> None:
    x = tf.placeholder(tf.float32)
    for value in (x, [x, 1.0]):
        with pytest.raises(TypeError, match="got a tensor instead"):
            tf.constant(value)


def test_tensors_pass_unchanged_and_are_never_cast() -> None:
    x = tf.placeholder(tf.float32)
    assert tf.convert_to_tensor(x) is x
    assert tf.convert_to_tensor(x, preferred_dtype=tf.int32) is x
    with pytest.raises(ValueError, match="requested dtype int32 for Tensor with dtype float32"):
        tf.convert_to_tensor(x, tf.int32)


def test_a_preferred_type_is_only_a_hint() -> None:
    assert tf.convert_to_tensor(1, preferred_dtype=tf.float32).dtype is tf.float32
    assert tf.convert_to_tensor(1.5, dtype_hint=tf.int32).dtype is tf.float32


def test_static_shapes_become_constants() -> None:
    assert tf.convert_to_tensor(tf.TensorShape([2, 3])).op.get_attr("value").tolist() == [2, 3]
    assert tf.convert_to_tensor(tf.TensorShape([2**31])).dtype is tf.int64
    with pytest.raises(ValueError, match="partially known"):
        tf.convert_to_tensor(tf.TensorShape([None]))
    with pytest.raises(TypeError):
        tf.convert_to_tensor(tf.TensorShape([2]), tf.float32)


@pytest.mark.skipif(not is_defined("Pack"), reason="needs the array ops")
def test_lists_with_tensors_are_packed() -> None:
    x = tf.placeholder(tf.float32, [])
    packed = tf.convert_to_tensor([[x, 1], [2.0, x]])
    assert (packed.op.type, packed.op.name, packed.shape.as_list()) == ("Pack", "packed", [2, 2])
    with pytest.raises(TypeError, match="containing a tensor of dtype int32 to float32"):
        tf.convert_to_tensor([x, tf.placeholder(tf.int32, [])])


class _Celsius:
    """A value that only its registered conversion understands."""

    def __init__(self, degrees: float) -> None:
        self.degrees = degrees


def _convert_celsius(value: _Celsius, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    if dtype is not None and not dtype.is_floating:
        return NotImplemented
    return tf.constant(value.degrees, dtype=dtype, name=name or "celsius")


tf.register_tensor_conversion_function(_Celsius, _convert_celsius)


def test_registered_types_convert_and_mix_with_tensors() -> None:
    assert tf.convert_to_tensor(_Celsius(3.0)).op.name == "celsius"
    x = tf.placeholder(tf.float64)
    assert (x + _Celsius(3.0)).op.inputs[1].dtype is tf.float64
    with pytest.raises(TypeError):
        tf.convert_to_tensor(_Celsius(3.0), tf.int32)


@pytest.mark.parametrize(("types", "function"), [(3, _convert_celsius), (_Celsius, 3)])
def test_bad_registrations_are_refused(types: Any, function: Any) -> None:
    with pytest.raises(TypeError):
        tf.register_tensor_conversion_function(types, function)


@pytest.mark.parametrize(
    "make",
    [
        lambda size: tf.zeros([size]),
        lambda size: tf.ones((size,)),
        lambda size: tf.fill([size], 1.0),
        lambda size: tf.reshape(tf.placeholder(tf.float32), [size]),
        lambda size: tf.broadcast_to(1.0, [size]),
        lambda size: tf.tile(tf.placeholder(tf.float32, [1]), [size]),
        lambda size: tf.random_uniform([size]),
    ],
)
@pytest.mark.parametrize("size", [2**31, 2**32 + 5])
def test_sizes_beyond_32_bits_are_not_cut(make: Any, size: int) -> None:
    assert make(size).shape.as_list() == [size]


def test_lists_of_integers_that_a_type_cannot_hold_are_refused() -> None:
    for value, dtype in (([1, 2**31], tf.int32), ([[-1]], tf.uint32), ([2**63], tf.int64)):
        with pytest.raises(ValueError, match="out of range"):
            tf.constant(value, dtype)
    assert tf.constant([2**40, 1]).dtype is tf.int64
