"""Optimizers outside of the graph: a loss and its gradients as a function that a library minimizes, such as SciPy's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from thalweg.autodiff.gradients import gradients
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.default_stack import AnySession, get_default_session
from thalweg.graph.definitions.op_registry import export
from thalweg.ops.array.constants import placeholder
from thalweg.platform import logging
from thalweg.state.variable_lists import trainable_variables

Array = np.ndarray[Any, Any]


@export("train.ExternalOptimizerInterface", "contrib.opt.ExternalOptimizerInterface")
class ExternalOptimizerInterface:
    """The base class: packs variables into one vector, and lets `_minimize`, defined by subclasses, work on it."""

    def __init__(
        self,
        loss: Any,
        var_list: Sequence[Any] | None = None,
        equalities: Sequence[Any] | None = None,
        inequalities: Sequence[Any] | None = None,
        var_to_bounds: dict[Any, tuple[Any, Any]] | None = None,
        **optimizer_kwargs: Any,
    ) -> None:
        """Adds the gradients to the graph.

        Args:
            loss: The scalar to minimize.
            var_list: The variables to change; all trainable ones if None.
            equalities: Scalars that shall be zero at the minimum.
            inequalities: Scalars that shall not be negative.
            var_to_bounds: For variables, their least and greatest values: numbers, or arrays of the variable's shape.
            **optimizer_kwargs: What the subclass gives to its library.

        Raises:
            ValueError: If there is no variable, or the shape of one is not known.
        """
        self._loss = loss
        self._equalities = list(equalities or ())
        self._inequalities = list(inequalities or ())
        self._vars = list(trainable_variables() if var_list is None else var_list)
        if not self._vars:
            raise ValueError("No variables to optimize.")
        for var in self._vars:
            if not var.shape.is_fully_defined():
                raise ValueError(f"The shape of variable {var.name} is not known: {var.shape}.")
        self.optimizer_kwargs = optimizer_kwargs
        self._packed_bounds = self._pack_bounds(var_to_bounds)
        with name_scope("external_optimizer"):
            self._loss_grads = self._gradients(loss)
            self._equality_grads = [self._gradients(equality) for equality in self._equalities]
            self._inequality_grads = [self._gradients(inequality) for inequality in self._inequalities]
            self._update_feeds = [placeholder(var.dtype, var.shape) for var in self._vars]
            self._updates = [
                var.assign(feed, read_value=False) for var, feed in zip(self._vars, self._update_feeds, strict=True)
            ]

    def _gradients(self, value: Any) -> list[Any]:
        return [None if grad is None else convert_to_tensor(grad) for grad in gradients(value, self._vars)]

    def _pack_bounds(self, var_to_bounds: dict[Any, tuple[Any, Any]] | None) -> list[tuple[float, float]] | None:
        if var_to_bounds is None:
            return None
        bounds: list[tuple[float, float]] = []
        by_name = {var.name: limits for var, limits in var_to_bounds.items()}
        for var in self._vars:
            shape = tuple(var.shape.as_list())
            low, high = by_name.get(var.name, (-np.inf, np.inf))
            lows, highs = np.broadcast_to(low, shape).ravel(), np.broadcast_to(high, shape).ravel()
            bounds.extend(zip(lows.tolist(), highs.tolist(), strict=True))
        return bounds

    def minimize(
        self,
        session: AnySession | None = None,
        feed_dict: dict[Any, Any] | None = None,
        fetches: Sequence[Any] | None = None,
        step_callback: Callable[[Array], Any] | None = None,
        loss_callback: Callable[..., Any] | None = None,
        **run_kwargs: Any,
    ) -> None:
        """Minimizes the loss, and leaves the variables at the minimum.

        Args:
            session: A session; the default session if None.
            feed_dict: What to feed whenever the loss is computed.
            fetches: Tensors to compute with the loss, for `loss_callback`.
            step_callback: Called after each step of the library with the packed variables.
            loss_callback: Called with the values of `fetches` whenever the loss has been computed.
            **run_kwargs: Further arguments of `session.run`.

        Raises:
            ValueError: If there is no session.
        """
        session = session or get_default_session()
        if session is None:
            raise ValueError("Either session argument should be provided or default session should be established")
        extra = list(fetches or ())
        run = _Evaluation(self, session, dict(feed_dict or {}), run_kwargs)

        def loss_and_gradient(x: Array) -> tuple[Any, Array]:
            value, gradient, seen = run(x, self._loss, self._loss_grads, extra)
            if loss_callback is not None:
                loss_callback(*seen)
            return value, gradient

        def constraints(values: list[Any], grads: list[Any]) -> tuple[list[Any], list[Any]]:
            value_functions = [lambda x, v=v, g=g: run(x, v, g)[0] for v, g in zip(values, grads, strict=True)]
            grad_functions = [lambda x, v=v, g=g: run(x, v, g)[1] for v, g in zip(values, grads, strict=True)]
            return value_functions, grad_functions

        equality_funcs, equality_grad_funcs = constraints(self._equalities, self._equality_grads)
        inequality_funcs, inequality_grad_funcs = constraints(self._inequalities, self._inequality_grads)
        found = self._minimize(
            initial_val=_packed(session.run(self._vars)),
            loss_grad_func=loss_and_gradient,
            equality_funcs=equality_funcs,
            equality_grad_funcs=equality_grad_funcs,
            inequality_funcs=inequality_funcs,
            inequality_grad_funcs=inequality_grad_funcs,
            packed_bounds=self._packed_bounds,
            step_callback=step_callback,
            optimizer_kwargs=self.optimizer_kwargs,
        )
        run.assign(np.asarray(found))

    def _minimize(
        self,
        initial_val: Array,
        loss_grad_func: Any,
        equality_funcs: Any,
        equality_grad_funcs: Any,
        inequality_funcs: Any,
        inequality_grad_funcs: Any,
        packed_bounds: Any,
        step_callback: Any,
        optimizer_kwargs: dict[str, Any],
    ) -> Array:
        """Returns the vector at which the loss is least; to be defined by subclasses.

        Args:
            initial_val: The vector to start from.
            loss_grad_func: From a vector to the loss and its gradient.
            equality_funcs: From a vector to values that shall be zero.
            equality_grad_funcs: Their gradients.
            inequality_funcs: From a vector to values that shall not be negative.
            inequality_grad_funcs: Their gradients.
            packed_bounds: A pair (least, greatest) for each element, or None.
            step_callback: To be called with the vector after each step, or None.
            optimizer_kwargs: The keyword arguments of the constructor.
        """
        raise NotImplementedError("To use ExternalOptimizerInterface, define _minimize in a subclass.")


class _Evaluation:
    """Computes values at a vector: assigns it to the variables, then runs the step."""

    def __init__(
        self, interface: ExternalOptimizerInterface, session: AnySession, feeds: dict[Any, Any], options: dict[str, Any]
    ) -> None:
        self._interface = interface
        self._session = session
        self._feeds = feeds
        self._options = options

    def assign(self, x: Array) -> None:
        """Gives the variables the values packed in `x`."""
        feeds, start = {}, 0
        for var, feed in zip(self._interface._vars, self._interface._update_feeds, strict=True):
            shape = tuple(var.shape.as_list())
            size = int(np.prod(shape, dtype=np.int64))
            feeds[feed] = x[start : start + size].reshape(shape).astype(var.dtype.as_numpy_dtype)
            start += size
        self._session.run(self._interface._updates, feeds)

    def __call__(self, x: Array, value: Any, grads: list[Any], extra: Sequence[Any] = ()) -> tuple[Any, Array, Any]:
        """The value, its packed gradient, and the extra fetches, at `x`."""
        self.assign(x)
        computed, known, seen = self._session.run(
            [value, [grad for grad in grads if grad is not None], list(extra)], self._feeds, **self._options
        )
        left = iter(known)
        parts = [
            np.zeros(var.shape.as_list()) if grad is None else next(left)
            for var, grad in zip(self._interface._vars, grads, strict=True)
        ]
        return np.float64(computed), _packed(parts), seen


def _packed(values: Sequence[Any]) -> Array:
    # Libraries expect double precision, also for variables of another type.
    return np.concatenate([np.asarray(value, np.float64).ravel() for value in values])


@export("train.ScipyOptimizerInterface", "contrib.opt.ScipyOptimizerInterface")
class ScipyOptimizerInterface(ExternalOptimizerInterface):
    """Minimizes with `scipy.optimize.minimize`: L-BFGS-B, or the `method` of the keyword arguments. Needs SciPy.

    With equalities or inequalities, use `method="SLSQP"`.

    Example:
        >>> x = tf.Variable([5.0, -3.0])
        >>> optimizer = tf.train.ScipyOptimizerInterface(tf.reduce_sum(tf.square(x - 1.0)), options={"maxiter": 50})
        >>> with tf.Session() as sess:
        ...     sess.run(tf.global_variables_initializer())
        ...     optimizer.minimize(sess)
        ...     print(np.round(sess.run(x), 3))
        [1. 1.]
    """

    _DEFAULT_METHOD = "L-BFGS-B"

    def _minimize(
        self,
        initial_val: Array,
        loss_grad_func: Any,
        equality_funcs: Any,
        equality_grad_funcs: Any,
        inequality_funcs: Any,
        inequality_grad_funcs: Any,
        packed_bounds: Any,
        step_callback: Any,
        optimizer_kwargs: dict[str, Any],
    ) -> Array:
        try:
            from scipy import optimize  # Start-up time: scipy is slow to import.
        except ImportError as e:
            raise ImportError(
                "ScipyOptimizerInterface needs SciPy, which is not installed: pip install thalweg[scipy]"
            ) from e
        kwargs = {"method": self._DEFAULT_METHOD, **optimizer_kwargs}
        constraints = [
            {"type": kind, "fun": function, "jac": gradient}
            for kind, functions, grads in (
                ("eq", equality_funcs, equality_grad_funcs),
                ("ineq", inequality_funcs, inequality_grad_funcs),
            )
            for function, gradient in zip(functions, grads, strict=True)
        ]
        if constraints:
            kwargs["constraints"] = constraints
        if packed_bounds is not None:
            kwargs["bounds"] = packed_bounds
        result = optimize.minimize(loss_grad_func, initial_val, jac=True, callback=step_callback, **kwargs)
        logging.info(
            "Optimization terminated with:\n  Message: %s\n  Objective function value: %f\n  Number of iterations: %d",
            result.message, result.fun, result.get("nit", 0),
        )  # fmt: skip
        return np.asarray(result.x)
