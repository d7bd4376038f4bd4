"""Gradients against finite differences: tf.test.compute_gradient and compute_gradient_error."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.autodiff.gradients import gradients
from thalweg.graph.composite import IndexedSlicesValue
from thalweg.graph.default_stack import AnySession, get_default_session
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.constants import constant, identity

Array = np.ndarray[Any, Any]


def compute_gradient(
    x: Any, x_shape: Any, y: Any, y_shape: Any, x_init_value: Any = None, delta: float = 1e-3, init_targets: Any = None,
    extra_feed_dict: Any = None,
) -> Any:  # fmt: skip
    """Computes the Jacobian of `y` with respect to `x` twice: by `tf.gradients`, and by finite differences.

    Args:
        x: A tensor, or a list of tensors.
        x_shape: Its shape, or a list of shapes.
        y: A tensor that depends on it.
        y_shape: The shape of `y`.
        x_init_value: Where to differentiate (a list if `x` is one); random values if None.
        delta: The step of the differences.
        init_targets: Ops to run first, such as initializers.
        extra_feed_dict: Values for other tensors.

    Returns:
        Two matrices, by gradients and by differences, with a row per element of x and a column per element of y; a list
        of such pairs if `x` is a list. Complex numbers count as pairs of real ones.
    """
    session = get_default_session()
    if session is None:
        raise ValueError("compute_gradient needs a default session: call it within `with tf.Session():`.")
    if init_targets is not None:
        for target in init_targets if isinstance(init_targets, (list, tuple)) else [init_targets]:
            session.run(target)
    several = isinstance(x, (list, tuple))
    xs = list(x) if several else [x]
    shapes = [tuple(s) for s in x_shape] if several else [tuple(x_shape)]
    given = [None] * len(xs) if x_init_value is None else list(x_init_value) if several else [x_init_value]
    values = [_initial_value(tensor, shape, value) for tensor, shape, value in zip(xs, shapes, given, strict=True)]
    feeds = {**dict(zip(xs, values, strict=True)), **(extra_feed_dict or {})}
    seed = identity(constant(1.0, y.dtype, y_shape))
    grads = gradients(y, xs, seed)
    pairs = []
    for tensor, value, grad in zip(xs, values, grads, strict=True):
        symbolic = _symbolic_jacobian(session, tensor, value, tuple(y_shape), seed, grad, feeds)
        pairs.append((symbolic, _numeric_jacobian(session, tensor, value, y, delta, feeds)))
    return pairs if several else pairs[0]


def compute_gradient_error(
    x: Any, x_shape: Any, y: Any, y_shape: Any, x_init_value: Any = None, delta: float = 1e-3, init_targets: Any = None,
    extra_feed_dict: Any = None,
) -> float:  # fmt: skip
    """The largest difference between the two Jacobians of `compute_gradient`, which takes the same arguments."""
    pairs = compute_gradient(x, x_shape, y, y_shape, x_init_value, delta, init_targets, extra_feed_dict)
    if isinstance(pairs, tuple):
        pairs = [pairs]
    error = 0.0
    for symbolic, numeric in pairs:
        if symbolic.size or numeric.size:
            error = max(error, float(np.fabs(symbolic - numeric).max()))
    return error


def _initial_value(x: Tensor, shape: tuple[int, ...], value: Any) -> Array:
    if value is None:
        # NumPy's global generator: the one that TestCase gives a fixed seed.
        drawn: Any = np.random.random_sample(shape)  # noqa: NPY002
        if x.dtype.is_complex:
            drawn = drawn + 1j * np.random.random_sample(shape)  # noqa: NPY002
        return np.asarray(drawn).astype(x.dtype.as_numpy_dtype)
    array = np.array(value, dtype=x.dtype.as_numpy_dtype)
    if array.shape != shape:
        raise ValueError(f"x_init_value has shape {array.shape}, but x_shape is {shape}.")
    return array


def _reals(array: Array) -> Array:
    """The elements in a row, complex ones as pairs."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat


def _symbolic_jacobian(
    session: AnySession,
    x: Tensor,
    value: Array,
    y_shape: tuple[int, ...],
    seed: Tensor,
    grad: Any,
    feeds: dict[Any, Any],
) -> Array:
    direction = np.zeros(y_shape, seed.dtype.as_numpy_dtype)
    rows, columns = _reals(value).size, _reals(direction).size
    jacobian = np.zeros((rows, columns), _reals(value).dtype)
    if grad is None:
        return jacobian
    for column in range(columns):
        entries = _reals(direction)
        entries[:] = 0
        entries[column] = 1
        unit = (entries.view(direction.dtype) if direction.dtype.kind == "c" else entries).reshape(y_shape)
        result = session.run(grad, {**feeds, seed: unit})
        if isinstance(result, IndexedSlicesValue):
            dense = np.zeros(value.shape, value.dtype)
            np.add.at(dense, np.asarray(result.indices), np.asarray(result.values))
            result = dense
        jacobian[:, column] = _reals(np.asarray(result, value.dtype).reshape(value.shape))
    return jacobian


def _numeric_jacobian(
    session: AnySession, x: Tensor, value: Array, y: Tensor, delta: float, feeds: dict[Any, Any]
) -> Array:
    def at(element: int, change: float) -> Array:
        moved = value.copy()
        entries = moved.reshape(-1)
        if entries.dtype.kind == "c":
            entries = entries.view(entries.real.dtype)
        entries[element] += change
        return _reals(np.asarray(session.run(y, {**feeds, x: moved})))

    # In float64: the differences of low-precision outputs should not lose more.
    rows = [
        (at(i, delta).astype(np.float64) - at(i, -delta).astype(np.float64)) / (2 * delta)
        for i in range(_reals(value).size)
    ]
    if not rows:
        columns = _reals(np.asarray(session.run(y, feeds))).size
        return np.zeros((0, columns), _reals(value).dtype)
    return np.stack(rows).astype(_reals(value).dtype)
