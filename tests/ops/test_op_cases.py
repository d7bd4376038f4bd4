"""Runs every op case: value against the reference, static against actual shape, finite differences, bad input."""

from __future__ import annotations

import importlib
import pkgutil
import zlib
from typing import Any

import numpy as np
import pytest

import tests.op_cases as op_cases
import thalweg as tf
from tests.op_cases import CASES, Args, Draw, OpCase
from tests.ops.finite_differences import check_gradient
from thalweg.graph.dtypes import DType

for _module in pkgutil.iter_modules(op_cases.__path__):
    importlib.import_module(f"tests.op_cases.{_module.name}")

_BY_DTYPE = [(case, dtype) for case in CASES for dtype in case.dtypes]
_DIFFERENTIABLE = [case for case in CASES if case.order > 0]
_BAD = [(case, bad) for case in CASES for bad in case.bad]
_COARSE = {"float16": 4e-3, "bfloat16": 4e-2, "float32": 2e-5, "complex64": 2e-5}


def draw(args: Args, dtype: DType, seed: str) -> list[Any]:
    """The positional arguments with arrays in the place of Draws."""
    rng = np.random.default_rng(zlib.crc32(seed.encode()))
    return [a.array(dtype, rng) if isinstance(a, Draw) else a for a in args.args]


def build(
    case: OpCase, values: list[Any], kwargs: dict[str, Any], known_shapes: bool
) -> tuple[list[Any], dict[Any, Any]]:
    """Calls the op on placeholders; returns its outputs as a flat list, and the feeds."""
    feeds, tensors = {}, []
    for value in values:
        if isinstance(value, np.ndarray):
            placeholder = tf.placeholder(tf.as_dtype(value.dtype), value.shape if known_shapes else None)
            feeds[placeholder] = value
            tensors.append(placeholder)
        else:
            tensors.append(value)
    out = case.call(*tensors, **kwargs)
    return tf.nest.flatten(out), feeds


@pytest.mark.parametrize(("case", "dtype"), _BY_DTYPE, ids=[f"{c.name}-{d.name}" for c, d in _BY_DTYPE])
def test_value_equals_the_reference_and_fits_the_static_shape(case: OpCase, dtype: DType) -> None:
    for sample in case.samples:
        values = draw(sample, dtype, case.name)
        expected = None
        if case.reference is not None:
            with np.errstate(all="ignore"):
                expected = tf.nest.flatten(case.reference(*values, **sample.kwargs))
        for known in (True, False):
            with tf.Graph().as_default():
                outputs, feeds = build(case, values, sample.kwargs, known)
                with tf.Session() as session:
                    actual = session.run(outputs, feeds)
                for output, got in zip(outputs, actual, strict=True):
                    assert output.shape.is_compatible_with(np.shape(got)), (
                        f"{sample}: static {output.shape}, actual {np.shape(got)}"
                    )
                    if output.dtype.name != "string":
                        assert tf.as_dtype(np.asarray(got).dtype) == output.dtype
            if expected is not None:
                _assert_close(case, sample, dtype, expected, actual)


def _assert_close(case: OpCase, sample: Args, dtype: DType, expected: list[Any], actual: list[Any]) -> None:
    assert len(expected) == len(actual)
    tolerance = max(case.tolerance, _COARSE.get(dtype.name, 0.0))
    for want, got in zip(expected, actual, strict=True):
        want, got = np.asarray(want), np.asarray(got)
        message = f"{case.op}{sample} for {dtype.name}"
        assert want.shape == got.shape, message
        if got.dtype.kind in "OSU" or want.dtype.kind in "OSU":
            assert want.tolist() == got.tolist(), message
        elif got.dtype.kind in "biu":
            np.testing.assert_array_equal(got, want, message)
        else:
            wide = np.complex128 if got.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(got.astype(wide), want.astype(wide), tolerance, tolerance, err_msg=message)


@pytest.mark.parametrize("case", _DIFFERENTIABLE, ids=[c.name for c in _DIFFERENTIABLE])
def test_gradient_equals_finite_differences(case: OpCase) -> None:
    for sample in case.samples:
        values = draw(sample, tf.float64, case.name)
        checked = [i for i, a in enumerate(sample.args) if isinstance(a, Draw) and not a.constant]
        check_gradient(
            lambda *t, kw=sample.kwargs: case.call(*t, **kw), values, checked, case.order, case.grad_tolerance
        )


@pytest.mark.parametrize(("case", "bad"), _BAD, ids=[f"{c.name}-{i}" for i, (c, _) in enumerate(_BAD)])
def test_bad_input_is_refused(case: OpCase, bad: op_cases.Bad) -> None:
    dtype = tf.as_dtype(bad.dtype) if bad.dtype else case.dtypes[0]
    values = draw(bad.args, dtype, case.name)
    for known in (True, False):
        with tf.Graph().as_default(), tf.Session() as session:
            try:
                outputs, feeds = build(case, values, bad.args.kwargs, known)
            except (ValueError, TypeError):
                continue
            with pytest.raises(tf.errors.OpError) as error:
                session.run(outputs, feeds)
            assert bad.match in str(error.value)
            assert error.value.op is not None
