"""Distributions over classes as rows: OneHotCategorical, and RelaxedOneHotCategorical (Gumbel-softmax)."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export

_base: Any = tf.distributions.Distribution


class _Rows(_base):  # type: ignore[misc]
    """What both share: logits or probabilities of the classes."""

    def _set(
        self,
        logits: Any,
        probs: Any,
        scope: str,
        parameters: dict[str, Any],
        flags: tuple[bool, bool],
        kind: Any,
        dtype: Any,
    ) -> None:
        if (logits is None) == (probs is None):
            raise ValueError("Must pass probs or logits, but not both.")
        self.logits = tf.identity(logits) if probs is None else tf.log(tf.convert_to_tensor(probs))
        self.probs = tf.nn.softmax(self.logits) if probs is None else tf.identity(probs)
        super().__init__(
            dtype or self.logits.dtype, kind, *flags, parameters, scope, [self.logits[..., 0]], self.logits.shape[-1:]
        )

    def _gumbel(self, count: Any, seed: Any) -> Any:
        shape = tf.concat([[count], tf.shape(self.logits)], 0)
        smallest = 1.1754944e-38
        return -tf.log(-tf.log(tf.random_uniform(shape, smallest, 1.0, self.logits.dtype, seed=seed)))


@export("contrib.distributions.OneHotCategorical")
class OneHotCategorical(_Rows):
    """Classes as rows with a one."""

    def __init__(
        self, logits: Any = None, probs: Any = None, dtype: Any = tf.int32, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "OneHotCategorical",
    ) -> None:  # fmt: skip
        """Takes logits or probabilities.

        Raises:
            ValueError: If both or none are given.
        """
        parameters = dict(locals())
        with tf.name_scope(name, values=[logits, probs]) as scope:
            kind = tf.distributions.NOT_REPARAMETERIZED
            self._set(logits, probs, scope, parameters, (validate_args, allow_nan_stats), kind, dtype)

    def _sample(self, count: Any, seed: Any) -> Any:
        chosen = tf.distributions.Categorical(logits=self.logits).sample([count], seed=seed)
        return tf.one_hot(chosen, tf.shape(self.logits)[-1], dtype=self.dtype)

    def _log_prob(self, value: Any) -> Any:
        return tf.reduce_sum(tf.cast(value, self.logits.dtype) * tf.nn.log_softmax(self.logits), -1)

    def _mean(self) -> Any:
        return tf.identity(self.probs)

    def _mode(self) -> Any:
        return tf.one_hot(tf.argmax(self.logits, -1), tf.shape(self.logits)[-1], dtype=self.dtype)

    def _entropy(self) -> Any:
        return -tf.reduce_sum(self.probs * tf.nn.log_softmax(self.logits), -1)


@export("contrib.distributions.RelaxedOneHotCategorical")
class RelaxedOneHotCategorical(_Rows):
    """Rows of positive numbers that sum to one; nearly one-hot at a low temperature (Jang, Maddison, 2016)."""

    def __init__(
        self, temperature: Any, logits: Any = None, probs: Any = None, dtype: Any = None, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "RelaxedOneHotCategorical",
    ) -> None:  # fmt: skip
        """Takes the temperature, and logits or probabilities.

        Raises:
            ValueError: If both or none are given.
        """
        parameters = dict(locals())
        with tf.name_scope(name, values=[logits, probs, temperature]) as scope:
            kind = tf.distributions.FULLY_REPARAMETERIZED
            self._set(logits, probs, scope, parameters, (validate_args, allow_nan_stats), kind, dtype)
            self.temperature = tf.convert_to_tensor(temperature, self.logits.dtype)

    def _sample(self, count: Any, seed: Any) -> Any:
        return tf.nn.softmax((self.logits + self._gumbel(count, seed)) / self.temperature)

    def _log_prob(self, value: Any) -> Any:
        classes = tf.cast(tf.shape(self.logits)[-1], self.logits.dtype)
        logs = tf.log(value)
        score = tf.nn.log_softmax(self.logits - self.temperature * logs)
        constant = tf.lgamma(classes) + (classes - 1.0) * tf.log(self.temperature)
        return constant + tf.reduce_sum(score - logs, -1)
