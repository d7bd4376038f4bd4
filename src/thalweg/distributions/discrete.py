"""Discrete distributions and those on the simplex: Bernoulli, Categorical, Multinomial, Dirichlet."""

from __future__ import annotations

from typing import Any

from thalweg.distributions.distribution import NOT_REPARAMETERIZED, Distribution, RegisterKL, checked, tf_
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export


def _logits_and_probs(logits: Any, probs: Any, validate: bool, classes: bool) -> tuple[Any, Any]:
    """Both forms of the parameters, from the one that was given."""
    if (logits is None) == (probs is None):
        raise ValueError(
            "Must pass probs or logits, but not both." if probs is not None else "Must pass probs or logits."
        )
    if probs is None:
        logits = tf_.convert_to_tensor(logits, name="logits")
        return logits, tf_.nn.softmax(logits) if classes else tf_.sigmoid(logits)
    probs = tf_.convert_to_tensor(probs, name="probs")
    at_most_one = (lambda p: tf_.assert_less_equal(p, tf_.ones_like(p)),)
    probs = checked(probs, validate, tf_.assert_non_negative, *at_most_one)
    return tf_.log(probs) if classes else tf_.log(probs) - tf_.log1p(-probs), probs


@export("distributions.Bernoulli")
class Bernoulli(Distribution):
    """The distribution of 1 with probability `probs`, else 0."""

    def __init__(
        self, logits: Any = None, probs: Any = None, dtype: Any = None, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "Bernoulli",
    ) -> None:  # fmt: skip
        """Takes the probabilities, or their log odds; `dtype` is the type of samples (int32)."""
        parameters = dict(locals())
        with name_scope(name, values=[logits, probs]) as scope:
            self.logits, self.probs = _logits_and_probs(logits, probs, validate_args, False)
        dtype = tf_.as_dtype(dtype or tf_.int32)
        super().__init__(dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, scope, [self.logits])

    def _sample(self, count: Any, seed: int | None) -> Any:
        u = tf_.random_uniform(self._sample_shape(count), dtype=self.probs.dtype, seed=seed)
        return tf_.cast(u < self.probs, self.dtype)

    def _log_prob(self, event: Any) -> Any:
        event = tf_.cast(event, self.logits.dtype)
        # log p and log(1 - p) from the log odds: neither overflows.
        return -(event * tf_.nn.softplus(-self.logits) + (1.0 - event) * tf_.nn.softplus(self.logits))

    def _entropy(self) -> Any:
        return -self.logits * (tf_.sigmoid(self.logits) - 1.0) + tf_.nn.softplus(-self.logits)

    def _mean(self) -> Any:
        return tf_.identity(self.probs)

    def _variance(self) -> Any:
        return self.probs * (1.0 - self.probs)

    def _mode(self) -> Any:
        return tf_.cast(self.probs > 0.5, self.dtype)


@export("distributions.Categorical")
class Categorical(Distribution):
    """The distribution of class numbers; the last dimension of the parameters are the classes."""

    def __init__(
        self, logits: Any = None, probs: Any = None, dtype: Any = None, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "Categorical",
    ) -> None:  # fmt: skip
        """Takes the probabilities, or unnormalized log probabilities; `dtype` is the type of samples (int32)."""
        parameters = dict(locals())
        with name_scope(name, values=[logits, probs]) as scope:
            self.logits, self.probs = _logits_and_probs(logits, probs, validate_args, True)
        dtype = tf_.as_dtype(dtype or tf_.int32)
        super().__init__(dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, scope, [self.logits])

    @property
    def event_size(self) -> Any:
        """The number of classes."""
        known = self.logits.shape.as_list()[-1] if self.logits.shape.rank else None
        return tf_.constant(known) if known is not None else tf_.shape(self.logits)[-1]

    @property
    def batch_shape(self) -> Any:
        """The static shape of the batch."""
        return self.logits.shape[:-1] if self.logits.shape.rank is not None else self.logits.shape

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Any:
        """The shape of the batch as a tensor."""
        with self._scope(name):
            return tf_.shape(self.logits)[:-1]

    def _sample(self, count: Any, seed: int | None) -> Any:
        rows = tf_.reshape(self.logits, [-1, self.event_size])
        drawn = tf_.transpose(tf_.multinomial(rows, count, seed=seed))
        return tf_.reshape(tf_.cast(drawn, self.dtype), self._sample_shape(count))

    def _log_prob(self, k: Any) -> Any:
        shape = tf_.broadcast_dynamic_shape(tf_.shape(k), tf_.shape(self.logits)[:-1])
        labels = k + tf_.zeros(shape, k.dtype)
        logits = self.logits + tf_.zeros(tf_.concat([shape, [1]], 0), self.logits.dtype)
        return -tf_.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)

    def _cdf(self, k: Any) -> Any:
        below = tf_.cast(tf_.range(self.event_size), k.dtype) <= tf_.expand_dims(k, -1)
        return tf_.reduce_sum(tf_.cast(below, self.probs.dtype) * self.probs, -1)

    def _entropy(self) -> Any:
        logs = tf_.nn.log_softmax(self.logits)
        # A class that never comes adds nothing: 0 * log 0 would be NaN.
        terms = tf_.where(tf_.equal(self.probs, 0.0), tf_.zeros_like(logs), self.probs * logs)
        return -tf_.reduce_sum(terms, -1)

    def _mode(self) -> Any:
        return tf_.cast(tf_.argmax(self.logits, axis=-1), self.dtype)


@export("distributions.Multinomial")
class Multinomial(Distribution):
    """The distribution of how often each class comes in `total_count` draws."""

    def __init__(
        self, total_count: Any, logits: Any = None, probs: Any = None, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "Multinomial",
    ) -> None:  # fmt: skip
        """Takes the number of draws, and the classes as Categorical does."""
        parameters = dict(locals())
        with name_scope(name, values=[total_count, logits, probs]) as scope:
            self.logits, self.probs = _logits_and_probs(logits, probs, validate_args, True)
            total = tf_.convert_to_tensor(total_count, dtype=self.logits.dtype)
            self.total_count = checked(total, validate_args, tf_.assert_non_negative)
            self._mean_value = tf_.expand_dims(self.total_count, -1) * self.probs
        super().__init__(
            self.logits.dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, scope,
            [self._mean_value[..., 0]], self._mean_value.shape[-1:],
        )  # fmt: skip

    def _sample(self, count: Any, seed: int | None) -> Any:
        if self.total_count.shape.rank != 0:
            raise NotImplementedError("Multinomial can be sampled only with a scalar total_count.")
        classes = tf_.shape(self.logits)[-1]
        draws = tf_.cast(self.total_count, tf_.int32)
        drawn = tf_.multinomial(tf_.reshape(self.logits, [-1, classes]), count * draws, seed=seed)
        hits = tf_.one_hot(tf_.reshape(drawn, [-1, count, draws]), classes, dtype=self.dtype)
        counts = tf_.transpose(tf_.reduce_sum(hits, 2), [1, 0, 2])
        return tf_.reshape(counts, tf_.concat([[count], tf_.shape(self._mean_value)], 0))

    def _log_prob(self, counts: Any) -> Any:
        logs = tf_.reduce_sum(counts * tf_.nn.log_softmax(self.logits), -1)
        return logs + tf_.lgamma(self.total_count + 1.0) - tf_.reduce_sum(tf_.lgamma(counts + 1.0), -1)

    def _mean(self) -> Any:
        return tf_.identity(self._mean_value)

    def _variance(self) -> Any:
        return self._mean_value * (1.0 - self.probs)


@export("distributions.Dirichlet")
class Dirichlet(Distribution):
    """The Dirichlet distribution on the simplex."""

    def __init__(
        self, concentration: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Dirichlet"
    ) -> None:
        """Takes the parameters, one per class along the last dimension."""
        parameters = dict(locals())
        with name_scope(name, values=[concentration]) as scope:
            self.concentration = checked(tf_.convert_to_tensor(concentration), validate_args, tf_.assert_positive)
            self.total_concentration = tf_.reduce_sum(self.concentration, -1)
        super().__init__(
            self.concentration.dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, scope,
            [self.total_concentration], self.concentration.shape[-1:],
        )  # fmt: skip

    def _sample(self, count: Any, seed: int | None) -> Any:
        drawn = tf_.random_gamma([count], self.concentration, dtype=self.dtype, seed=seed)
        return drawn / tf_.reduce_sum(drawn, -1, keepdims=True)

    def _log_norm(self) -> Any:
        return tf_.reduce_sum(tf_.lgamma(self.concentration), -1) - tf_.lgamma(self.total_concentration)

    def _log_prob(self, x: Any) -> Any:
        return tf_.reduce_sum((self.concentration - 1.0) * tf_.log(x), -1) - self._log_norm()

    def _mean(self) -> Any:
        return self.concentration / tf_.expand_dims(self.total_concentration, -1)

    def _variance(self) -> Any:
        mean = self._mean()
        return mean * (1.0 - mean) / (1.0 + tf_.expand_dims(self.total_concentration, -1))


@export("distributions.DirichletMultinomial")
class DirichletMultinomial(Distribution):
    """The distribution of how often each class comes in `total_count` draws, with probabilities of a Dirichlet."""

    def __init__(
        self, total_count: Any, concentration: Any, validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "DirichletMultinomial",
    ) -> None:  # fmt: skip
        """Takes the number of draws, and the parameters of the Dirichlet, one per class."""
        parameters = dict(locals())
        with name_scope(name, values=[total_count, concentration]) as scope:
            self.concentration = checked(tf_.convert_to_tensor(concentration), validate_args, tf_.assert_positive)
            total = tf_.convert_to_tensor(total_count, dtype=self.concentration.dtype)
            self.total_count = checked(total, validate_args, tf_.assert_non_negative)
            self.total_concentration = tf_.reduce_sum(self.concentration, -1)
        super().__init__(
            self.concentration.dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, scope,
            [self.total_count, self.total_concentration], self.concentration.shape[-1:],
        )  # fmt: skip

    def _sample(self, count: Any, seed: int | None) -> Any:
        chances = Dirichlet(self.concentration).sample([count], seed=seed)
        return Multinomial(self.total_count, probs=chances).sample(seed=None if seed is None else seed + 1)

    def _log_prob(self, counts: Any) -> Any:
        ways = tf_.lgamma(self.total_count + 1.0) - tf_.reduce_sum(tf_.lgamma(counts + 1.0), -1)
        whole = tf_.lgamma(self.total_concentration) - tf_.lgamma(self.total_count + self.total_concentration)
        each = tf_.lgamma(counts + self.concentration) - tf_.lgamma(self.concentration)
        return ways + whole + tf_.reduce_sum(each, -1)

    def _chances(self) -> Any:
        return self.concentration / tf_.expand_dims(self.total_concentration, -1)

    def _mean(self) -> Any:
        return tf_.expand_dims(self.total_count, -1) * self._chances()

    def _variance(self) -> Any:
        spread = (self.total_count + self.total_concentration) / (1.0 + self.total_concentration)
        return self._mean() * (1.0 - self._chances()) * tf_.expand_dims(spread, -1)


@RegisterKL(Bernoulli, Bernoulli)
def _kl_bernoullis(a: Bernoulli, b: Bernoulli, name: str | None = None) -> Any:
    ones = tf_.sigmoid(a.logits) * (tf_.nn.softplus(-b.logits) - tf_.nn.softplus(-a.logits))
    return ones + tf_.sigmoid(-a.logits) * (tf_.nn.softplus(b.logits) - tf_.nn.softplus(a.logits))


@RegisterKL(Categorical, Categorical)
def _kl_categoricals(a: Categorical, b: Categorical, name: str | None = None) -> Any:
    difference = tf_.nn.log_softmax(a.logits) - tf_.nn.log_softmax(b.logits)
    return tf_.reduce_sum(tf_.nn.softmax(a.logits) * difference, -1)


@RegisterKL(Dirichlet, Dirichlet)
def _kl_dirichlets(a: Dirichlet, b: Dirichlet, name: str | None = None) -> Any:
    digammas = tf_.digamma(a.concentration) - tf_.expand_dims(tf_.digamma(a.total_concentration), -1)
    return b._log_norm() - a._log_norm() + tf_.reduce_sum((a.concentration - b.concentration) * digammas, -1)
