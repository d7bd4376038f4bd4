"""Element types of tensors: the DType class, one constant per type, and as_dtype().

A DType is interned: there is exactly one object per type in a process, also after a copy or a pickle, so `is` and `==`
agree between two DTypes. What an op's construction asks for (`name`, `is_floating`, `base_dtype`, ...) is a plain
attribute filled once at import. The module defines `bool`, as TensorFlow does: inside it, the Python type is
`builtins.bool`.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Final, cast

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from typing import Self

_REF_OFFSET: Final = 100  # The DataType number of a reference type is that of its base type plus this.

# number, name, NumPy type, kind (float, int, unsigned, complex, bool, quantized, string, or handle), other names. The
# first other name is what TensorFlow's OpDefs print.
_TYPES: Final[tuple[tuple[int, str, Any, str, tuple[str, ...]], ...]] = (
    (1, "float32", np.float32, "f", ("float",)),
    (2, "float64", np.float64, "f", ("double",)),
    (3, "int32", np.int32, "i", ()),
    (4, "uint8", np.uint8, "u", ()),
    (5, "int16", np.int16, "i", ()),
    (6, "int8", np.int8, "i", ()),
    (7, "string", object, "s", ()),
    (8, "complex64", np.complex64, "c", ()),
    (9, "int64", np.int64, "i", ()),
    (10, "bool", np.bool_, "b", ()),
    # A quantized array is told from a plain one by its only field, as in TensorFlow.
    (11, "qint8", np.dtype([("qint8", np.int8)]), "q", ()),
    (12, "quint8", np.dtype([("quint8", np.uint8)]), "q", ()),
    (13, "qint32", np.dtype([("qint32", np.int32)]), "q", ()),
    (14, "bfloat16", ml_dtypes.bfloat16, "f", ()),
    (15, "qint16", np.dtype([("qint16", np.int16)]), "q", ()),
    (16, "quint16", np.dtype([("quint16", np.uint16)]), "q", ()),
    (17, "uint16", np.uint16, "u", ()),
    (18, "complex128", np.complex128, "c", ()),
    (19, "float16", np.float16, "f", ("half",)),
    (20, "resource", None, "h", ()),
    (21, "variant", None, "h", ()),
    (22, "uint32", np.uint32, "u", ()),
    (23, "uint64", np.uint64, "u", ()),
    (24, "float8_e5m2", ml_dtypes.float8_e5m2, "f", ()),
    (25, "float8_e4m3fn", ml_dtypes.float8_e4m3fn, "f", ()),
    (26, "float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz, "f", ()),
    (27, "float8_e4m3b11fnuz", ml_dtypes.float8_e4m3b11fnuz, "f", ()),
    (28, "float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz, "f", ()),
    (29, "int4", ml_dtypes.int4, "i", ()),
    (30, "uint4", ml_dtypes.uint4, "u", ()),
)


class DType:
    """The type of a tensor's elements.

    Attributes:
        name: The type's name, such as `'float32'`.
        as_datatype_enum: TensorFlow's DataType number, as it stands in a GraphDef.
        size: Bytes per element; 0 for strings and handles, whose elements have no fixed size.
        base_dtype: The type without reference-ness: the same object for every type but a `_ref` one.
        is_bool, is_complex, is_floating, is_integer, is_numeric, is_numpy_compatible, is_quantized, is_unsigned: What
            kind of type it is. Quantized types are not integers.

    Example:
        >>> float32.is_floating, float32.size, as_dtype('half')
        (True, 4, tf.float16)
    """

    __slots__ = (
        "__weakref__", "_is_ref_dtype", "_numpy_type", "_ref", "_repr", "as_datatype_enum", "base_dtype", "is_bool",
        "is_complex", "is_floating", "is_integer", "is_numeric", "is_numpy_compatible", "is_quantized", "is_unsigned",
        "name", "size",
    )  # fmt: skip

    as_datatype_enum: int
    base_dtype: DType
    is_bool: builtins.bool
    is_complex: builtins.bool
    is_floating: builtins.bool
    is_integer: builtins.bool
    is_numeric: builtins.bool
    is_numpy_compatible: builtins.bool
    is_quantized: builtins.bool
    is_unsigned: builtins.bool
    name: str
    size: int
    _is_ref_dtype: builtins.bool
    _numpy_type: Any
    _ref: DType
    _repr: str

    def __new__(cls, type_enum: int) -> Self:
        """Returns the interned type of a DataType number."""
        return cast("Self", as_dtype(int(type_enum)))

    @classmethod
    def _create(cls, number: int, name: str, numpy_type: Any, kind: str, base: DType | None) -> DType:
        self = object.__new__(cls)
        self.as_datatype_enum = number
        self.base_dtype = self if base is None else base
        self.is_bool = kind == "b"
        self.is_complex = kind == "c"
        self.is_floating = kind == "f"
        self.is_integer = kind in "iu"
        self.is_numeric = kind in "iufcq"
        self.is_numpy_compatible = numpy_type is not None
        self.is_quantized = kind == "q"
        self.is_unsigned = kind == "u"
        self.name = name
        self.size = 0 if kind in "sh" else np.dtype(numpy_type).itemsize
        self._is_ref_dtype = base is not None
        self._numpy_type = numpy_type
        self._ref = self
        self._repr = f"tf.{name}"
        return self

    @property
    def as_numpy_dtype(self) -> Any:
        """The NumPy type (for quantized types the NumPy dtype) of arrays that hold such elements.

        Raises:
            TypeError: For `resource` and `variant`, which no NumPy array can hold.
        """
        if self._numpy_type is None:
            raise TypeError(
                f"{self} has no NumPy type: its values exist only inside a step and cannot become an array."
            )
        return self._numpy_type

    @property
    def real_dtype(self) -> DType:
        """The type of the real part of a complex type, and the type itself otherwise."""
        if self.is_complex:
            return float32 if self.base_dtype is complex64 else float64
        return self

    @property
    def min(self) -> Any:
        """The smallest finite value. Raises TypeError for types without order, and for quantized types."""
        return self._numeric_info("minimum").min

    @property
    def max(self) -> Any:
        """The largest finite value. Raises TypeError for types without order, and for quantized types."""
        return self._numeric_info("maximum").max

    def _numeric_info(self, what: str) -> Any:
        info: Any = ml_dtypes  # its functions carry no annotations
        if self.is_floating:
            return info.finfo(self._numpy_type)
        if self.is_integer:
            return info.iinfo(self._numpy_type)
        kind = "quantized type" if self.is_quantized else "type"
        raise TypeError(f"Cannot find {what} value of {self} with {kind} {self.base_dtype}.")

    @property
    def limits(self) -> tuple[Any, Any]:
        """The range of intensities that an image of this type holds, negative values left out.

        Raises:
            ValueError: For types in which no image range is agreed on.
        """
        if self.is_bool:
            return 0, True
        if self.base_dtype in (float32, float64):
            return 0, 1
        if self.is_integer and self.base_dtype not in (int4, uint4):
            return 0, self.max
        raise ValueError(f"{self} does not have defined limits.")

    @property
    def _as_ref(self) -> DType:
        """The reference type of this type (known only for GraphDefs of old programs: Thalweg has no references)."""
        return self._ref

    def is_compatible_with(self, other: Any) -> builtins.bool:
        """Whether a tensor of type `other` can be used where this type is asked for (a reference counts as a value)."""
        other = as_dtype(other)
        return self is other or self is other.base_dtype

    def __eq__(self, other: object) -> builtins.bool:
        if self is other:
            return True
        if other is None or type(other) is DType:
            return False
        try:
            return as_dtype(other) is self
        except TypeError:
            return False

    def __ne__(self, other: object) -> builtins.bool:
        return not self == other

    def __hash__(self) -> int:
        return self.as_datatype_enum

    def __int__(self) -> int:
        return self.as_datatype_enum

    def __repr__(self) -> str:
        return self._repr

    def __str__(self) -> str:
        return f"<dtype: {self.name!r}>"

    def __reduce__(self) -> tuple[Any, tuple[int]]:
        # Also what copy.copy and copy.deepcopy use: all three come back as the interned object.
        return as_dtype, (self.as_datatype_enum,)


_OP_DEF_NAMES: Final[dict[DType, str]] = {}


def _intern() -> dict[Any, DType]:
    """Creates every type; returns the table from all its spellings (number, names, NumPy types) to the type."""
    table: dict[Any, DType] = {}
    for number, name, numpy_type, kind, other_names in _TYPES:
        base = DType._create(number, name, numpy_type, kind, None)
        ref = DType._create(number + _REF_OFFSET, name + "_ref", numpy_type, kind, base)
        base._ref = ref
        table[number] = table[name] = base
        table[number + _REF_OFFSET] = table[name + "_ref"] = ref
        for other_name in other_names:
            table[other_name] = base
            table[other_name + "_ref"] = ref
        op_def_name = other_names[0] if other_names else name
        _OP_DEF_NAMES[base] = op_def_name
        _OP_DEF_NAMES[ref] = op_def_name + "_ref"
        if numpy_type is not None:
            table[numpy_type] = base
            table[np.dtype(numpy_type)] = base
    string_type = table["string"]
    # Python's int and complex are missing on purpose, as in TensorFlow: which width they mean is for the caller to say.
    table.update({float: table["float32"], builtins.bool: table["bool"]})
    table.update(dict.fromkeys((str, bytes, np.object_, np.str_, np.bytes_), string_type))
    return table


_ANY_TO_DTYPE: Final = _intern()


def as_dtype(type_value: Any) -> DType:
    """Converts a spelling of a type to the DType.

    Args:
        type_value: A DType; a DataType number; a name (`'float32'`, `'float'`, `'half'`, `'float32_ref'`); a NumPy
            dtype or scalar type, also in the other byte order; an object with a `dtype`; or one of the Python types
            `float` (float32), `bool`, `str`, `bytes` and `object` (string).

    Returns:
        The DType.

    Raises:
        TypeError: If `type_value` names no type.

    Example:
        >>> as_dtype(np.int64), as_dtype('double'), as_dtype(float)
        (tf.int64, tf.float64, tf.float32)
    """
    if type(type_value) is DType:
        return type_value
    try:
        return _ANY_TO_DTYPE[type_value]
    except (KeyError, TypeError):  # TypeError: not hashable, for instance an array
        pass
    found = _resolve_numpy(type_value)
    if found is not None:
        return found
    hint = " Name a width, such as tf.int32 or tf.int64." if type_value is int else ""
    raise TypeError(f"Cannot convert the argument `type_value`: {type_value!r} to a TensorFlow DType.{hint}")


def _resolve_numpy(value: Any) -> DType | None:
    """Finds the type of a NumPy spelling that the table lacks: other byte orders, string lengths, aliases, arrays."""
    if isinstance(value, type):
        if not issubclass(value, np.generic):
            return None
        try:
            value = np.dtype(value)
        except TypeError:  # an abstract type, such as np.generic
            return None
    elif not isinstance(value, np.dtype):
        value = getattr(value, "dtype", None)
        if type(value) is DType:
            return value
        if not isinstance(value, np.dtype):
            return None
    # In the machine's byte order aliases such as longlong and int64 are equal; the scalar type forgets string lengths.
    return _ANY_TO_DTYPE.get(value) or _ANY_TO_DTYPE.get(value.newbyteorder("=")) or _ANY_TO_DTYPE.get(value.type)


def name_in_op_def(dtype: DType) -> str:
    """The name by which TensorFlow's OpDefs print a type: 'float' for float32, 'double', 'half'."""
    return _OP_DEF_NAMES[dtype]


float16: Final = as_dtype("float16")
half: Final = float16
float32: Final = as_dtype("float32")
float64: Final = as_dtype("float64")
double: Final = float64
bfloat16: Final = as_dtype("bfloat16")
float8_e5m2: Final = as_dtype("float8_e5m2")
float8_e4m3fn: Final = as_dtype("float8_e4m3fn")
float8_e4m3fnuz: Final = as_dtype("float8_e4m3fnuz")
float8_e4m3b11fnuz: Final = as_dtype("float8_e4m3b11fnuz")
float8_e5m2fnuz: Final = as_dtype("float8_e5m2fnuz")
int4: Final = as_dtype("int4")
int8: Final = as_dtype("int8")
int16: Final = as_dtype("int16")
int32: Final = as_dtype("int32")
int64: Final = as_dtype("int64")
uint4: Final = as_dtype("uint4")
uint8: Final = as_dtype("uint8")
uint16: Final = as_dtype("uint16")
uint32: Final = as_dtype("uint32")
uint64: Final = as_dtype("uint64")
complex64: Final = as_dtype("complex64")
complex128: Final = as_dtype("complex128")
bool: Final = as_dtype("bool")
string: Final = as_dtype("string")
resource: Final = as_dtype("resource")
variant: Final = as_dtype("variant")
qint8: Final = as_dtype("qint8")
quint8: Final = as_dtype("quint8")
qint16: Final = as_dtype("qint16")
quint16: Final = as_dtype("quint16")
qint32: Final = as_dtype("qint32")

QUANTIZED_DTYPES: Final = frozenset(dtype for dtype in _OP_DEF_NAMES if dtype.is_quantized)
