"""Distributions of numbers beside those of tf.distributions: Cauchy, Gumbel, Logistic, Poisson and others."""

from __future__ import annotations

import math
from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.distributions.distribution import another_seed
from thalweg.graph.definitions.op_registry import export

_base: Any = tf.distributions.Distribution
_EULER = 0.5772156649015329
_SMALLEST = 1.1754944e-38  # The least normal float32: its logarithm is finite.


class _Scalar(_base):  # type: ignore[misc]
    """A distribution of numbers whose parameters broadcast to the batch."""

    def _set(self, arguments: dict[str, Any], names: str, is_reparameterized: bool = True) -> None:
        """Keeps the parameters of `names` as tensors of one type; `arguments` are those of the constructor."""
        given = {name: arguments[name] for name in names.split()}
        kind = next((tf.as_dtype(v.dtype).base_dtype for v in given.values() if hasattr(v, "dtype")), None)
        with tf.name_scope(arguments["name"], values=[v for v in given.values() if v is not None]) as scope:
            for name, value in given.items():
                setattr(self, name, None if value is None else tf.convert_to_tensor(value, dtype=kind, name=name))
        tensors = [getattr(self, name) for name in given if given[name] is not None]
        how = tf.distributions.FULLY_REPARAMETERIZED if is_reparameterized else tf.distributions.NOT_REPARAMETERIZED
        _base.__init__(
            self, tensors[0].dtype, how, arguments["validate_args"], arguments["allow_nan_stats"], arguments, scope,
            tensors,
        )  # fmt: skip

    def _uniform(self, count: Any, seed: Any) -> Any:
        return tf.random_uniform(self._sample_shape(count), _SMALLEST, 1.0, self.dtype, seed=seed)

    def _nan(self) -> Any:
        return tf.fill(self.batch_shape_tensor(), tf.cast(math.nan, self.dtype))


class _LocationScale(_Scalar):
    """`loc + scale * z`; subclasses say what the distribution of `z` is."""

    def __init__(
        self, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str | None = None
    ) -> None:
        """Takes location and scale, which broadcast."""
        name = name or type(self).__name__
        self._set(dict(locals()), "loc scale")

    def _z(self, x: Any) -> Any:
        return (x - self.loc) / self.scale

    def _mode(self) -> Any:
        return self._broadcast_to_batch(self.loc)

    def _sample(self, count: Any, seed: Any) -> Any:
        return self.loc + self.scale * self._quantile_of_z(self._uniform(count, seed))

    def _quantile(self, p: Any) -> Any:
        return self.loc + self.scale * self._quantile_of_z(p)


@export("contrib.distributions.Cauchy")
class Cauchy(_LocationScale):
    """The Cauchy distribution, which has neither mean nor variance."""

    def _quantile_of_z(self, p: Any) -> Any:
        return tf.tan(math.pi * (p - 0.5))

    def _log_prob(self, x: Any) -> Any:
        return -tf.log1p(tf.square(self._z(x))) - math.log(math.pi) - tf.log(self.scale)

    def _cdf(self, x: Any) -> Any:
        return tf.atan(self._z(x)) / math.pi + 0.5

    def _entropy(self) -> Any:
        return self._broadcast_to_batch(math.log(4 * math.pi) + tf.log(self.scale))

    def _mean(self) -> Any:
        return self._nan()

    _variance = _mean


@export("contrib.distributions.Gumbel")
class Gumbel(_LocationScale):
    """The Gumbel distribution, that of largest values."""

    def _quantile_of_z(self, p: Any) -> Any:
        return -tf.log(-tf.log(p))

    def _log_prob(self, x: Any) -> Any:
        z = self._z(x)
        return -z - tf.exp(-z) - tf.log(self.scale)

    def _cdf(self, x: Any) -> Any:
        return tf.exp(-tf.exp(-self._z(x)))

    def _entropy(self) -> Any:
        return self._broadcast_to_batch(1.0 + tf.log(self.scale) + _EULER)

    def _mean(self) -> Any:
        return self._broadcast_to_batch(self.loc + self.scale * _EULER)

    def _variance(self) -> Any:
        return self._broadcast_to_batch(tf.square(self.scale) * (math.pi**2 / 6))


@export("contrib.distributions.Logistic")
class Logistic(_LocationScale):
    """The logistic distribution."""

    def _quantile_of_z(self, p: Any) -> Any:
        return tf.log(p) - tf.log1p(-p)

    def _log_prob(self, x: Any) -> Any:
        z = self._z(x)
        return -z - 2.0 * tf.nn.softplus(-z) - tf.log(self.scale)

    def _cdf(self, x: Any) -> Any:
        return tf.sigmoid(self._z(x))

    def _entropy(self) -> Any:
        return self._broadcast_to_batch(2.0 + tf.log(self.scale))

    def _mean(self) -> Any:
        return self._broadcast_to_batch(self.loc)

    def _variance(self) -> Any:
        return self._broadcast_to_batch(tf.square(self.scale) * (math.pi**2 / 3))


@export("contrib.distributions.HalfNormal")
class HalfNormal(_Scalar):
    """The absolute value of a normal variable with mean 0."""

    def __init__(
        self, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "HalfNormal"
    ) -> None:
        """Takes the standard deviation of the normal variable."""
        self._set(dict(locals()), "scale")

    def _sample(self, count: Any, seed: Any) -> Any:
        return tf.abs(self.scale * tf.random_normal(self._sample_shape(count), dtype=self.dtype, seed=seed))

    def _log_prob(self, x: Any) -> Any:
        inside = 0.5 * math.log(2 / math.pi) - tf.log(self.scale) - 0.5 * tf.square(x / self.scale)
        return tf.where(x < 0.0, tf.fill(tf.shape(inside), tf.cast(-math.inf, self.dtype)), inside)

    def _cdf(self, x: Any) -> Any:
        return tf.erf(tf.nn.relu(x) / self.scale / math.sqrt(2))

    def _entropy(self) -> Any:
        return 0.5 * tf.log(math.pi * tf.square(self.scale) / 2.0) + 0.5

    def _mean(self) -> Any:
        return self.scale * math.sqrt(2 / math.pi)

    def _variance(self) -> Any:
        return tf.square(self.scale) * (1 - 2 / math.pi)

    def _mode(self) -> Any:
        return tf.zeros_like(self.scale)


@export("contrib.distributions.InverseGamma")
class InverseGamma(_Scalar):
    """The distribution of `1 / x` for a gamma variable `x`."""

    def __init__(
        self, concentration: Any, rate: Any, validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "InverseGamma",
    ) -> None:  # fmt: skip
        """Takes shape and scale."""
        self._set(dict(locals()), "concentration rate", is_reparameterized=False)

    def _sample(self, count: Any, seed: Any) -> Any:
        return 1.0 / tf.random_gamma([count], self.concentration, self.rate, self.dtype, seed)

    def _log_prob(self, x: Any) -> Any:
        a, b = self.concentration, self.rate
        return a * tf.log(b) - tf.lgamma(a) - (1.0 + a) * tf.log(x) - b / x

    def _entropy(self) -> Any:
        a = self.concentration
        return a + tf.log(self.rate) + tf.lgamma(a) - (1.0 + a) * tf.digamma(a)

    def _mean(self) -> Any:
        mean = self._broadcast_to_batch(self.rate / (self.concentration - 1.0))
        return tf.where(self._broadcast_to_batch(self.concentration) > 1.0, mean, self._nan())

    def _variance(self) -> Any:
        a = self._broadcast_to_batch(self.concentration)
        return tf.where(a > 2.0, tf.square(self.rate / (a - 1.0)) / (a - 2.0), self._nan())

    def _mode(self) -> Any:
        return self.rate / (1.0 + self.concentration)


@export("contrib.distributions.Chi2")
class Chi2(tf.distributions.Gamma):
    """The distribution of the sum of `df` squares of standard normal variables."""

    def __init__(self, df: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Chi2") -> None:
        """Takes the degrees of freedom."""
        arguments = dict(locals())
        self.df = tf.convert_to_tensor(df, name="df")
        self._init(0.5 * self.df, tf.constant(0.5, self.df.dtype), validate_args, allow_nan_stats, name, arguments)


@export("contrib.distributions.Poisson")
class Poisson(_Scalar):
    """Counts of events of which `rate` happen on average."""

    rate: Any
    log_rate: Any

    def __init__(
        self, rate: Any = None, log_rate: Any = None, validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "Poisson",
    ) -> None:  # fmt: skip
        """Takes the rate, or its logarithm.

        Raises:
            ValueError: If both or none are given.
        """
        if (rate is None) == (log_rate is None):
            raise ValueError("Must specify exactly one of `rate` and `log_rate`.")
        arguments = dict(locals())
        self._set(arguments, "log_rate" if rate is None else "rate", is_reparameterized=False)
        if rate is None:
            self.rate = tf.exp(self.log_rate)
        else:
            self.log_rate = tf.log(self.rate)

    def _sample(self, count: Any, seed: Any) -> Any:
        return tf.random_poisson(self.rate, [count], self.dtype, seed)

    def _log_prob(self, x: Any) -> Any:
        return x * self.log_rate - tf.lgamma(1.0 + x) - self.rate

    def _cdf(self, x: Any) -> Any:
        shape = tf.floor(x + 1.0) + tf.zeros_like(self.rate)
        return tf.igammac(shape, self.rate + tf.zeros_like(shape))

    def _mean(self) -> Any:
        return tf.identity(self.rate)

    _variance = _mean

    def _mode(self) -> Any:
        return tf.floor(self.rate)


class _Counts(_Scalar):
    """Counts with a probability, given as such or as logits."""

    probs: Any
    logits: Any

    def _set_chance(self, arguments: dict[str, Any], names: str) -> None:
        if (arguments["logits"] is None) == (arguments["probs"] is None):
            raise ValueError("Must pass probs or logits, but not both.")
        given = "probs" if arguments["logits"] is None else "logits"
        self._set(arguments, f"{names} {given}".strip(), is_reparameterized=False)
        if given == "probs":
            self.logits = tf.log(self.probs) - tf.log1p(-self.probs)
        else:
            self.probs = tf.sigmoid(self.logits)


@export("contrib.distributions.Geometric")
class Geometric(_Counts):
    """How often a trial fails before it succeeds."""

    def __init__(
        self, logits: Any = None, probs: Any = None, validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "Geometric",
    ) -> None:  # fmt: skip
        """Takes the probability of success, or its logits."""
        self._set_chance(dict(locals()), "")

    def _sample(self, count: Any, seed: Any) -> Any:
        return tf.floor(tf.log(self._uniform(count, seed)) / tf.log1p(-self.probs))

    def _log_prob(self, x: Any) -> Any:
        return x * tf.log1p(-self.probs) + tf.log(self.probs)

    def _cdf(self, x: Any) -> Any:
        return -tf.expm1((1.0 + tf.floor(x)) * tf.log1p(-self.probs))

    def _entropy(self) -> Any:
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=self.probs, logits=self.logits) / self.probs

    def _mean(self) -> Any:
        return tf.exp(-self.logits)

    def _variance(self) -> Any:
        return self._mean() / self.probs

    def _mode(self) -> Any:
        return tf.zeros(self.batch_shape_tensor(), self.dtype)


@export("contrib.distributions.Binomial")
class Binomial(_Counts):
    """How many of `total_count` trials succeed."""

    def __init__(
        self, total_count: Any, logits: Any = None, probs: Any = None, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "Binomial",
    ) -> None:  # fmt: skip
        """Takes the number of trials, and the probability of success or its logits."""
        self._set_chance(dict(locals()), "total_count")

    def _sample(self, count: Any, seed: Any) -> Any:
        # As many uniform numbers as the largest count of trials: those below the probability are successes.
        most = tf.cast(tf.reduce_max(self.total_count), tf.int32)
        shape = tf.concat([self._sample_shape(count), [most]], 0)
        hits = tf.random_uniform(shape, dtype=self.dtype, seed=seed) < self._broadcast_to_batch(self.probs)[..., None]
        counted = tf.cast(tf.range(most), self.dtype) < self._broadcast_to_batch(self.total_count)[..., None]
        return tf.reduce_sum(tf.cast(tf.logical_and(hits, counted), self.dtype), -1)

    def _log_prob(self, x: Any) -> Any:
        n = self.total_count
        ways = tf.lgamma(1.0 + n) - tf.lgamma(1.0 + x) - tf.lgamma(1.0 + n - x)
        return ways + x * tf.log(self.probs) + (n - x) * tf.log1p(-self.probs)

    def _mean(self) -> Any:
        return self.total_count * self.probs

    def _variance(self) -> Any:
        return self._mean() * (1.0 - self.probs)

    def _mode(self) -> Any:
        return tf.floor((1.0 + self.total_count) * self.probs)


@export("contrib.distributions.NegativeBinomial")
class NegativeBinomial(_Counts):
    """How many trials succeed before `total_count` have failed."""

    def __init__(
        self, total_count: Any, logits: Any = None, probs: Any = None, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "NegativeBinomial",
    ) -> None:  # fmt: skip
        """Takes the number of failures, and the probability of success or its logits."""
        self._set_chance(dict(locals()), "total_count")

    def _sample(self, count: Any, seed: Any) -> Any:
        total = self._broadcast_to_batch(self.total_count)
        rate = tf.random_gamma([count], total, tf.exp(-self.logits) + tf.zeros_like(total), self.dtype, seed)
        return tf.random_poisson(rate, [], self.dtype, another_seed(seed, "NegativeBinom"))

    def _log_prob(self, x: Any) -> Any:
        n = self.total_count
        ways = tf.lgamma(n + x) - tf.lgamma(1.0 + x) - tf.lgamma(n)
        return ways + n * tf.log1p(-self.probs) + x * tf.log(self.probs)

    def _mean(self) -> Any:
        return self.total_count * tf.exp(self.logits)

    def _variance(self) -> Any:
        return self._mean() / (1.0 - self.probs)


@export("contrib.distributions.Deterministic")
class Deterministic(_Scalar):
    """Always the same number."""

    def __init__(
        self, loc: Any, atol: Any = None, rtol: Any = None, validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "Deterministic",
    ) -> None:  # fmt: skip
        """Takes the number, and how far another one may be from it to count as equal."""
        self._set(dict(locals()), "loc")
        self.atol = tf.convert_to_tensor(0.0 if atol is None else atol, self.dtype)
        self.rtol = tf.convert_to_tensor(0.0 if rtol is None else rtol, self.dtype)

    def _sample(self, count: Any, seed: Any) -> Any:
        return self.loc + tf.zeros(self._sample_shape(count), self.dtype)

    def _log_prob(self, x: Any) -> Any:
        return tf.log(tf.cast(tf.abs(x - self.loc) <= self.atol + self.rtol * tf.abs(self.loc), self.dtype))

    def _cdf(self, x: Any) -> Any:
        return tf.cast(x >= self.loc - self.atol - self.rtol * tf.abs(self.loc), self.dtype)

    def _mean(self) -> Any:
        return tf.identity(self.loc)

    _mode = _mean

    def _variance(self) -> Any:
        return tf.zeros_like(self.loc)

    _entropy = _variance


@export("contrib.distributions.RelaxedBernoulli")
class RelaxedBernoulli(_Counts):
    """Numbers between 0 and 1; nearly one of both at a low temperature (Maddison, 2016)."""

    def __init__(
        self, temperature: Any, logits: Any = None, probs: Any = None, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "RelaxedBernoulli",
    ) -> None:  # fmt: skip
        """Takes the temperature, and the probability of 1 or its logits."""
        self._set_chance(dict(locals()), "temperature")
        self.reparameterization_type = tf.distributions.FULLY_REPARAMETERIZED

    def _sample(self, count: Any, seed: Any) -> Any:
        u = self._uniform(count, seed)
        return tf.sigmoid((self.logits + tf.log(u) - tf.log1p(-u)) / self.temperature)

    def _log_prob(self, x: Any) -> Any:
        logit = tf.log(x) - tf.log1p(-x)
        z = self.temperature * logit - self.logits
        logistic = -z - 2.0 * tf.nn.softplus(-z) + tf.log(self.temperature)
        return logistic - tf.log(x) - tf.log1p(-x)
