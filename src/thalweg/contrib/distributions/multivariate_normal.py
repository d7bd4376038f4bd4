"""Normal distributions of vectors whose elements depend on each other, and matrices as vectors of their triangles."""

from __future__ import annotations

import math
from typing import Any

from thalweg.contrib.distributions.bijector_classes import scale_operator
from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export

_base: Any = tf.distributions.Distribution


@export("contrib.distributions.MultivariateNormalLinearOperator")
class MultivariateNormalLinearOperator(_base):  # type: ignore[misc]
    """Normal vectors `loc + scale z`, with a LinearOperator as scale."""

    def __init__(
        self, loc: Any = None, scale: Any = None, validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "MultivariateNormalLinearOperator",
    ) -> None:  # fmt: skip
        """Takes the mean (0 if None) and the scale."""
        if scale is None:
            raise ValueError("Missing required `scale` parameter.")
        self._set(loc, scale, validate_args, allow_nan_stats, name, dict(locals()))

    def _set(self, loc: Any, scale: Any, validate: bool, nan: bool, name: str, parameters: dict[str, Any]) -> None:
        with tf.name_scope(name, values=[loc]) as scope:
            zeros = tf.zeros(scale.shape_tensor()[:-1], scale.dtype)
            zeros.set_shape(scale.shape[:-1])
            self.loc = zeros if loc is None else tf.convert_to_tensor(loc, scale.dtype, name="loc") + zeros
        self.scale = scale
        _base.__init__(
            self, self.loc.dtype, tf.distributions.FULLY_REPARAMETERIZED, validate, nan, parameters, scope,
            [self.loc[..., 0]], self.loc.shape[-1:],
        )  # fmt: skip

    @property
    def bijector(self) -> Any:
        """The function of standard normal vectors that gives these."""
        return tf.contrib.distributions.bijectors.AffineLinearOperator(self.loc, self.scale)

    def _sample(self, count: Any, seed: Any) -> Any:
        shape = tf.concat([[count], tf.shape(self.loc)], 0)
        return self.loc + self.scale.matvec(tf.random_normal(shape, dtype=self.dtype, seed=seed))

    def _constant(self) -> Any:
        size = tf.cast(tf.shape(self.loc)[-1], self.dtype)
        return 0.5 * math.log(2 * math.pi) * size + self.scale.log_abs_determinant()

    def _log_prob(self, x: Any) -> Any:
        z = self.scale.solvevec(x - self.loc)
        return -0.5 * tf.reduce_sum(tf.square(z), -1) - self._constant()

    def _entropy(self) -> Any:
        size = tf.cast(tf.shape(self.loc)[-1], self.dtype)
        return self._broadcast_to_batch(0.5 * size + self._constant())

    def _mean(self) -> Any:
        return tf.identity(self.loc)

    _mode = _mean

    def covariance(self, name: str = "covariance") -> Any:
        """The covariance matrices."""
        dense = self.scale.to_dense()
        return tf.matmul(dense, dense, adjoint_b=True)

    def _variance(self) -> Any:
        return tf.reduce_sum(tf.square(self.scale.to_dense()), -1) + tf.zeros_like(self.loc)


def _kl(a: Any, b: Any, name: str | None = None) -> Any:
    size = tf.cast(tf.shape(a.loc)[-1], a.dtype)
    relative = b.scale.solve(a.scale.to_dense())
    distance = b.scale.solvevec(b.loc - a.loc)
    trace = tf.reduce_sum(tf.square(relative), [-2, -1]) + tf.reduce_sum(tf.square(distance), -1)
    return b.scale.log_abs_determinant() - a.scale.log_abs_determinant() + 0.5 * (trace - size)


tf.distributions.RegisterKL(MultivariateNormalLinearOperator, MultivariateNormalLinearOperator)(_kl)


@export("contrib.distributions.MultivariateNormalTriL")
class MultivariateNormalTriL(MultivariateNormalLinearOperator):
    """Normal vectors `loc + scale_tril z`, with a lower triangular matrix."""

    def __init__(
        self, loc: Any = None, scale_tril: Any = None, validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "MultivariateNormalTriL",
    ) -> None:  # fmt: skip
        """Takes mean and scale; the identity if there is none.

        Raises:
            ValueError: If nothing says the size of the vectors.
        """
        parameters = dict(locals())
        if loc is None and scale_tril is None:
            raise ValueError("Must specify one or both of `loc`, `scale_tril`.")
        one = None if scale_tril is not None else tf.ones([], tf.convert_to_tensor(loc).dtype)
        scale = scale_operator(one, None, scale_tril, like=loc)
        self._set(loc, scale, validate_args, allow_nan_stats, name, parameters)


@export("contrib.distributions.MultivariateNormalFullCovariance")
class MultivariateNormalFullCovariance(MultivariateNormalTriL):
    """Normal vectors with a mean and a covariance matrix."""

    def __init__(
        self, loc: Any = None, covariance_matrix: Any = None, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "MultivariateNormalFullCovariance",
    ) -> None:  # fmt: skip
        """Takes mean and covariance; the identity if there is none."""
        parameters = dict(locals())
        tril = None if covariance_matrix is None else tf.cholesky(tf.convert_to_tensor(covariance_matrix))
        super().__init__(loc, tril, validate_args, allow_nan_stats, name)
        self.parameters = {key: value for key, value in parameters.items() if key not in ("self", "__class__")}


@export("contrib.distributions.MultivariateNormalDiagPlusLowRank")
class MultivariateNormalDiagPlusLowRank(MultivariateNormalLinearOperator):
    """Normal vectors `loc + (D + V D2 V^T) z`."""

    def __init__(
        self, loc: Any = None, scale_diag: Any = None, scale_identity_multiplier: Any = None,
        scale_perturb_factor: Any = None, scale_perturb_diag: Any = None, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "MultivariateNormalDiagPlusLowRank",
    ) -> None:  # fmt: skip
        """Takes the mean and the parts of the scale."""
        parameters = dict(locals())
        scale = scale_operator(
            scale_identity_multiplier, scale_diag, None, scale_perturb_factor, scale_perturb_diag, loc
        )
        if scale is None:
            scale = scale_operator(tf.ones([], tf.convert_to_tensor(loc).dtype), None, None, like=loc)
        self._set(loc, scale, validate_args, allow_nan_stats, name, parameters)


@export("contrib.distributions.fill_triangular")
def fill_triangular(x: Any, upper: bool = False, name: str | None = None) -> Any:
    """Triangular matrices with the elements of vectors, in the spiral order of TensorFlow.

    Raises:
        ValueError: If the number of elements is not `n (n + 1) / 2`.

    Example:
        >>> with tf.Session() as sess:
        ...     print(sess.run(tf.contrib.distributions.fill_triangular([1, 2, 3, 4, 5, 6])).tolist())
        [[4, 0, 0], [6, 5, 0], [3, 2, 1]]
    """
    with tf.name_scope(name, "fill_triangular", [x]):
        x = tf.convert_to_tensor(x, name="x")
        count = x.shape.as_list()[-1]
        size = int(math.sqrt(0.25 + 2 * count) - 0.5)
        if size * (size + 1) != 2 * count:
            raise ValueError(f"Input right-most shape ({count}) does not correspond to a triangular matrix.")
        parts = [x, tf.reverse(x[..., size:], [-1])] if upper else [x[..., size:], tf.reverse(x, [-1])]
        shape = tf.concat([tf.shape(x)[:-1], [size, size]], 0)
        square = tf.reshape(tf.concat(parts, -1), shape)
        square.set_shape(x.shape[:-1].concatenate([size, size]))
        return tf.matrix_band_part(square, 0, -1) if upper else tf.matrix_band_part(square, -1, 0)


@export("contrib.distributions.fill_triangular_inverse")
def fill_triangular_inverse(x: Any, upper: bool = False, name: str | None = None) -> Any:
    """The vectors of triangular matrices: the inverse of `fill_triangular`."""
    with tf.name_scope(name, "fill_triangular_inverse", [x]):
        x = tf.convert_to_tensor(x, name="x")
        size = x.shape.as_list()[-1]
        count = size * (size + 1) // 2
        # The first row (the last one, turned around) is whole. Of the other rows the triangle cuts elements off, which
        # are in the same rows turned around.
        first, rest = (x[..., 0, :], x[..., 1:, :]) if upper else (tf.reverse(x[..., -1, :], [-1]), x[..., :-1, :])
        others = rest + tf.reverse(rest, [-2, -1])
        others = tf.reshape(others, tf.concat([tf.shape(x)[:-2], [size * (size - 1)]], 0))
        flat = tf.concat([first, others], -1)
        return flat[..., :count]
