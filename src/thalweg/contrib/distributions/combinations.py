"""Distributions made of others: Independent, TransformedDistribution, Mixture, MixtureSameFamily."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export

_base: Any = tf.distributions.Distribution


@export("contrib.distributions.Independent")
class Independent(_base):  # type: ignore[misc]
    """A distribution whose last batch axes belong to the event: one probability for all of them together."""

    def __init__(
        self, distribution: Any, reinterpreted_batch_ndims: int | None = None, validate_args: bool = False,
        name: str | None = None,
    ) -> None:  # fmt: skip
        """Takes the distribution, and how many axes; all but the first if None."""
        arguments = dict(locals())
        rank = distribution.batch_shape.ndims
        axes = max(0, rank - 1) if reinterpreted_batch_ndims is None else reinterpreted_batch_ndims
        self.distribution, self.reinterpreted_batch_ndims = distribution, axes
        batch = distribution.batch_shape
        event = batch[rank - axes :].concatenate(distribution.event_shape)
        with tf.name_scope(name or f"Independent{distribution.name}".replace("/", "")) as scope:
            sizes = distribution.batch_shape_tensor()[: rank - axes]
        self._sizes = sizes
        super().__init__(
            distribution.dtype, distribution.reparameterization_type, validate_args, distribution.allow_nan_stats,
            arguments, scope, [_OfShape(batch[: rank - axes])], event,
        )  # fmt: skip

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Any:
        """The shape of the batch as a tensor."""
        return self._sizes

    def _sum(self, values: Any) -> Any:
        axes = self.reinterpreted_batch_ndims
        return tf.reduce_sum(values, list(range(-axes, 0))) if axes else values

    def _sample(self, count: Any, seed: Any) -> Any:
        return self.distribution.sample([count], seed=seed)

    def _log_prob(self, x: Any) -> Any:
        return self._sum(self.distribution.log_prob(x))

    def _entropy(self) -> Any:
        return self._sum(self.distribution.entropy())

    def _mean(self) -> Any:
        return self.distribution.mean()

    def _variance(self) -> Any:
        return self.distribution.variance()

    def _mode(self) -> Any:
        return self.distribution.mode()


class _OfShape:
    """Stands for a tensor of which only the static shape is known."""

    def __init__(self, shape: Any) -> None:
        self.shape = shape


def _kl_independent(a: Any, b: Any, name: str | None = None) -> Any:
    if a.reinterpreted_batch_ndims != b.reinterpreted_batch_ndims:
        raise NotImplementedError("KL between Independents of different reinterpreted_batch_ndims.")
    return a._sum(tf.distributions.kl_divergence(a.distribution, b.distribution))


tf.distributions.RegisterKL(Independent, Independent)(_kl_independent)


@export("contrib.distributions.TransformedDistribution", "contrib.distributions.ConditionalTransformedDistribution")
class TransformedDistribution(_base):  # type: ignore[misc]
    """The distribution of `y = g(x)` for a variable `x` of another distribution and a bijector `g`.

    Example:
        >>> ds = tf.contrib.distributions
        >>> log_normal = ds.TransformedDistribution(tf.distributions.Normal(0.0, 1.0), ds.bijectors.Exp())
        >>> with tf.Session() as sess:
        ...     print(round(float(sess.run(log_normal.log_prob(1.0))), 4))
        -0.9189
    """

    def __init__(
        self, distribution: Any, bijector: Any = None, batch_shape: Any = None, event_shape: Any = None,
        validate_args: bool = False, name: str | None = None,
    ) -> None:  # fmt: skip
        """Takes the distribution and the bijector; other shapes of scalar distributions repeat them."""
        arguments = dict(locals())
        self.distribution = distribution
        self.bijector = bijector or tf.contrib.distributions.bijectors.Identity()
        self._new_batch = [] if batch_shape is None else tf.TensorShape(batch_shape).as_list()
        self._new_event = [] if event_shape is None else tf.TensorShape(event_shape).as_list()
        if (batch_shape is not None and distribution.batch_shape.ndims) or (
            event_shape is not None and distribution.event_shape.ndims
        ):
            raise ValueError("Only the shapes of scalar distributions can be replaced.")
        batch = tf.TensorShape(self._new_batch) if batch_shape is not None else distribution.batch_shape
        event = tf.TensorShape(self._new_event) if event_shape is not None else distribution.event_shape
        with tf.name_scope(name or f"{self.bijector.name}{distribution.name}".replace("/", "")) as scope:
            self._sizes = (
                tf.constant(self._new_batch, tf.int32) if batch_shape is not None else distribution.batch_shape_tensor()
            )
        super().__init__(
            distribution.dtype, distribution.reparameterization_type, validate_args, distribution.allow_nan_stats,
            arguments, scope, [_OfShape(batch)], self.bijector.forward_event_shape(event),
        )  # fmt: skip

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Any:
        """The shape of the batch as a tensor."""
        return self._sizes

    def _sample(self, count: Any, seed: Any) -> Any:
        return self.bijector.forward(self.distribution.sample([count, *self._new_batch, *self._new_event], seed=seed))

    def _log_prob(self, y: Any) -> Any:
        x = self.bijector.inverse(y)
        inner = self.distribution.log_prob(x)
        if self._new_event:
            inner = tf.reduce_sum(inner, list(range(-len(self._new_event), 0)))
        return inner + self.bijector.inverse_log_det_jacobian(y, self.event_shape.ndims)

    def _cdf(self, y: Any) -> Any:
        return self.distribution.cdf(self.bijector.inverse(y))

    def _quantile(self, p: Any) -> Any:
        return self.bijector.forward(self.distribution.quantile(p))

    def _mean(self) -> Any:
        if not self.bijector.is_constant_jacobian and type(self.bijector).__name__ not in ("Affine", "AffineScalar"):
            raise NotImplementedError("mean is not implemented for non-linear bijectors")
        return self.bijector.forward(self.distribution.mean())


@export("contrib.distributions.Mixture")
class Mixture(_base):  # type: ignore[misc]
    """Draws come from one of several distributions, which a Categorical chooses."""

    def __init__(
        self, cat: Any, components: Any, validate_args: bool = False, allow_nan_stats: bool = True,
        use_static_graph: bool = False, name: str = "Mixture",
    ) -> None:  # fmt: skip
        """Takes the Categorical, and as many distributions of one type and shape as it has classes."""
        arguments = dict(locals())
        self.cat, self.components = cat, list(components)
        first = self.components[0]
        if any(each.dtype != first.dtype for each in self.components):
            raise TypeError("All components must have the same dtype.")
        self.num_components = len(self.components)
        with tf.name_scope(name) as scope:
            weights = tf.nn.softmax(cat.logits)
        self._weights = [weights[..., i] for i in range(self.num_components)]
        super().__init__(
            first.dtype, tf.distributions.NOT_REPARAMETERIZED, validate_args, allow_nan_stats, arguments, scope,
            [self._weights[0]], first.event_shape,
        )  # fmt: skip

    def _expanded(self, weight: Any) -> Any:
        """A weight with an axis for each axis of the event."""
        for _ in range(self.event_shape.ndims):
            weight = weight[..., None]
        return weight

    def _sample(self, count: Any, seed: Any) -> Any:
        chosen = self.cat.sample([count], seed=seed)
        total = 0.0
        for i, each in enumerate(self.components):
            drawn = each.sample([count], seed=None if seed is None else seed + i + 1)
            total += tf.cast(self._expanded(tf.equal(chosen, i)), drawn.dtype) * drawn
        return total

    def _log_prob(self, x: Any) -> Any:
        logs = [each.log_prob(x) + tf.log(w) for each, w in zip(self.components, self._weights, strict=True)]
        return tf.reduce_logsumexp(tf.stack(logs, 0), 0)

    def _cdf(self, x: Any) -> Any:
        return tf.add_n([w * each.cdf(x) for each, w in zip(self.components, self._weights, strict=True)])

    def _moment(self, values: list[Any]) -> Any:
        return tf.add_n([self._expanded(w) * v for w, v in zip(self._weights, values, strict=True)])

    def _mean(self) -> Any:
        return self._moment([each.mean() for each in self.components])

    def _variance(self) -> Any:
        squares = self._moment([each.variance() + tf.square(each.mean()) for each in self.components])
        return squares - tf.square(self._mean())

    def entropy_lower_bound(self, name: str = "entropy_lower_bound") -> Any:
        """The weighted entropies of the components: the entropy is not smaller."""
        return tf.add_n([w * each.entropy() for each, w in zip(self.components, self._weights, strict=True)])


@export("contrib.distributions.MixtureSameFamily")
class MixtureSameFamily(_base):  # type: ignore[misc]
    """A mixture of the distributions along the last batch axis of one distribution."""

    def __init__(
        self, mixture_distribution: Any, components_distribution: Any, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "MixtureSameFamily",
    ) -> None:  # fmt: skip
        """Takes the Categorical, and the distributions."""
        arguments = dict(locals())
        self.mixture_distribution, self.components_distribution = mixture_distribution, components_distribution
        self._event_axes = components_distribution.event_shape.ndims
        with tf.name_scope(name) as scope:
            self._logits = mixture_distribution.logits + tf.zeros(
                components_distribution.batch_shape_tensor(), components_distribution.dtype
            )
        super().__init__(
            components_distribution.dtype, tf.distributions.NOT_REPARAMETERIZED, validate_args, allow_nan_stats,
            arguments, scope, [self._logits[..., 0]], components_distribution.event_shape,
        )  # fmt: skip

    def _weighted(self, weights: Any, values: Any) -> Any:
        for _ in range(self._event_axes):
            weights = weights[..., None]
        return tf.reduce_sum(weights * values, -1 - self._event_axes)

    def _sample(self, count: Any, seed: Any) -> Any:
        drawn = self.components_distribution.sample([count], seed=None if seed is None else seed + 1)
        chosen = tf.distributions.Categorical(self._logits).sample([count], seed=seed)
        return self._weighted(tf.one_hot(chosen, tf.shape(self._logits)[-1], dtype=self.dtype), drawn)

    def _log_prob(self, x: Any) -> Any:
        x = tf.expand_dims(x, -1 - self._event_axes)
        return tf.reduce_logsumexp(self.components_distribution.log_prob(x) + tf.nn.log_softmax(self._logits), -1)

    def _cdf(self, x: Any) -> Any:
        x = tf.expand_dims(x, -1 - self._event_axes)
        return tf.reduce_sum(self.components_distribution.cdf(x) * tf.nn.softmax(self._logits), -1)

    def _mean(self) -> Any:
        return self._weighted(tf.nn.softmax(self._logits), self.components_distribution.mean())

    def _variance(self) -> Any:
        weights, each = tf.nn.softmax(self._logits), self.components_distribution
        between = tf.square(each.mean() - tf.expand_dims(self._mean(), -1 - self._event_axes))
        return self._weighted(weights, each.variance() + between)
