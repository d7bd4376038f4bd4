"""tf.contrib.integrate: odeint by Dormand and Prince's method with adaptive steps, and odeint_fixed."""

from __future__ import annotations

from typing import Any, Final

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export

# The tableau of Dormand and Prince (1980), order 5 with an error of order 4.
_ALPHA: Final = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
_BETA: Final = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_ERROR: Final = (
    35 / 384 - 1951 / 21600, 0.0, 500 / 1113 - 22642 / 50085, 125 / 192 - 451 / 720,
    -2187 / 6784 + 12231 / 42400, 11 / 84 - 649 / 6300, -1 / 60,
)  # fmt: skip


def _combined(factors: Any, slopes: Any) -> Any:
    return tf.add_n([factor * slope for factor, slope in zip(factors, slopes, strict=True) if factor])


def _step(func: Any, y: Any, slope: Any, t: Any, dt: Any) -> tuple[Any, Any, Any]:
    """One step: the new value, its slope, and the error."""
    width = tf.cast(dt, y.dtype)
    slopes = [slope]
    new = y
    for alpha, beta in zip(_ALPHA, _BETA, strict=True):
        new = y + width * _combined(beta, slopes)
        slopes.append(func(new, t + alpha * dt))
    return new, slopes[-1], width * _combined(_ERROR, slopes)


def _checked(func: Any, y0: Any, t: Any) -> tuple[Any, Any]:
    if not callable(func):
        raise TypeError("func is not callable")
    t = tf.convert_to_tensor(t, preferred_dtype=tf.float64, name="t")
    y0 = tf.convert_to_tensor(y0, name="y0")
    if not (y0.dtype.is_floating or y0.dtype.is_complex):
        raise TypeError("`y0` must have a floating point or complex floating point dtype")
    if not t.dtype.is_floating:
        raise TypeError("`t` must have a floating point dtype")
    return y0, t


@export("contrib.integrate.odeint")
def odeint(
    func: Any, y0: Any, t: Any, rtol: float = 1e-6, atol: float = 1e-12, method: str | None = None, options: Any = None,
    full_output: bool = False, name: str | None = None,
) -> Any:  # fmt: skip
    """The solution of dy/dt = func(y, t), y(t[0]) = y0, at the times `t`.

    Args:
        func: A function of tensors y and t.
        y0: The first value.
        t: Increasing times.
        rtol: The largest error of a step, relative to y.
        atol: The same, absolute.
        method: 'dopri5', the only one.
        options: A dict: 'first_step', 'safety', 'ifactor', 'dfactor', 'max_num_steps'.
        full_output: Whether a dict of facts is returned, too.
        name: The name scope.

    Returns:
        The values, with the times as the first axis; with `full_output` also the number of evaluations.

    Raises:
        ValueError: If method or options are unknown.
    """
    if method is not None and method != "dopri5":
        raise ValueError(f"invalid method: {method!r}")
    given = {"first_step": 0.1, "safety": 0.9, "ifactor": 10.0, "dfactor": 0.2, "max_num_steps": 1000}
    unknown = set(options or {}) - set(given)
    if unknown or (options is not None and method is None):
        raise ValueError(
            "cannot supply `options` without specifying `method`"
            if method is None
            else f"unknown options: {sorted(unknown)}"
        )
    given.update(options or {})
    y0, t = _checked(func, y0, t)
    with tf.name_scope(name, "odeint", [y0, t]):
        with tf.control_dependencies([tf.assert_greater(t[1:], t[:-1], message="`t` must be monotonic increasing")]):
            t = tf.identity(t)

        def advance(state: Any, target: Any) -> Any:
            def body(y: Any, slope: Any, now: Any, dt: Any, count: Any, total: Any) -> Any:
                limit = tf.assert_less(count, int(given["max_num_steps"]), message="max_num_steps exceeded")
                with tf.control_dependencies([limit]):
                    width = tf.minimum(dt, target - now)
                new, new_slope, error = _step(func, y, slope, now, width)
                scale = atol + rtol * tf.maximum(tf.abs(y), tf.abs(new))
                ratio = tf.cast(tf.sqrt(tf.reduce_mean(tf.square(tf.abs(error) / scale))), now.dtype)
                good = ratio <= 1
                smallest = tf.cast(tf.where(good, 1.0, given["dfactor"]), now.dtype)
                factor = tf.where(
                    tf.equal(ratio, 0), tf.cast(given["ifactor"], now.dtype),
                    tf.clip_by_value(given["safety"] * tf.pow(tf.maximum(ratio, 1e-30), -0.2), smallest,
                    given["ifactor"]),
                )  # fmt: skip
                # A step that was cut at the target says little about how long the next may be.
                following = tf.maximum(width * factor, tf.where(good, dt, width * factor))
                choose = tf.cond
                y, slope = choose(good, lambda: (new, new_slope), lambda: (y, slope))
                now = tf.where(good, tf.where(width < dt, target, now + width), now)
                return y, slope, now, following, count + 1, total + 6

            y, slope, now, dt, total = state
            y, slope, now, dt, _, total = tf.while_loop(
                lambda y, slope, now, dt, count, total: now < target, body,
                (y, slope, now, dt, tf.constant(0), total),
            )  # fmt: skip
            return y, slope, now, dt, total

        start = (y0, func(y0, t[0]), t[0], tf.cast(given["first_step"], t.dtype), tf.constant(1))
        values, _, _, _, totals = tf.scan(advance, t[1:], initializer=start)
        solution = tf.concat([y0[None], values], 0)
        return (solution, {"num_func_evals": totals[-1]}) if full_output else solution


@export("contrib.integrate.odeint_fixed")
def odeint_fixed(func: Any, y0: Any, t: Any, dt: Any = None, method: str = "rk4", name: str | None = None) -> Any:
    """The solution with steps between the times `t`: 'rk4' or 'midpoint'.

    Raises:
        ValueError: If the method is another, or steps of another size are asked for.
    """
    if method not in ("rk4", "midpoint"):
        raise ValueError(f"method not supported: {method}")
    if dt is not None:
        raise ValueError("odeint_fixed takes its steps from `t`: leave `dt` out")
    y0, t = _checked(func, y0, t)

    def rk4(y: Any, span: Any) -> Any:
        now, width = span[0], span[1] - span[0]
        h = tf.cast(width, y.dtype)
        k1 = func(y, now)
        k2 = func(y + h * k1 / 2, now + width / 2)
        k3 = func(y + h * k2 / 2, now + width / 2)
        k4 = func(y + h * k3, now + width)
        return y + h * (k1 + 2 * k2 + 2 * k3 + k4) / 6

    def midpoint(y: Any, span: Any) -> Any:
        now, width = span[0], span[1] - span[0]
        h = tf.cast(width, y.dtype)
        return y + h * func(y + h * func(y, now) / 2, now + width / 2)

    with tf.name_scope(name, "odeint_fixed", [y0, t]):
        spans = tf.stack([t[:-1], t[1:]], axis=1)
        values = tf.scan(rk4 if method == "rk4" else midpoint, spans, initializer=y0)
        return tf.concat([y0[None], values], 0)
