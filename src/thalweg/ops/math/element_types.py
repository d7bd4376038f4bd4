"""Sets of element types that the definitions of element-wise ops share, in the grammar of `define`."""

from __future__ import annotations

from typing import Final

FLOATS: Final = "{bfloat16, half, float, double}"
INEXACT: Final = "{bfloat16, half, float, double, complex64, complex128}"
INTEGERS: Final = "{int8, int16, int32, int64, uint8, uint16, uint32, uint64}"
REALS: Final = "{float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}"
SIGNED: Final = "{bfloat16, half, float, double, int8, int16, int32, int64, complex64, complex128}"
SIGNED_REALS: Final = "{bfloat16, half, float, double, int8, int16, int32, int64}"
NUMBERS: Final = (
    "{bfloat16, half, float, double, uint8, int8, uint16, int16, int32, uint32, uint64, int64, complex64, complex128}"
)
