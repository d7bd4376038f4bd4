"""Tests of the element types: their attributes, their spellings, and what is no type."""

import copy
import doctest
import pickle

import ml_dtypes
import numpy as np
import pytest

from thalweg.graph import dtypes

# TensorFlow's numbers (types.proto), written down again here since every GraphDef and checkpoint depends on them.
NUMBERS = {
    "float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "string": 7, "complex64": 8, "int64": 9,
    "bool": 10, "qint8": 11, "quint8": 12, "qint32": 13, "bfloat16": 14, "qint16": 15, "quint16": 16, "uint16": 17,
    "complex128": 18, "float16": 19, "resource": 20, "variant": 21, "uint32": 22, "uint64": 23, "float8_e5m2": 24,
    "float8_e4m3fn": 25, "float8_e4m3fnuz": 26, "float8_e4m3b11fnuz": 27, "float8_e5m2fnuz": 28, "int4": 29,
    "uint4": 30,
}  # fmt: skip

ALL = [getattr(dtypes, name) for name in NUMBERS]
ALL_WITH_REFS = ALL + [dtype._as_ref for dtype in ALL]


@pytest.mark.parametrize(("name", "number"), NUMBERS.items())
def test_a_type_has_tensorflows_name_and_number(name: str, number: int) -> None:
    dtype = getattr(dtypes, name)
    assert dtype.name == name
    assert dtype.as_datatype_enum == int(dtype) == hash(dtype) == number
    assert repr(dtype) == f"tf.{name}"
    assert str(dtype) == f"<dtype: '{name}'>"
    assert dtype._as_ref.name == f"{name}_ref"
    assert dtype._as_ref.as_datatype_enum == number + 100


@pytest.mark.parametrize("dtype", ALL_WITH_REFS, ids=str)
def test_copies_and_pickles_are_the_same_object(dtype: dtypes.DType) -> None:
    assert copy.copy(dtype) is dtype
    assert copy.deepcopy([dtype])[0] is dtype
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(dtype, protocol)) is dtype
    assert dtypes.DType(dtype.as_datatype_enum) is dtype


@pytest.mark.parametrize("dtype", ALL_WITH_REFS, ids=str)
def test_every_type_is_found_by_all_its_spellings(dtype: dtypes.DType) -> None:
    assert dtypes.as_dtype(dtype) is dtype
    assert dtypes.as_dtype(dtype.name) is dtype
    assert dtypes.as_dtype(dtype.as_datatype_enum) is dtype
    assert dtypes.as_dtype(np.int64(dtype.as_datatype_enum)) is dtype
    assert dtypes.as_dtype(dtypes.name_in_op_def(dtype)) is dtype
    if dtype.is_numpy_compatible:
        assert dtypes.as_dtype(dtype.as_numpy_dtype) is dtype.base_dtype
        assert dtypes.as_dtype(np.dtype(dtype.as_numpy_dtype)) is dtype.base_dtype


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [
        ("float", dtypes.float32),
        ("double", dtypes.float64),
        ("half", dtypes.float16),
        ("half_ref", dtypes.float16._as_ref),
        (float, dtypes.float32),
        (bool, dtypes.bool),
        (str, dtypes.string),
        (bytes, dtypes.string),
        (object, dtypes.string),
        (np.str_, dtypes.string),
        (np.bytes_, dtypes.string),
        (np.dtype("S7"), dtypes.string),
        (np.dtype("U7"), dtypes.string),
        (np.dtype(">f4"), dtypes.float32),
        (np.dtype(np.longlong).newbyteorder(), dtypes.int64),
        (np.longlong, dtypes.int64),
        (np.ulonglong, dtypes.uint64),
        (np.intc, dtypes.int32),
        (ml_dtypes.bfloat16, dtypes.bfloat16),
        (np.zeros(3, np.int16), dtypes.int16),
        (np.array(["text"]), dtypes.string),
    ],
)
def test_other_spellings_are_understood(spelling: object, expected: dtypes.DType) -> None:
    assert dtypes.as_dtype(spelling) is expected


@pytest.mark.parametrize(
    "no_type",
    [
        None, 0, -1, 99, 131, 1000, 3.5, "nope", "", "f4", "FLOAT32", "float32_ref_ref", [], {}, [np.float32], int,
        complex, list, np.generic, np.integer, np.void, np.datetime64, np.longdouble, np.dtype([("a", "f4")]),
        np.dtype("M8[s]"), ...,
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_type_raises_type_error_and_equals_none(no_type: object) -> None:
    with pytest.raises(TypeError, match="Cannot convert"):
        dtypes.as_dtype(no_type)
    assert no_type not in ALL
    assert all(dtype != no_type for dtype in ALL)


def test_python_int_is_refused_with_advice() -> None:
    with pytest.raises(TypeError, match=r"tf\.int32 or tf\.int64"):
        dtypes.as_dtype(int)


def test_equality_accepts_spellings() -> None:
    assert dtypes.float32 == "float32"
    assert dtypes.float32 == np.float32
    assert dtypes.float32 == np.dtype("float32")
    assert dtypes.float32 != "float64"
    assert dtypes.float32 != dtypes.float32._as_ref
    assert len({*ALL_WITH_REFS}) == 2 * len(NUMBERS)


def test_kinds_of_types() -> None:
    def named(attribute: str) -> set[str]:
        return {dtype.name for dtype in ALL if getattr(dtype, attribute)}

    assert named("is_integer") == {
        "int4", "int8", "int16", "int32", "int64", "uint4", "uint8", "uint16", "uint32", "uint64",
    }  # fmt: skip
    assert named("is_unsigned") == {"uint4", "uint8", "uint16", "uint32", "uint64"}
    assert named("is_floating") == {name for name in NUMBERS if "float" in name}
    assert named("is_complex") == {"complex64", "complex128"}
    assert named("is_bool") == {"bool"}
    assert named("is_quantized") == {"qint8", "quint8", "qint16", "quint16", "qint32"}
    assert set(NUMBERS) - named("is_numpy_compatible") == {"resource", "variant"}
    assert {d.name for d in dtypes.QUANTIZED_DTYPES} == {n + r for n in named("is_quantized") for r in ("", "_ref")}


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_a_reference_type_shares_everything_but_its_name(dtype: dtypes.DType) -> None:
    ref = dtype._as_ref
    assert ref._is_ref_dtype
    assert not dtype._is_ref_dtype
    assert ref.base_dtype is dtype
    assert dtype.base_dtype is dtype
    assert ref._as_ref is ref
    for attribute in ("size", "is_integer", "is_floating", "is_complex", "is_quantized", "is_numpy_compatible"):
        assert getattr(ref, attribute) == getattr(dtype, attribute)


def test_a_value_can_be_made_of_a_reference_but_not_the_reverse() -> None:
    assert dtypes.float32.is_compatible_with(dtypes.float32._as_ref)
    assert not dtypes.float32._as_ref.is_compatible_with(dtypes.float32)
    assert dtypes.float32.is_compatible_with("float32")
    assert not dtypes.float32.is_compatible_with(dtypes.float64)


def test_sizes_are_bytes_per_element() -> None:
    assert dtypes.bool.size == 1
    assert dtypes.bfloat16.size == 2
    assert dtypes.qint32.size == 4
    assert dtypes.complex128.size == 16
    assert dtypes.string.size == dtypes.resource.size == dtypes.variant.size == 0


def test_smallest_and_largest_values() -> None:
    assert (dtypes.int8.min, dtypes.int8.max) == (-128, 127)
    assert (dtypes.uint64.min, dtypes.uint64.max) == (0, 2**64 - 1)
    assert (int(dtypes.int4.min), int(dtypes.int4.max)) == (-8, 7)
    assert dtypes.float32.max == np.finfo(np.float32).max
    assert dtypes.float16.min == -65504
    assert float(dtypes.bfloat16.max) == pytest.approx(3.3895e38, rel=1e-4)


@pytest.mark.parametrize("name", ["bool", "string", "resource", "complex64", "qint8"])
def test_types_without_order_have_no_smallest_value(name: str) -> None:
    dtype = dtypes.as_dtype(name)
    with pytest.raises(TypeError, match="minimum"):
        _ = dtype.min
    with pytest.raises(TypeError, match="maximum"):
        _ = dtype.max


def test_limits_are_those_of_images() -> None:
    assert dtypes.uint8.limits == (0, 255)
    assert dtypes.int16.limits == (0, 32767)
    assert dtypes.float32.limits == (0, 1)
    assert dtypes.bool.limits == (0, True)
    for dtype in (dtypes.string, dtypes.complex64, dtypes.float16, dtypes.resource, dtypes.int4):
        with pytest.raises(ValueError, match="does not have defined limits"):
            _ = dtype.limits


def test_the_real_part_of_a_complex_type() -> None:
    assert dtypes.complex64.real_dtype is dtypes.float32
    assert dtypes.complex128.real_dtype is dtypes.float64
    assert dtypes.complex64._as_ref.real_dtype is dtypes.float32
    assert dtypes.int32.real_dtype is dtypes.int32


@pytest.mark.parametrize("dtype", [dtypes.resource, dtypes.variant], ids=str)
def test_handles_have_no_numpy_type(dtype: dtypes.DType) -> None:
    with pytest.raises(TypeError, match="no NumPy type"):
        _ = dtype.as_numpy_dtype


def test_quantized_arrays_are_told_from_plain_ones() -> None:
    assert dtypes.as_dtype(np.zeros(2, dtypes.qint8.as_numpy_dtype)) is dtypes.qint8
    assert dtypes.as_dtype(np.zeros(2, np.int8)) is dtypes.int8


def test_names_in_op_defs() -> None:
    assert dtypes.name_in_op_def(dtypes.float32) == "float"
    assert dtypes.name_in_op_def(dtypes.float64) == "double"
    assert dtypes.name_in_op_def(dtypes.float16) == "half"
    assert dtypes.name_in_op_def(dtypes.float32._as_ref) == "float_ref"
    assert dtypes.name_in_op_def(dtypes.int64) == "int64"


def test_aliases_are_the_types_themselves() -> None:
    assert dtypes.half is dtypes.float16
    assert dtypes.double is dtypes.float64


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(dtypes).failed == 0
