"""The base class of distributions, and the registry of Kullback-Leibler divergences."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import thalweg as tf
from thalweg.graph.default_graph import control_dependencies, name_scope
from thalweg.graph.definitions.op_registry import export, export_value

tf_: Any = tf  # The public names are bound at run time.


@export("distributions.ReparameterizationType")
class ReparameterizationType:
    """Whether samples are differentiable functions of the parameters."""

    def __init__(self, rep_type: str) -> None:
        """Takes the name of the kind."""
        self._rep_type = rep_type

    def __repr__(self) -> str:
        return f"<Reparameterization Type: {self._rep_type}>"


FULLY_REPARAMETERIZED = ReparameterizationType("FULLY_REPARAMETERIZED")
NOT_REPARAMETERIZED = ReparameterizationType("NOT_REPARAMETERIZED")
export_value(FULLY_REPARAMETERIZED, "distributions.FULLY_REPARAMETERIZED")
export_value(NOT_REPARAMETERIZED, "distributions.NOT_REPARAMETERIZED")


@export("distributions.Distribution")
class Distribution:
    """A distribution, or a batch of independent ones.

    A sample has the shape `sample_shape + batch_shape + event_shape`. Subclasses define `_sample(count, seed)`, with
    the count as the first dimension of the result, `_log_prob(value)`, and the statistics that have a closed form.
    """

    def __init__(
        self, dtype: Any, reparameterization_type: ReparameterizationType, validate_args: bool, allow_nan_stats: bool,
        parameters: dict[str, Any], scope: str, batch: list[Any], event_shape: Any = (),
    ) -> None:  # fmt: skip
        """Used by subclasses: `batch` are tensors that broadcast to the shape of the batch."""
        self.dtype = dtype
        self.reparameterization_type = reparameterization_type
        self.validate_args = validate_args
        self.allow_nan_stats = allow_nan_stats
        self.parameters = {k: v for k, v in parameters.items() if k not in ("self", "__class__")}
        self.name = scope
        self._batch = batch
        self._event_shape = event_shape

    @property
    def batch_shape(self) -> Any:
        """The static shape of the batch."""
        shape = self._batch[0].shape
        for tensor in self._batch[1:]:
            shape = tf_.broadcast_static_shape(shape, tensor.shape)
        return shape

    @property
    def event_shape(self) -> Any:
        """The static shape of one draw."""
        return tf_.TensorShape(self._event_shape)

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Any:
        """The shape of the batch as a tensor."""
        with self._scope(name):
            if self.batch_shape.is_fully_defined():
                return tf_.constant(self.batch_shape.as_list(), tf_.int32)
            shape = tf_.shape(self._batch[0])
            for tensor in self._batch[1:]:
                shape = tf_.broadcast_dynamic_shape(shape, tf_.shape(tensor))
            return shape

    def event_shape_tensor(self, name: str = "event_shape_tensor") -> Any:
        """The shape of one draw as a tensor."""
        with self._scope(name):
            return tf_.constant(self.event_shape.as_list(), tf_.int32)

    def is_scalar_event(self, name: str = "is_scalar_event") -> Any:
        """Whether a draw is a scalar."""
        return tf_.constant(self.event_shape.rank == 0, name=name)

    def is_scalar_batch(self, name: str = "is_scalar_batch") -> Any:
        """Whether this is one distribution rather than a batch."""
        return tf_.equal(tf_.size(self.batch_shape_tensor()), 0, name=name)

    def _scope(self, name: str, *values: Any) -> Any:
        return name_scope(f"{self.name}{name}" if self.name.endswith("/") else name, values=list(values) or None)

    def sample(self, sample_shape: Any = (), seed: int | None = None, name: str = "sample") -> Any:
        """Draws samples: of shape `sample_shape`, followed by those of the batch and of the event."""
        with self._scope(name):
            shape = tf_.reshape(tf_.convert_to_tensor(sample_shape, dtype=tf_.int32), [-1])
            drawn = self._sample(tf_.reduce_prod(shape), seed)
            result = tf_.reshape(drawn, tf_.concat([shape, tf_.shape(drawn)[1:]], 0))
            known = tf_.TensorShape(None)
            if not isinstance(sample_shape, tf_.Tensor):
                sizes = [sample_shape] if isinstance(sample_shape, int) else list(sample_shape)
                static = [None if isinstance(size, tf_.Tensor) else size for size in sizes]
                known = tf_.TensorShape(static).concatenate(self.batch_shape).concatenate(self.event_shape)
            result.set_shape(known)
            return result

    def _call(self, method: str, name: str, *args: Any) -> Any:
        function = getattr(self, method, None)
        if function is None:
            raise NotImplementedError(f"{name} is not implemented for {type(self).__name__}")
        with self._scope(name, *args):
            return function(*args)

    def _value(self, value: Any) -> Any:
        return tf_.convert_to_tensor(value, preferred_dtype=self.dtype)

    def log_prob(self, value: Any, name: str = "log_prob") -> Any:
        """The logarithm of the density, or of the probability, at `value`."""
        return self._call("_log_prob", name, self._value(value))

    def prob(self, value: Any, name: str = "prob") -> Any:
        """The density, or the probability, at `value`."""
        return tf_.exp(self.log_prob(value, name))

    def cdf(self, value: Any, name: str = "cdf") -> Any:
        """The probability of a draw that is not greater than `value`."""
        return self._call("_cdf", name, self._value(value))

    def log_cdf(self, value: Any, name: str = "log_cdf") -> Any:
        """The logarithm of `cdf`."""
        return tf_.log(self.cdf(value, name))

    def survival_function(self, value: Any, name: str = "survival_function") -> Any:
        """The probability of a draw that is greater than `value`."""
        return 1.0 - self.cdf(value, name)

    def log_survival_function(self, value: Any, name: str = "log_survival_function") -> Any:
        """The logarithm of `survival_function`."""
        return tf_.log1p(-self.cdf(value, name))

    def quantile(self, value: Any, name: str = "quantile") -> Any:
        """The inverse of `cdf`."""
        return self._call("_quantile", name, self._value(value))

    def entropy(self, name: str = "entropy") -> Any:
        """The Shannon entropy, in nats."""
        return self._call("_entropy", name)

    def mean(self, name: str = "mean") -> Any:
        """The mean."""
        return self._call("_mean", name)

    def variance(self, name: str = "variance") -> Any:
        """The variance."""
        return self._call("_variance", name)

    def stddev(self, name: str = "stddev") -> Any:
        """The standard deviation."""
        return tf_.sqrt(self.variance(name))

    def mode(self, name: str = "mode") -> Any:
        """The most likely value."""
        return self._call("_mode", name)

    def kl_divergence(self, other: Distribution, name: str = "kl_divergence") -> Any:
        """The Kullback-Leibler divergence from `other`, in nats."""
        return kl_divergence(self, other, self.allow_nan_stats, name)

    def cross_entropy(self, other: Distribution, name: str = "cross_entropy") -> Any:
        """The cross entropy with `other`, in nats."""
        return self.entropy(name) + self.kl_divergence(other)

    def copy(self, **override_parameters_kwargs: Any) -> Any:
        """The same distribution with some parameters replaced."""
        return type(self)(**{**self.parameters, **override_parameters_kwargs})

    def __repr__(self) -> str:
        return (
            f"<tf.distributions.{type(self).__name__} '{self.name}' batch_shape={self.batch_shape} "
            f"event_shape={self.event_shape} dtype={self.dtype.name}>"
        )

    def _sample(self, count: Any, seed: int | None) -> Any:
        raise NotImplementedError(f"sample is not implemented for {type(self).__name__}")

    def _sample_shape(self, count: Any) -> Any:
        return tf_.concat([[count], self.batch_shape_tensor()], 0)

    def _broadcast_to_batch(self, tensor: Any) -> Any:
        """A statistic, repeated for the whole batch."""
        return tensor + tf_.zeros(self.batch_shape_tensor(), tensor.dtype)


def another_seed(seed: int | None, salt: str) -> int | None:
    """The seed of a second random op of one sample: TensorFlow's, so that equal seeds give equal samples."""
    if seed is None:
        return None
    digest = hashlib.md5(f"{seed}{salt}".encode(), usedforsecurity=False).hexdigest()
    return int(digest[:8], 16) & 0x7FFFFFFF


def checked(tensor: Any, validate: bool, *checks: Callable[[Any], Any]) -> Any:
    """A parameter that, if `validate`, must pass assertions first."""
    with control_dependencies([check(tensor) for check in checks] if validate else []):
        return tf_.identity(tensor)


_divergences: dict[tuple[type, type], Callable[..., Any]] = {}


@export("distributions.RegisterKL")
class RegisterKL:
    """A decorator that registers `fn(a, b, name=None)` as the divergence between two classes of distributions."""

    def __init__(self, dist_cls_a: type, dist_cls_b: type) -> None:
        """Takes the two classes."""
        self._key = (dist_cls_a, dist_cls_b)

    def __call__(self, kl_fn: Callable[..., Any]) -> Callable[..., Any]:
        """Registers the function, and returns it unchanged."""
        if not callable(kl_fn):
            raise TypeError(f"kl_fn must be callable, received: {kl_fn}")
        if self._key in _divergences:
            names = " and ".join(cls.__name__ for cls in self._key)
            raise ValueError(f"KL({names}) has already been registered to: {_divergences[self._key]}")
        _divergences[self._key] = kl_fn
        return kl_fn


@export("distributions.kl_divergence")
def kl_divergence(
    distribution_a: Distribution, distribution_b: Distribution, allow_nan_stats: bool = True, name: str | None = None
) -> Any:
    """The Kullback-Leibler divergence of `distribution_a` from `distribution_b`, in nats.

    Args:
        distribution_a: The true distribution.
        distribution_b: The distribution that approximates it.
        allow_nan_stats: Whether the result may be NaN; otherwise NaN fails the step.
        name: The scope's name.

    Returns:
        A tensor of the shape of the batches.

    Raises:
        NotImplementedError: If no divergence is registered for the two classes.
    """
    for a in type(distribution_a).__mro__:
        for b in type(distribution_b).__mro__:
            function = _divergences.get((a, b))
            if function is None:
                continue
            with name_scope(name, "KullbackLeibler"):
                result = function(distribution_a, distribution_b, name=name)
                return result if allow_nan_stats else tf_.check_numerics(result, "The KL divergence is NaN.")
    raise NotImplementedError(
        f"No KL(distribution_a || distribution_b) registered for distribution_a type "
        f"{type(distribution_a).__name__} and distribution_b type {type(distribution_b).__name__}"
    )
