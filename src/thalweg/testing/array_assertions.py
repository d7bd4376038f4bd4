"""Assertions about arrays and tensors, mixed into tf.test.TestCase."""

from __future__ import annotations

import unittest
from collections.abc import Mapping
from typing import Any

import numpy as np

from thalweg.graph.composite import IndexedSlices, IndexedSlicesValue, SparseTensor, SparseTensorValue
from thalweg.graph.conversion import is_tensor_like
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.tensor_shape import TensorShape

Array = np.ndarray[Any, Any]


class ArrayAssertions(unittest.TestCase):
    """Compares arrays, tensors (which are evaluated first), and structures of them."""

    def evaluate(self, tensors: Any) -> Any:
        """The values of tensors."""
        raise NotImplementedError

    def _array(self, value: Any) -> Array:
        """A value as an array; a tensor is run first."""
        if isinstance(value, (SparseTensor, IndexedSlices, SparseTensorValue, IndexedSlicesValue)):
            raise TypeError(f"Expected an array or a dense tensor, got {type(value).__name__}.")
        if not isinstance(value, (np.ndarray, np.generic, list, tuple, int, float, complex, str, bytes)):
            if is_tensor_like(value):
                value = self.evaluate(value)
        elif isinstance(value, (list, tuple)) and any(is_tensor_like(v) for v in value if not np.isscalar(v)):
            value = [self._array(v) if is_tensor_like(v) else v for v in value]
        array = np.array(value)
        if array.dtype.kind == "U":
            array = np.char.encode(array, "utf-8")
        return array.astype(np.bytes_) if array.dtype == object and array.size and _all_text(array) else array

    def _comparable(self, array: Array) -> Array:
        """Types that NumPy itself cannot compare (bfloat16) as float32."""
        return array.astype(np.float32) if array.dtype.kind == "V" or array.dtype.name == "bfloat16" else array

    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Both have the same shape and elements; NaN equals NaN."""
        a, b = self._comparable(self._array(a)), self._comparable(self._array(b))
        if b.ndim <= 3 or b.size < 500:
            self.assertEqual(a.shape, b.shape, f"Shape mismatch: expected {b.shape}, got {a.shape}. {msg or ''}")
        else:
            self.assertEqual(a.shape, b.shape, msg)
        same = a == b
        if a.dtype.kind in "fc" and b.dtype.kind in "fc":
            same = np.logical_or(same, np.logical_and(np.isnan(a), np.isnan(b)))
        if not np.all(same):
            self._fail_with_differences(a, b, np.logical_not(same), msg or "Arrays are not equal")

    def assertNotAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """They differ in shape or in some element."""
        try:
            self.assertAllEqual(a, b)
        except AssertionError:
            return
        self.fail(f"The two values are equal at all elements. {msg or ''}")

    def _fail_with_differences(self, a: Array, b: Array, different: Array, message: str) -> None:
        where = np.argwhere(np.atleast_1d(different))
        lines = [message, f"{len(where)} of {different.size} elements differ"]
        for index in where[:10]:
            at = tuple(int(i) for i in index)
            lines.append(f"  at {at}: {np.atleast_1d(a)[at]!r} vs. {np.atleast_1d(b)[at]!r}")
        self.fail("\n".join(lines))

    def assertAllClose(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None) -> None:
        """`|a - b| <= atol + rtol * |b|`, for arrays and for dicts, lists and tuples of them."""
        if isinstance(a, Mapping) != isinstance(b, Mapping):
            self.fail(f"Can't compare a dict with something else: {type(a)} vs. {type(b)}. {msg or ''}")
        if isinstance(a, Mapping):
            self.assertEqual(sorted(a), sorted(b), f"Different keys. {msg or ''}")
            for key in a:
                self.assertAllClose(a[key], b[key], rtol, atol, f"[{key!r}] {msg or ''}")
        elif isinstance(a, (list, tuple)) and not _is_rectangular(a):
            self.assertEqual(len(a), len(b), f"Different lengths. {msg or ''}")
            for i, (x, y) in enumerate(zip(a, b, strict=True)):
                self.assertAllClose(x, y, rtol, atol, f"[{i}] {msg or ''}")
        else:
            self._assert_arrays_close(
                self._comparable(self._array(a)), self._comparable(self._array(b)), rtol, atol, msg
            )

    def _assert_arrays_close(self, a: Array, b: Array, rtol: float, atol: float, msg: str | None) -> None:
        self.assertEqual(a.shape, b.shape, f"Shape mismatch: expected {b.shape}, got {a.shape}. {msg or ''}")
        close = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
        if not np.all(close):
            message = f"Arrays are not close to tolerance rtol={rtol}, atol={atol}. {msg or ''}"
            self._fail_with_differences(a, b, np.logical_not(close), message)

    def assertAllCloseAccordingToType(
        self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, float_rtol: float = 1e-6,
        float_atol: float = 1e-6, half_rtol: float = 1e-3, half_atol: float = 1e-3, bfloat16_rtol: float = 1e-2,
        bfloat16_atol: float = 1e-2, msg: str | None = None,
    ) -> None:  # fmt: skip
        """As assertAllClose, with tolerances that fit the less precise of both types."""
        a, b = self._array(a), self._array(b)
        names = {a.dtype.name, b.dtype.name}
        for kinds, more_rtol, more_atol in (
            ({"float32", "complex64"}, float_rtol, float_atol), ({"float16"}, half_rtol, half_atol),
            ({"bfloat16"}, bfloat16_rtol, bfloat16_atol),
        ):  # fmt: skip
            if names & kinds:
                rtol, atol = max(rtol, more_rtol), max(atol, more_atol)
        self.assertAllClose(a, b, rtol, atol, msg)

    def assertNotAllClose(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None) -> None:
        """Some element differs by more than the tolerance."""
        try:
            self.assertAllClose(a, b, rtol, atol)
        except AssertionError:
            return
        self.fail(f"The two values are close at all elements. {msg or ''}")

    def _assert_elements(self, target: Any, holds: Any, what: str) -> None:
        array = self._comparable(self._array(target))
        bad = np.logical_not(holds(array))
        if np.any(bad):
            some = np.atleast_1d(array)[np.atleast_1d(bad)][:10]
            self.fail(f"{int(np.sum(bad))} of {array.size} elements are not {what}: {some}")

    def assertAllGreater(self, a: Any, comparison_target: Any) -> None:
        """Every element is greater than the target."""
        self._assert_elements(a, lambda x: x > comparison_target, f"> {comparison_target}")

    def assertAllLess(self, a: Any, comparison_target: Any) -> None:
        """Every element is less than the target."""
        self._assert_elements(a, lambda x: x < comparison_target, f"< {comparison_target}")

    def assertAllGreaterEqual(self, a: Any, comparison_target: Any) -> None:
        """No element is less than the target."""
        self._assert_elements(a, lambda x: x >= comparison_target, f">= {comparison_target}")

    def assertAllLessEqual(self, a: Any, comparison_target: Any) -> None:
        """No element is greater than the target."""
        self._assert_elements(a, lambda x: x <= comparison_target, f"<= {comparison_target}")

    def assertAllInRange(
        self, target: Any, lower_bound: Any, upper_bound: Any, open_lower_bound: bool = False,
        open_upper_bound: bool = False,
    ) -> None:  # fmt: skip
        """Every element lies between the bounds, which are included unless said otherwise."""

        def holds(x: Array) -> Any:
            above = x > lower_bound if open_lower_bound else x >= lower_bound
            below = x < upper_bound if open_upper_bound else x <= upper_bound
            return np.logical_and(above, below)

        start, end = "(" if open_lower_bound else "[", ")" if open_upper_bound else "]"
        self._assert_elements(target, holds, f"in {start}{lower_bound}, {upper_bound}{end}")

    def assertAllInSet(self, target: Any, expected_set: Any) -> None:
        """Every element is one of the set."""
        self._assert_elements(target, lambda x: np.isin(x, list(expected_set)), f"in {expected_set}")

    def assertShapeEqual(self, input_a: Any, input_b: Any, msg: str | None = None) -> None:
        """An array (or tensor) and a tensor have the same static shape."""
        shapes = [TensorShape(x.shape if hasattr(x, "shape") else np.shape(x)) for x in (input_a, input_b)]
        self.assertEqual(shapes[0].as_list(), shapes[1].as_list(), msg)

    def assertDTypeEqual(self, target: Any, expected_dtype: Any) -> None:
        """A tensor or array has this element type."""
        dtype = target.dtype if hasattr(target, "dtype") else self._array(target).dtype
        self.assertEqual(as_dtype(dtype).base_dtype, as_dtype(expected_dtype))

    def assertNear(self, f1: float, f2: float, err: float, msg: str | None = None) -> None:
        """`|f1 - f2| <= err`."""
        self.assertTrue(
            f1 == f2 or abs(f1 - f2) <= err, f"{f1!r} != {f2!r} +/- {err!r}{f' ({msg})' if msg is not None else ''}"
        )

    def assertArrayNear(self, farray1: Any, farray2: Any, err: float, msg: str | None = None) -> None:
        """Element by element, `|f1 - f2| <= err`."""
        self.assertEqual(len(farray1), len(farray2), msg)
        for f1, f2 in zip(farray1, farray2, strict=True):
            self.assertNear(float(f1), float(f2), err, msg)

    def assertNDArrayNear(self, ndarray1: Any, ndarray2: Any, err: float, msg: str | None = None) -> None:
        """The norm of the difference is less than `err`."""
        self.assertTrue(float(np.linalg.norm(np.asarray(ndarray1) - np.asarray(ndarray2))) < err, msg)


def _all_text(array: Array) -> bool:
    return all(isinstance(item, bytes) for item in array.ravel())


def _is_rectangular(value: Any) -> bool:
    """Whether a list converts to an array, rather than being a structure of different arrays."""
    if any(isinstance(item, Mapping) or is_tensor_like(item) for item in value if not np.isscalar(item)):
        return False
    try:
        return np.array(value).dtype != object
    except ValueError:
        return False
