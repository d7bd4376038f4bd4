"""Calls that once crashed kernels of TensorFlow are refused with an error, in a short time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.fuzz import advisory_array_cases, advisory_cases, advisory_handle_cases, advisory_later_cases
from tests.fuzz.advisory_cases import Case
from thalweg.graph.definitions.op_registry import is_defined

CASES = [
    *advisory_cases.CASES, *advisory_array_cases.CASES, *advisory_handle_cases.CASES, *advisory_later_cases.CASES,
]  # fmt: skip
_KNOWN = [case for case in CASES if is_defined(case.op)]
# Errors of ours: the call did not fail because of what is wrong with it.
_WRONG = (tf.errors.InternalError, tf.errors.UnknownError, tf.errors.DeadlineExceededError, tf.errors.CancelledError)
_QUANTIZED = ("T", "Tinput", "T1")


def _fed(value: Any, feeds: dict[Any, Any], quantized: Any) -> Any:
    if callable(value):
        return value()
    if isinstance(value, list):
        return [_fed(each, feeds, quantized) for each in value]
    value = np.asarray(value)
    dtype = quantized if quantized is not None and value.dtype == np.uint8 else tf.as_dtype(value.dtype)
    tensor = tf.placeholder(tf.string if value.dtype == object else dtype)
    feeds[tensor] = value.view(dtype.as_numpy_dtype) if dtype is quantized else value
    return tensor


def _run(case: Case) -> None:
    feeds: dict[Any, Any] = {}
    kinds = {"quint8": tf.quint8, "float32": tf.float32, "int32": tf.int32}
    attrs = {key: kinds.get(value, value) if isinstance(value, str) else value for key, value in case.attrs.items()}
    quantized = tf.quint8 if any(attrs.get(key) is tf.quint8 for key in _QUANTIZED) else None
    inputs = {name: _fed(value, feeds, quantized) for name, value in case.inputs.items()}
    found = getattr(tf.raw_ops, case.op)(**inputs, **attrs)
    with tf.Session() as session:
        session.run(found, feeds, options=tf.RunOptions(timeout_in_ms=30_000))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("case", _KNOWN, ids=[f"{case.op}: {case.wrong}" for case in _KNOWN])
def test_a_hostile_call_is_refused(case: Case) -> None:
    # Types of handles and some attributes are known while the graph is built: what is wrong with them is said there.
    with pytest.raises((tf.errors.OpError, ValueError)) as info:
        _run(case)
    assert not isinstance(info.value, _WRONG), info.value


def test_the_cases_differ() -> None:
    assert len({(case.op, case.wrong) for case in CASES}) == len(CASES) >= 500


def test_most_of_the_ops_are_there() -> None:
    """Cases of ops that are not there yet wait for them."""
    missing = {case.op for case in CASES} - {case.op for case in _KNOWN}
    assert missing <= {
        "ParameterizedTruncatedNormal",
        "Unbatch",
    }
