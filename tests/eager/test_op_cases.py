"""Runs every op case where ops run at once: value against the reference, tapes against differences, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.op_cases import CASES, Draw, OpCase
from tests.ops.test_op_cases import _assert_close, draw

_DIFFERENTIABLE = [case for case in CASES if case.order > 0]
_BAD = [case for case in CASES if case.bad]


def call(case: OpCase, values: list[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The op on eager tensors: its outputs as a flat list."""
    tensors = [
        tf.convert_to_tensor(value, tf.as_dtype(value.dtype)) if isinstance(value, np.ndarray) else value
        for value in values
    ]
    return tf.nest.flatten(case.call(*tensors, **kwargs), True)


def value_of(output: Any) -> Any:
    return output.numpy() if isinstance(output, tf.Tensor) else output


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_value_equals_the_reference(case: OpCase) -> None:
    for dtype in case.dtypes:
        for sample in case.samples:
            values = draw(sample, dtype, case.name)
            outputs = call(case, values, sample.kwargs)
            if case.reference is not None:
                with np.errstate(all="ignore"):
                    expected = tf.nest.flatten(case.reference(*values, **sample.kwargs))
                _assert_close(case, sample, dtype, expected, [value_of(output) for output in outputs])


@pytest.mark.parametrize("case", _DIFFERENTIABLE, ids=[case.name for case in _DIFFERENTIABLE])
def test_a_tape_gives_the_slope_along_a_random_direction(case: OpCase) -> None:
    for sample in case.samples:
        values = draw(sample, tf.float64, case.name)
        checked = [i for i, a in enumerate(sample.args) if isinstance(a, Draw) and not a.constant]
        rng = np.random.default_rng(1)
        seeds: list[Any] = []

        def scalar(values: list[Any], tape: Any = None) -> tuple[Any, list[Any]]:
            tensors = [tf.convert_to_tensor(v) if isinstance(v, np.ndarray) else v for v in values]
            if tape is not None:
                tape.watch([tensors[i] for i in checked])  # noqa: B023
            outputs = tf.nest.flatten(case.call(*tensors, **sample.kwargs), True)  # noqa: B023
            outputs = [tf.convert_to_tensor(output) for output in outputs]
            outputs = [output for output in outputs if output.dtype in (tf.float64, tf.complex128)]
            if not seeds:  # noqa: B023
                seeds.extend(rng.standard_normal(output.shape.as_list()) for output in outputs)  # noqa: B023
            total = tf.constant(0.0, tf.float64)
            for output, seed in zip(outputs, seeds, strict=True):  # noqa: B023
                total += tf.reduce_sum(tf.real(output) * seed if output.dtype.is_complex else output * seed)
            return total, tensors

        with tf.GradientTape() as tape:
            total, tensors = scalar(values, tape)
        grads = tape.gradient(total, [tensors[i] for i in checked], unconnected_gradients=tf.UnconnectedGradients.ZERO)
        directions = [rng.standard_normal(np.shape(values[i])) for i in checked]
        slope = sum(
            float(np.sum(np.real(np.asarray(tf.convert_to_tensor(grad)) * direction)))
            for grad, direction in zip(grads, directions, strict=True)
        )
        step = 1e-6
        ends = []
        for sign in (1, -1):
            moved = list(values)
            for i, direction in zip(checked, directions, strict=True):
                moved[i] = np.asarray(values[i] + sign * step * direction)
            ends.append(float(scalar(moved)[0]))
        difference = (ends[0] - ends[1]) / (2 * step)
        tolerance = max(1e-4, 10 * case.grad_tolerance)
        assert slope == pytest.approx(difference, rel=tolerance, abs=tolerance, nan_ok=True), f"{case.name}{sample}"


@pytest.mark.parametrize("case", _BAD, ids=[case.name for case in _BAD])
def test_bad_input_is_refused_at_the_call(case: OpCase) -> None:
    for bad in case.bad:
        dtype = tf.as_dtype(bad.dtype) if bad.dtype else case.dtypes[0]
        values = draw(bad.args, dtype, case.name)
        with pytest.raises((ValueError, TypeError, tf.errors.OpError)) as error:
            call(case, values, bad.args.kwargs)
        assert not isinstance(error.value, AttributeError)
        if isinstance(error.value, tf.errors.OpError):
            assert bad.match in str(error.value)
