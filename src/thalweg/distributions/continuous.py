"""Continuous distributions of scalars: Normal, Uniform, Laplace, StudentT, Gamma, Exponential, Beta."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from thalweg.distributions.distribution import (
    FULLY_REPARAMETERIZED,
    NOT_REPARAMETERIZED,
    Distribution,
    RegisterKL,
    another_seed,
    checked,
    tf_,
)
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export


def _floats(*values: Any) -> list[Any]:
    """Parameters as tensors of one type: float32, unless one says otherwise."""
    given = next((v.dtype for v in values if hasattr(v, "dtype")), None)
    return [tf_.convert_to_tensor(v, dtype=None if given is None else tf_.as_dtype(given).base_dtype) for v in values]


class _LocationScale(Distribution):
    """Distributions of `loc + scale * z`."""

    def __init__(
        self, loc: Any, scale: Any, validate_args: bool, allow_nan_stats: bool, name: str, parameters: dict[str, Any]
    ) -> None:
        with name_scope(name, values=[loc, scale]) as scope:
            loc, scale = _floats(loc, scale)
            self.loc = tf_.identity(loc, name="loc")
            self.scale = checked(scale, validate_args, tf_.assert_positive)
        super().__init__(
            self.loc.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, scope,
            [self.loc, self.scale],
        )  # fmt: skip

    def _standardized(self, x: Any) -> Any:
        return (x - self.loc) / self.scale

    def _mean(self) -> Any:
        return self._broadcast_to_batch(self.loc)

    _mode = _mean


@export("distributions.Normal")
class Normal(_LocationScale):
    """The normal distribution with mean `loc` and standard deviation `scale`.

    Example:
        >>> n = tf.distributions.Normal(loc=0.0, scale=[1.0, 2.0])
        >>> n.sample(3).shape.as_list()
        [3, 2]
    """

    def __init__(
        self, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Normal"
    ) -> None:
        """Takes the parameters, which broadcast; `validate_args` checks that the scale is positive."""
        super().__init__(loc, scale, validate_args, allow_nan_stats, name, dict(locals()))

    def _sample(self, count: Any, seed: int | None) -> Any:
        return self.loc + self.scale * tf_.random_normal(self._sample_shape(count), dtype=self.dtype, seed=seed)

    def _log_prob(self, x: Any) -> Any:
        return -0.5 * tf_.square(self._standardized(x)) - 0.5 * math.log(2 * math.pi) - tf_.log(self.scale)

    def _cdf(self, x: Any) -> Any:
        return 0.5 * tf_.erfc(-self._standardized(x) * math.sqrt(0.5))

    def _quantile(self, p: Any) -> Any:
        return self.loc + self.scale * tf_.math.ndtri(p)

    def _entropy(self) -> Any:
        return self._broadcast_to_batch(0.5 * math.log(2 * math.pi * math.e) + tf_.log(self.scale))

    def _variance(self) -> Any:
        return self._broadcast_to_batch(tf_.square(self.scale))


@export("distributions.Laplace")
class Laplace(_LocationScale):
    """The Laplace (two-sided exponential) distribution."""

    def __init__(
        self, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Laplace"
    ) -> None:
        """Takes the parameters, which broadcast; `validate_args` checks that the scale is positive."""
        super().__init__(loc, scale, validate_args, allow_nan_stats, name, dict(locals()))

    def _sample(self, count: Any, seed: int | None) -> Any:
        # Just above -1: the logarithm of 0 must not be taken.
        lowest = -1.0 + 2.0**-23
        u = tf_.random_uniform(self._sample_shape(count), lowest, 1.0, self.dtype, seed)
        return self.loc - self.scale * tf_.sign(u) * tf_.log1p(-tf_.abs(u))

    def _log_prob(self, x: Any) -> Any:
        return -tf_.abs(self._standardized(x)) - math.log(2) - tf_.log(self.scale)

    def _cdf(self, x: Any) -> Any:
        z = self._standardized(x)
        return 0.5 - 0.5 * tf_.sign(z) * tf_.expm1(-tf_.abs(z))

    def _entropy(self) -> Any:
        return self._broadcast_to_batch(math.log(2) + 1.0 + tf_.log(self.scale))

    def _variance(self) -> Any:
        return self._broadcast_to_batch(2.0 * tf_.square(self.scale))


@export("distributions.StudentT")
class StudentT(_LocationScale):
    """Student's t distribution with `df` degrees of freedom."""

    def __init__(
        self, df: Any, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "StudentT",
    ) -> None:  # fmt: skip
        """Takes the parameters, which broadcast; `validate_args` checks that df and scale are positive."""
        super().__init__(loc, scale, validate_args, allow_nan_stats, name, dict(locals()))
        self.df = checked(tf_.convert_to_tensor(df, dtype=self.dtype), validate_args, tf_.assert_positive)
        self._batch.append(self.df)

    def _sample(self, count: Any, seed: int | None) -> Any:
        normal = tf_.random_normal(self._sample_shape(count), dtype=self.dtype, seed=seed)
        df = self._broadcast_to_batch(self.df)
        chi2 = tf_.random_gamma([count], 0.5 * df, beta=0.5, dtype=self.dtype, seed=another_seed(seed, "student_t"))
        return self.loc + self.scale * normal / tf_.sqrt(chi2 / df)

    def _log_prob(self, x: Any) -> Any:
        half = 0.5 * self.df
        norm = tf_.lgamma(half + 0.5) - tf_.lgamma(half) - 0.5 * tf_.log(self.df * math.pi) - tf_.log(self.scale)
        return norm - (half + 0.5) * tf_.log1p(tf_.square(self._standardized(x)) / self.df)

    def _mean(self) -> Any:
        loc = self._broadcast_to_batch(self.loc)
        return tf_.where(
            self._broadcast_to_batch(self.df) > 1.0, loc, tf_.fill(tf_.shape(loc), tf_.cast(math.nan, self.dtype))
        )

    def _variance(self) -> Any:
        df = self._broadcast_to_batch(self.df)
        finite = tf_.square(self.scale) * df / (df - 2.0)
        unbounded = tf_.fill(tf_.shape(finite), tf_.cast(math.inf, self.dtype))
        undefined = tf_.fill(tf_.shape(finite), tf_.cast(math.nan, self.dtype))
        return tf_.where(df > 2.0, finite, tf_.where(df > 1.0, unbounded, undefined))


@export("distributions.Uniform")
class Uniform(Distribution):
    """The uniform distribution on [low, high)."""

    def __init__(
        self, low: Any = 0.0, high: Any = 1.0, validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "Uniform",
    ) -> None:  # fmt: skip
        """Takes the bounds, which broadcast; `validate_args` checks that low < high."""
        parameters = dict(locals())
        with name_scope(name, values=[low, high]) as scope:
            low, high = _floats(low, high)
            self.low = checked(low, validate_args, lambda x: tf_.assert_less(x, high))
            self.high = tf_.identity(high, name="high")
        super().__init__(
            self.low.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, scope,
            [self.low, self.high],
        )  # fmt: skip

    def range(self, name: str = "range") -> Any:
        """`high - low`."""
        return tf_.subtract(self.high, self.low, name=name)

    def _sample(self, count: Any, seed: int | None) -> Any:
        return self.low + self.range() * tf_.random_uniform(self._sample_shape(count), dtype=self.dtype, seed=seed)

    def _inside(self, x: Any) -> Any:
        return tf_.logical_and(x >= self.low, x < self.high)

    def prob(self, value: Any, name: str = "prob") -> Any:
        """The density at `value`."""
        with self._scope(name, value):
            value = self._value(value)
            return tf_.cast(self._inside(value), self.dtype) / self.range()

    def _log_prob(self, x: Any) -> Any:
        return tf_.log(self.prob(x))

    def _cdf(self, x: Any) -> Any:
        return tf_.clip_by_value((x - self.low) / self.range(), 0.0, 1.0)

    def _quantile(self, p: Any) -> Any:
        return self.low + self.range() * p

    def _entropy(self) -> Any:
        return tf_.log(self.range())

    def _mean(self) -> Any:
        return (self.low + self.high) / 2.0

    def _variance(self) -> Any:
        return tf_.square(self.range()) / 12.0


@export("distributions.Gamma")
class Gamma(Distribution):
    """The gamma distribution with shape `concentration` and inverse scale `rate`."""

    def __init__(
        self, concentration: Any, rate: Any, validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "Gamma",
    ) -> None:  # fmt: skip
        """Takes the parameters, which broadcast; `validate_args` checks that they are positive."""
        self._init(concentration, rate, validate_args, allow_nan_stats, name, dict(locals()))

    def _init(self, alpha: Any, beta: Any, validate: bool, nan: bool, name: str, parameters: dict[str, Any]) -> None:
        with name_scope(name, values=[alpha, beta]) as scope:
            alpha, beta = _floats(alpha, beta)
            self.concentration = checked(alpha, validate, tf_.assert_positive)
            self.rate = checked(beta, validate, tf_.assert_positive)
        Distribution.__init__(
            self, self.rate.dtype, NOT_REPARAMETERIZED, validate, nan, parameters, scope,
            [self.concentration, self.rate],
        )  # fmt: skip

    def _sample(self, count: Any, seed: int | None) -> Any:
        return tf_.random_gamma([count], self.concentration, self.rate, self.dtype, seed)

    def _log_prob(self, x: Any) -> Any:
        alpha, beta = self.concentration, self.rate
        return (alpha - 1.0) * tf_.log(x) - beta * x + alpha * tf_.log(beta) - tf_.lgamma(alpha)

    def _cdf(self, x: Any) -> Any:
        alpha = self._broadcast_to_batch(self.concentration)
        scaled = self.rate * x
        return tf_.igamma(alpha + tf_.zeros_like(scaled), scaled + tf_.zeros_like(alpha))

    def _entropy(self) -> Any:
        alpha = self.concentration
        return alpha - tf_.log(self.rate) + tf_.lgamma(alpha) + (1.0 - alpha) * tf_.digamma(alpha)

    def _mean(self) -> Any:
        return self.concentration / self.rate

    def _variance(self) -> Any:
        return self.concentration / tf_.square(self.rate)

    def _mode(self) -> Any:
        mode = (self.concentration - 1.0) / self.rate
        undefined = tf_.fill(tf_.shape(mode), tf_.cast(math.nan, self.dtype))
        return tf_.where(self._broadcast_to_batch(self.concentration) > 1.0, mode, undefined)


@export("distributions.Exponential")
class Exponential(Gamma):
    """The exponential distribution with mean `1 / rate`."""

    def __init__(
        self, rate: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Exponential"
    ) -> None:
        """Takes the rate; `validate_args` checks that it is positive."""
        parameters = dict(locals())
        (rate,) = _floats(rate)
        self._init(tf_.ones_like(rate), rate, validate_args, allow_nan_stats, name, parameters)

    def _sample(self, count: Any, seed: int | None) -> Any:
        # The logarithm of 0 must not be taken.
        tiny = float(np.finfo(self.dtype.as_numpy_dtype).tiny)
        u = tf_.random_uniform(self._sample_shape(count), tiny, 1.0, self.dtype, seed)
        return -tf_.log(u) / self.rate

    def _log_prob(self, x: Any) -> Any:
        return tf_.log(self.rate) - self.rate * x

    def _cdf(self, x: Any) -> Any:
        return -tf_.expm1(-self.rate * x)

    def _entropy(self) -> Any:
        return 1.0 - tf_.log(self.rate)


@export("distributions.Beta")
class Beta(Distribution):
    """The beta distribution on (0, 1)."""

    def __init__(
        self, concentration1: Any = None, concentration0: Any = None, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "Beta",
    ) -> None:  # fmt: skip
        """Takes both parameters, which broadcast; `validate_args` checks that they are positive."""
        parameters = dict(locals())
        with name_scope(name, values=[concentration1, concentration0]) as scope:
            a, b = _floats(concentration1, concentration0)
            self.concentration1 = checked(a, validate_args, tf_.assert_positive)
            self.concentration0 = checked(b, validate_args, tf_.assert_positive)
            self.total_concentration = self.concentration1 + self.concentration0
        super().__init__(
            self.total_concentration.dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, scope,
            [self.total_concentration],
        )  # fmt: skip

    def _sample(self, count: Any, seed: int | None) -> Any:
        a, b = self._broadcast_to_batch(self.concentration1), self._broadcast_to_batch(self.concentration0)
        x = tf_.random_gamma([count], a, dtype=self.dtype, seed=seed)
        y = tf_.random_gamma([count], b, dtype=self.dtype, seed=another_seed(seed, "beta"))
        return x / (x + y)

    def _log_norm(self) -> Any:
        return tf_.lgamma(self.concentration1) + tf_.lgamma(self.concentration0) - tf_.lgamma(self.total_concentration)

    def _log_prob(self, x: Any) -> Any:
        a, b = self.concentration1, self.concentration0
        return (a - 1.0) * tf_.log(x) + (b - 1.0) * tf_.log1p(-x) - self._log_norm()

    def _cdf(self, x: Any) -> Any:
        like = tf_.zeros_like(x) + tf_.zeros_like(self.total_concentration)
        return tf_.betainc(self.concentration1 + like, self.concentration0 + like, x + like)

    def _mean(self) -> Any:
        return self.concentration1 / self.total_concentration

    def _variance(self) -> Any:
        mean = self._mean()
        return mean * (1.0 - mean) / (1.0 + self.total_concentration)

    def _entropy(self) -> Any:
        a, b, total = self.concentration1, self.concentration0, self.total_concentration
        terms = (a - 1.0) * tf_.digamma(a) + (b - 1.0) * tf_.digamma(b)
        return self._log_norm() - terms + (total - 2.0) * tf_.digamma(total)


@RegisterKL(Normal, Normal)
def _kl_normals(a: Normal, b: Normal, name: str | None = None) -> Any:
    ratio = tf_.square(a.scale / b.scale)
    return tf_.square((a.loc - b.loc) / b.scale) / 2.0 + 0.5 * (ratio - 1.0 - tf_.log(ratio))


@RegisterKL(Uniform, Uniform)
def _kl_uniforms(a: Uniform, b: Uniform, name: str | None = None) -> Any:
    finite = tf_.log(b.range() / a.range())
    within = tf_.logical_and(b.low <= a.low, a.high <= b.high)
    return tf_.where(within, finite, tf_.fill(tf_.shape(finite), tf_.cast(math.inf, finite.dtype)))


@RegisterKL(Gamma, Gamma)
def _kl_gammas(a: Gamma, b: Gamma, name: str | None = None) -> Any:
    return (
        (a.concentration - b.concentration) * tf_.digamma(a.concentration)
        + tf_.lgamma(b.concentration)
        - tf_.lgamma(a.concentration)
        + b.concentration * (tf_.log(a.rate) - tf_.log(b.rate))
        + a.concentration * (b.rate / a.rate - 1.0)
    )


@RegisterKL(Beta, Beta)
def _kl_betas(a: Beta, b: Beta, name: str | None = None) -> Any:
    one, zero = a.concentration1 - b.concentration1, a.concentration0 - b.concentration0
    digammas = one * tf_.digamma(a.concentration1) + zero * tf_.digamma(a.concentration0)
    return b._log_norm() - a._log_norm() + digammas - (one + zero) * tf_.digamma(a.total_concentration)
