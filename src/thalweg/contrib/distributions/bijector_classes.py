"""`tf.contrib.distributions.bijectors`: functions with an inverse, and how much they stretch volumes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export

_SPACE = "contrib.distributions.bijectors"


@export(f"{_SPACE}.Bijector")
class Bijector:
    """A function with an inverse; subclasses define `_forward`, `_inverse`, and one of the two log determinants.

    The log determinants are those of the Jacobian at the last `forward_min_event_ndims` axes; with more `event_ndims`
    they are summed over the axes between.
    """

    def __init__(
        self, graph_parents: Any = None, is_constant_jacobian: bool = False, validate_args: bool = False,
        dtype: Any = None, forward_min_event_ndims: int | None = None, inverse_min_event_ndims: int | None = None,
        name: str | None = None,
    ) -> None:  # fmt: skip
        """For subclasses: how many axes one value has before and after.

        Raises:
            ValueError: If neither number of axes is given.
        """
        if forward_min_event_ndims is None and inverse_min_event_ndims is None:
            raise ValueError("Must specify at least one of `forward_min_event_ndims` and `inverse_min_event_ndims`.")
        given = forward_min_event_ndims if forward_min_event_ndims is not None else inverse_min_event_ndims
        self.graph_parents = list(graph_parents or [])
        self.is_constant_jacobian = is_constant_jacobian
        self.validate_args = validate_args
        self.dtype = dtype
        self.forward_min_event_ndims = int(given or 0)
        self.inverse_min_event_ndims = int(
            self.forward_min_event_ndims if inverse_min_event_ndims is None else inverse_min_event_ndims
        )
        self.name = name or type(self).__name__

    def _tensor(self, x: Any) -> Any:
        return tf.convert_to_tensor(x, dtype=self.dtype)

    def forward(self, x: Any, name: str = "forward", **kwargs: Any) -> Any:
        """The value of the function."""
        with tf.name_scope(f"{self.name}/{name}"):
            return self._forward(self._tensor(x), **kwargs)

    def inverse(self, y: Any, name: str = "inverse", **kwargs: Any) -> Any:
        """The argument that gives `y`."""
        with tf.name_scope(f"{self.name}/{name}"):
            return self._inverse(self._tensor(y), **kwargs)

    def _forward(self, x: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("forward not implemented")

    def _inverse(self, y: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("inverse not implemented")

    def _forward_log_det_jacobian(self, x: Any, **kwargs: Any) -> Any:
        if type(self)._inverse_log_det_jacobian is Bijector._inverse_log_det_jacobian:
            raise NotImplementedError("forward_log_det_jacobian not implemented")
        return -self._inverse_log_det_jacobian(self._forward(x, **kwargs), **kwargs)

    def _inverse_log_det_jacobian(self, y: Any, **kwargs: Any) -> Any:
        return -self._forward_log_det_jacobian(self._inverse(y, **kwargs), **kwargs)

    def forward_log_det_jacobian(
        self, x: Any, event_ndims: int, name: str = "forward_log_det_jacobian", **kwargs: Any
    ) -> Any:
        """The logarithm of the absolute determinant of the Jacobian at `x`, whose values have `event_ndims` axes."""
        with tf.name_scope(f"{self.name}/{name}"):
            x = self._tensor(x)
            extra = self._extra(event_ndims, self.forward_min_event_ndims)
            return _summed(self._forward_log_det_jacobian(x, **kwargs), x, extra, self.forward_min_event_ndims)

    def inverse_log_det_jacobian(
        self, y: Any, event_ndims: int, name: str = "inverse_log_det_jacobian", **kwargs: Any
    ) -> Any:
        """The same of the inverse, at `y`."""
        with tf.name_scope(f"{self.name}/{name}"):
            y = self._tensor(y)
            extra = self._extra(event_ndims, self.inverse_min_event_ndims)
            return _summed(self._inverse_log_det_jacobian(y, **kwargs), y, extra, self.inverse_min_event_ndims)

    def _extra(self, event_ndims: int, least: int) -> int:
        if event_ndims < least:
            raise ValueError(f"event_ndims ({event_ndims}) must be larger than min_event_ndims ({least})")
        return event_ndims - least

    def forward_event_shape(self, input_shape: Any) -> Any:
        """The static shape of a value of the function."""
        return tf.TensorShape(input_shape)

    def inverse_event_shape(self, output_shape: Any) -> Any:
        """The static shape of an argument."""
        return tf.TensorShape(output_shape)


def _summed(values: Any, x: Any, axes: int, least: int) -> Any:
    """Sums log determinants over axes of the event; a constant one counts for every element of these axes."""
    if axes == 0:
        return values
    shape = tf.shape(x)
    batch = shape[: tf.rank(x) - least]
    return tf.reduce_sum(values + tf.zeros(batch, values.dtype), list(range(-axes, 0)))


class _Elementwise(Bijector):
    """A function of each element."""

    def __init__(self, validate_args: bool = False, name: str | None = None) -> None:
        """Takes a name for the nodes."""
        super().__init__(validate_args=validate_args, forward_min_event_ndims=0, name=name)


@export(f"{_SPACE}.Identity")
class Identity(_Elementwise):
    """`y = x`."""

    def _forward(self, x: Any, **kwargs: Any) -> Any:
        return tf.identity(x)

    def _inverse(self, y: Any, **kwargs: Any) -> Any:
        return tf.identity(y)

    def _forward_log_det_jacobian(self, x: Any, **kwargs: Any) -> Any:
        return tf.zeros([], x.dtype)


@export(f"{_SPACE}.Exp")
class Exp(_Elementwise):
    """`y = exp(x)`."""

    def _forward(self, x: Any, **kwargs: Any) -> Any:
        return tf.exp(x)

    def _inverse(self, y: Any, **kwargs: Any) -> Any:
        return tf.log(y)

    def _forward_log_det_jacobian(self, x: Any, **kwargs: Any) -> Any:
        return x

    def _inverse_log_det_jacobian(self, y: Any, **kwargs: Any) -> Any:
        return -tf.log(y)


@export(f"{_SPACE}.Sigmoid")
class Sigmoid(_Elementwise):
    """`y = 1 / (1 + exp(-x))`."""

    def _forward(self, x: Any, **kwargs: Any) -> Any:
        return tf.sigmoid(x)

    def _inverse(self, y: Any, **kwargs: Any) -> Any:
        return tf.log(y) - tf.math.log1p(-y)

    def _forward_log_det_jacobian(self, x: Any, **kwargs: Any) -> Any:
        return -tf.nn.softplus(-x) - tf.nn.softplus(x)


@export(f"{_SPACE}.Softsign")
class Softsign(_Elementwise):
    """`y = x / (1 + |x|)`."""

    def _forward(self, x: Any, **kwargs: Any) -> Any:
        return tf.nn.softsign(x)

    def _inverse(self, y: Any, **kwargs: Any) -> Any:
        return y / (1.0 - tf.abs(y))

    def _forward_log_det_jacobian(self, x: Any, **kwargs: Any) -> Any:
        return -2.0 * tf.math.log1p(tf.abs(x))


@export(f"{_SPACE}.Square")
class Square(_Elementwise):
    """`y = x^2` of numbers that are not negative."""

    def _forward(self, x: Any, **kwargs: Any) -> Any:
        return tf.square(x)

    def _inverse(self, y: Any, **kwargs: Any) -> Any:
        return tf.sqrt(y)

    def _forward_log_det_jacobian(self, x: Any, **kwargs: Any) -> Any:
        return tf.log(2.0 * x)


@export(f"{_SPACE}.Softplus")
class Softplus(_Elementwise):
    """`y = c log(1 + exp(x / c))`."""

    def __init__(self, hinge_softness: Any = None, validate_args: bool = False, name: str = "softplus") -> None:
        """Takes `c`; 1 if None."""
        super().__init__(validate_args, name)
        self.hinge_softness = None if hinge_softness is None else tf.convert_to_tensor(hinge_softness)

    def _scaled(self, x: Any) -> Any:
        return x if self.hinge_softness is None else x / tf.cast(self.hinge_softness, x.dtype)

    def _unscaled(self, x: Any) -> Any:
        return x if self.hinge_softness is None else x * tf.cast(self.hinge_softness, x.dtype)

    def _forward(self, x: Any, **kwargs: Any) -> Any:
        return self._unscaled(tf.nn.softplus(self._scaled(x)))

    def _inverse(self, y: Any, **kwargs: Any) -> Any:
        return self._unscaled(tf.contrib.distributions.softplus_inverse(self._scaled(y)))

    def _forward_log_det_jacobian(self, x: Any, **kwargs: Any) -> Any:
        return -tf.nn.softplus(-self._scaled(x))


@export(f"{_SPACE}.PowerTransform")
class PowerTransform(_Elementwise):
    """`y = (1 + x c)^(1 / c)`; `exp(x)` for a power of 0."""

    def __init__(self, power: float = 0.0, validate_args: bool = False, name: str = "power_transform") -> None:
        """Takes `c`.

        Raises:
            ValueError: If it is negative.
        """
        if power < 0:
            raise ValueError("`power` must be a non-negative number.")
        self.power = power
        super().__init__(validate_args, name)

    def _forward(self, x: Any, **kwargs: Any) -> Any:
        return tf.exp(x) if self.power == 0 else tf.exp(tf.math.log1p(x * self.power) / self.power)

    def _inverse(self, y: Any, **kwargs: Any) -> Any:
        return tf.log(y) if self.power == 0 else tf.math.expm1(tf.log(y) * self.power) / self.power

    def _forward_log_det_jacobian(self, x: Any, **kwargs: Any) -> Any:
        return x if self.power == 0 else (1.0 / self.power - 1.0) * tf.math.log1p(x * self.power)


@export(f"{_SPACE}.AffineScalar")
class AffineScalar(_Elementwise):
    """`y = scale x + shift`, of each element."""

    def __init__(
        self, shift: Any = None, scale: Any = None, validate_args: bool = False, name: str = "affine_scalar"
    ) -> None:
        """Takes both; 0 and 1 if None."""
        super().__init__(validate_args, name)
        self.shift = None if shift is None else tf.convert_to_tensor(shift)
        self.scale = None if scale is None else tf.convert_to_tensor(scale)

    def _forward(self, x: Any, **kwargs: Any) -> Any:
        y = x if self.scale is None else x * self.scale
        return y if self.shift is None else y + self.shift

    def _inverse(self, y: Any, **kwargs: Any) -> Any:
        x = y if self.shift is None else y - self.shift
        return x if self.scale is None else x / self.scale

    def _forward_log_det_jacobian(self, x: Any, **kwargs: Any) -> Any:
        return tf.zeros([], x.dtype) if self.scale is None else tf.log(tf.abs(self.scale))


@export(f"{_SPACE}.AffineLinearOperator")
class AffineLinearOperator(Bijector):
    """`y = scale x + shift` of vectors, with a LinearOperator."""

    def __init__(
        self, shift: Any = None, scale: Any = None, adjoint: bool = False, validate_args: bool = False,
        name: str = "affine_linear_operator",
    ) -> None:  # fmt: skip
        """Takes both; 0 and the identity if None. With `adjoint`, the operator's adjoint is used."""
        super().__init__(validate_args=validate_args, forward_min_event_ndims=1, name=name)
        self.shift = None if shift is None else tf.convert_to_tensor(shift)
        self.scale = scale
        self.adjoint = adjoint

    def _forward(self, x: Any, **kwargs: Any) -> Any:
        y = x if self.scale is None else self.scale.matvec(x, adjoint=self.adjoint)
        return y if self.shift is None else y + self.shift

    def _inverse(self, y: Any, **kwargs: Any) -> Any:
        x = y if self.shift is None else y - self.shift
        return x if self.scale is None else self.scale.solvevec(x, adjoint=self.adjoint)

    def _forward_log_det_jacobian(self, x: Any, **kwargs: Any) -> Any:
        return tf.zeros([], x.dtype) if self.scale is None else self.scale.log_abs_determinant()


@export(f"{_SPACE}.Affine")
class Affine(AffineLinearOperator):
    """`y = (c I + D + T + V D2 V^T) x + shift` of vectors."""

    def __init__(
        self, shift: Any = None, scale_identity_multiplier: Any = None, scale_diag: Any = None, scale_tril: Any = None,
        scale_perturb_factor: Any = None, scale_perturb_diag: Any = None, validate_args: bool = False,
        name: str = "affine",
    ) -> None:  # fmt: skip
        """Takes the parts of the matrix; those that are not given are left out."""
        operator = scale_operator(
            scale_identity_multiplier, scale_diag, scale_tril, scale_perturb_factor, scale_perturb_diag, shift
        )
        super().__init__(shift, operator, False, validate_args, name)


def scale_operator(
    multiplier: Any, diagonal: Any, tril: Any, factor: Any = None, factor_diagonal: Any = None, like: Any = None
) -> Any:
    """The LinearOperator of the sum of the given parts of a matrix; None if there are none."""
    base: Any = None
    if tril is not None:
        matrix = tf.convert_to_tensor(tril)
        if diagonal is not None or multiplier is not None:
            added = 0.0 if diagonal is None else tf.convert_to_tensor(diagonal)
            more = 0.0 if multiplier is None else tf.convert_to_tensor(multiplier)[..., None]
            matrix = tf.matrix_set_diag(matrix, tf.matrix_diag_part(matrix) + added + more)
        base = tf.linalg.LinearOperatorLowerTriangular(matrix)
    elif diagonal is not None:
        added = tf.convert_to_tensor(diagonal)
        base = tf.linalg.LinearOperatorDiag(
            added if multiplier is None else added + tf.convert_to_tensor(multiplier)[..., None]
        )
    elif multiplier is not None or factor is not None:
        sized = tf.convert_to_tensor(like if factor is None else factor)
        size: Any = tf.shape(sized)[-1 if factor is None else -2]
        known = sized.shape[-1 if factor is None else -2]
        size = size if tf.dimension_value(known) is None else tf.dimension_value(known)
        scale = tf.ones([], sized.dtype) if multiplier is None else tf.convert_to_tensor(multiplier)
        base = tf.linalg.LinearOperatorScaledIdentity(size, scale)
    if factor is None:
        return base
    return tf.linalg.LinearOperatorLowRankUpdate(base, factor, factor_diagonal)


@export(f"{_SPACE}.Invert")
class Invert(Bijector):
    """The inverse of a bijector."""

    def __init__(self, bijector: Any, validate_args: bool = False, name: str | None = None) -> None:
        """Takes the bijector."""
        super().__init__(
            validate_args=validate_args, forward_min_event_ndims=bijector.inverse_min_event_ndims,
            inverse_min_event_ndims=bijector.forward_min_event_ndims, name=name or f"invert_{bijector.name}",
        )  # fmt: skip
        self.bijector = bijector

    def _forward(self, x: Any, **kwargs: Any) -> Any:
        return self.bijector._inverse(x, **kwargs)

    def _inverse(self, y: Any, **kwargs: Any) -> Any:
        return self.bijector._forward(y, **kwargs)

    def _forward_log_det_jacobian(self, x: Any, **kwargs: Any) -> Any:
        return self.bijector._inverse_log_det_jacobian(x, **kwargs)

    def _inverse_log_det_jacobian(self, y: Any, **kwargs: Any) -> Any:
        return self.bijector._forward_log_det_jacobian(y, **kwargs)


@export(f"{_SPACE}.Chain")
class Chain(Bijector):
    """Bijectors one after the other: the last of the list acts first."""

    def __init__(self, bijectors: Any = None, validate_args: bool = False, name: str | None = None) -> None:
        """Takes the bijectors, which keep the number of axes."""
        self.bijectors = list(bijectors or [])
        least = max((each.forward_min_event_ndims for each in self.bijectors), default=0)
        joined = "identity" if not self.bijectors else "_of_".join(["chain", *(b.name for b in self.bijectors)])
        super().__init__(validate_args=validate_args, forward_min_event_ndims=least, name=name or joined)

    def _forward(self, x: Any, **kwargs: Any) -> Any:
        for each in reversed(self.bijectors):
            x = each.forward(x, **kwargs.get(each.name, {}))
        return x

    def _inverse(self, y: Any, **kwargs: Any) -> Any:
        for each in self.bijectors:
            y = each.inverse(y, **kwargs.get(each.name, {}))
        return y

    def _forward_log_det_jacobian(self, x: Any, **kwargs: Any) -> Any:
        total = tf.zeros([], x.dtype)
        for each in reversed(self.bijectors):
            options = kwargs.get(each.name, {})
            total += each.forward_log_det_jacobian(x, self.forward_min_event_ndims, **options)
            x = each.forward(x, **options)
        return total

    def _inverse_log_det_jacobian(self, y: Any, **kwargs: Any) -> Any:
        total = tf.zeros([], y.dtype)
        for each in self.bijectors:
            options = kwargs.get(each.name, {})
            total += each.inverse_log_det_jacobian(y, self.forward_min_event_ndims, **options)
            y = each.inverse(y, **options)
        return total


@export(f"{_SPACE}.Permute")
class Permute(Bijector):
    """Puts the elements of vectors into another order."""

    def __init__(self, permutation: Any, validate_args: bool = False, name: str = "permute") -> None:
        """Takes the permutation: element `i` of the result is element `permutation[i]`."""
        super().__init__(is_constant_jacobian=True, validate_args=validate_args, forward_min_event_ndims=1, name=name)
        self.permutation = tf.convert_to_tensor(permutation, tf.int32)

    def _forward(self, x: Any, **kwargs: Any) -> Any:
        return tf.gather(x, self.permutation, axis=-1)

    def _inverse(self, y: Any, **kwargs: Any) -> Any:
        return tf.gather(y, tf.invert_permutation(self.permutation), axis=-1)

    def _forward_log_det_jacobian(self, x: Any, **kwargs: Any) -> Any:
        return tf.zeros([], x.dtype)


@export(f"{_SPACE}.Inline")
class Inline(Bijector):
    """A bijector of given functions."""

    def __init__(
        self, forward_fn: Callable[..., Any] | None = None, inverse_fn: Callable[..., Any] | None = None,
        inverse_log_det_jacobian_fn: Callable[..., Any] | None = None,
        forward_log_det_jacobian_fn: Callable[..., Any] | None = None, forward_event_shape_fn: Any = None,
        forward_event_shape_tensor_fn: Any = None, inverse_event_shape_fn: Any = None,
        inverse_event_shape_tensor_fn: Any = None, is_constant_jacobian: bool = False, validate_args: bool = False,
        forward_min_event_ndims: int | None = None, inverse_min_event_ndims: int | None = None, name: str = "inline",
    ) -> None:  # fmt: skip
        """Takes the functions; one log determinant is enough if its direction has a function."""
        super().__init__(
            [], is_constant_jacobian, validate_args, None, forward_min_event_ndims, inverse_min_event_ndims, name
        )
        self._functions = {
            "forward": forward_fn, "inverse": inverse_fn, "ildj": inverse_log_det_jacobian_fn,
            "fldj": forward_log_det_jacobian_fn,
        }  # fmt: skip

    def _call(self, name: str, x: Any, kwargs: dict[str, Any]) -> Any:
        function = self._functions[name]
        if function is None:
            raise NotImplementedError(f"Cannot compute {name}: no function was given for it.")
        return function(x, **kwargs)

    def _forward(self, x: Any, **kwargs: Any) -> Any:
        return self._call("forward", x, kwargs)

    def _inverse(self, y: Any, **kwargs: Any) -> Any:
        return self._call("inverse", y, kwargs)

    def _forward_log_det_jacobian(self, x: Any, **kwargs: Any) -> Any:
        if self._functions["fldj"] is None:
            return -self._call("ildj", self._forward(x, **kwargs), kwargs)
        return self._call("fldj", x, kwargs)

    def _inverse_log_det_jacobian(self, y: Any, **kwargs: Any) -> Any:
        if self._functions["ildj"] is None:
            return -self._call("fldj", self._inverse(y, **kwargs), kwargs)
        return self._call("ildj", y, kwargs)
