"""Cases of constants and of ops that pass their input on."""

from __future__ import annotations

import numpy as np

import thalweg as tf
from tests.op_cases import Args, case, covered_elsewhere, real

_ANY = "float16 bfloat16 float32 float64 int8 int64 uint16 bool complex64 string"
_SAMPLES = [Args(real(2, 3)), Args(real(0, 2)), Args(real())]

case("Identity", tf.identity, lambda x: x, samples=_SAMPLES, dtypes=_ANY, order=2)
case("IdentityN", lambda *x: tf.identity_n(list(x)), lambda *x: list(x), samples=[Args(real(2), real(3, 1))], order=2)
case("StopGradient", tf.stop_gradient, lambda x: x, samples=_SAMPLES, dtypes=_ANY)
case("PreventGradient", lambda x: tf.raw_ops.PreventGradient(input=x), lambda x: x, samples=_SAMPLES, dtypes=_ANY)
case(
    "PlaceholderWithDefault",
    lambda x: tf.placeholder_with_default(x, None),
    lambda x: x,
    samples=_SAMPLES,
    dtypes=_ANY,
    order=1,
)
case("Const", lambda: tf.constant([[1.5, 2.0]]), lambda: np.array([[1.5, 2.0]]), samples=[Args()], dtypes="float32")
covered_elsewhere("fed in every test, and tests/runtime/test_fetches_and_feeds.py", "Placeholder", "PlaceholderV2")
covered_elsewhere("it computes nothing: tests/runtime/test_steps.py runs it", "NoOp")
