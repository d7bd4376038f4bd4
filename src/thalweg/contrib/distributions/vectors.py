"""Distributions of vectors: MultivariateNormalDiag."""

from __future__ import annotations

import math
from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export

_base: Any = tf.distributions.Distribution


@export("contrib.distributions.MultivariateNormalDiag")
class MultivariateNormalDiag(_base):  # type: ignore[misc]
    """Independent normal variables as one vector, with mean `loc` and standard deviations `scale_diag`."""

    def __init__(
        self, loc: Any = None, scale_diag: Any = None, scale_identity_multiplier: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "MultivariateNormalDiag",
    ) -> None:  # fmt: skip
        """Takes mean and deviations; 1 where none are given.

        Raises:
            ValueError: If nothing says the size of the vector.
        """
        parameters = dict(locals())
        if loc is None and scale_diag is None:
            raise ValueError("Must specify at least one of `loc` and `scale_diag`.")
        with tf.name_scope(name, values=[loc, scale_diag]) as scope:
            like = tf.convert_to_tensor(loc if loc is not None else scale_diag)
            scale = tf.ones_like(like) if scale_diag is None else tf.convert_to_tensor(scale_diag, like.dtype)
            if scale_identity_multiplier is not None:
                added = tf.convert_to_tensor(scale_identity_multiplier, like.dtype)[..., None]
                scale = tf.ones_like(like) * added if scale_diag is None else scale + added
            self.loc = tf.zeros_like(scale) if loc is None else tf.identity(like, name="loc") + tf.zeros_like(scale)
            self._scale = scale + tf.zeros_like(self.loc)
        super().__init__(
            self.loc.dtype, tf.distributions.FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, scope,
            [self.loc[..., 0]], self.loc.shape[-1:],
        )  # fmt: skip

    @property
    def scale_diag(self) -> Any:
        """The standard deviations."""
        return self._scale

    def _sample(self, count: Any, seed: Any) -> Any:
        shape = tf.concat([[count], tf.shape(self.loc)], 0)
        return self.loc + self._scale * tf.random_normal(shape, dtype=self.dtype, seed=seed)

    def _log_prob(self, value: Any) -> Any:
        z = (value - self.loc) / self._scale
        return tf.reduce_sum(-0.5 * tf.square(z) - tf.log(self._scale) - 0.5 * math.log(2 * math.pi), -1)

    def _mean(self) -> Any:
        return tf.identity(self.loc)

    _mode = _mean

    def _variance(self) -> Any:
        return tf.square(self._scale)

    def _stddev(self) -> Any:
        return tf.identity(self._scale)

    def _entropy(self) -> Any:
        return tf.reduce_sum(0.5 + 0.5 * math.log(2 * math.pi) + tf.log(self._scale), -1)


def _kl(a: Any, b: Any, name: str | None = None) -> Any:
    ratio = tf.square(a._scale / b._scale)
    distance = tf.square((a.loc - b.loc) / b._scale)
    return 0.5 * tf.reduce_sum(ratio + distance - 1.0 - tf.log(ratio), -1)


tf.distributions.RegisterKL(MultivariateNormalDiag, MultivariateNormalDiag)(_kl)


@export("contrib.distributions.softplus_inverse")
def softplus_inverse(x: Any, name: str | None = None) -> Any:
    """The value whose softplus is `x`."""
    with tf.name_scope(name, "softplus_inverse", [x]):
        x = tf.convert_to_tensor(x, name="x")
        return x + tf.log(-tf.math.expm1(-x))
