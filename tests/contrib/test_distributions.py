"""tf.contrib.distributions: densities and moments against SciPy, bijectors against inverses and Jacobians."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

import thalweg as tf

ds: Any = tf.contrib.distributions
bj: Any = ds.bijectors
RNG = np.random.default_rng(3)


def run(*values: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = session.run(list(values))
    return found[0] if len(found) == 1 else found


SCALARS: dict[str, tuple[Any, Any, Any]] = {
    "Cauchy": (lambda: ds.Cauchy(1.0, 2.0), scipy.stats.cauchy(1, 2), [-3.0, 0.5, 8.0]),
    "Gumbel": (lambda: ds.Gumbel(1.0, 2.0), scipy.stats.gumbel_r(1, 2), [-3.0, 0.5, 8.0]),
    "Logistic": (lambda: ds.Logistic(1.0, 2.0), scipy.stats.logistic(1, 2), [-3.0, 0.5, 8.0]),
    "HalfNormal": (lambda: ds.HalfNormal(2.0), scipy.stats.halfnorm(0, 2), [0.1, 2.0, 5.0]),
    "InverseGamma": (lambda: ds.InverseGamma(5.0, 2.0), scipy.stats.invgamma(5, scale=2), [0.1, 0.5, 2.0]),
    "Chi2": (lambda: ds.Chi2(3.0), scipy.stats.chi2(3), [0.1, 2.0, 5.0]),
    "Poisson": (lambda: ds.Poisson(2.5), scipy.stats.poisson(2.5), [0.0, 2.0, 6.0]),
    "Poisson of a logarithm": (lambda: ds.Poisson(log_rate=np.log(2.5)), scipy.stats.poisson(2.5), [0.0, 2.0]),
    "Geometric": (lambda: ds.Geometric(probs=0.3), scipy.stats.geom(0.3, -1), [0.0, 2.0, 6.0]),
    "Binomial": (lambda: ds.Binomial(7.0, probs=0.3), scipy.stats.binom(7, 0.3), [0.0, 2.0, 6.0]),
    "NegativeBinomial": (lambda: ds.NegativeBinomial(4.0, probs=0.4), scipy.stats.nbinom(4, 0.6), [0.0, 2.0, 6.0]),
    "softplus": (
        lambda: ds.NormalWithSoftplusScale(1.0, 0.5), scipy.stats.norm(1, np.log1p(np.exp(0.5))), [0.0, 2.0],
    ),
    "absolute value": (lambda: ds.Chi2WithAbsDf(-3.0), scipy.stats.chi2(3), [0.1, 2.0]),
}  # fmt: skip


@pytest.mark.parametrize("name", SCALARS)
def test_densities_and_moments(name: str) -> None:
    make, expected, points = SCALARS[name]
    found = make()
    logs = expected.logpmf(points) if hasattr(expected.dist, "logpmf") else expected.logpdf(points)
    np.testing.assert_allclose(run(found.log_prob(points)), logs, rtol=2e-5)
    np.testing.assert_allclose(run(found.prob(points)), np.exp(logs), rtol=2e-5)
    if hasattr(found, "_cdf"):
        np.testing.assert_allclose(run(found.cdf(points)), expected.cdf(points), rtol=2e-5)
    if hasattr(found, "_entropy"):
        np.testing.assert_allclose(run(found.entropy()), expected.entropy(), rtol=2e-5)
    samples = run(found.sample(40000, seed=1))
    assert samples.shape == (40000,)
    if name == "Cauchy":
        assert np.isnan(run(found.mean())) and abs(np.median(samples) - 1) < 0.1
        return
    np.testing.assert_allclose(run(found.mean(), found.variance()), [expected.mean(), expected.var()], rtol=2e-5)
    np.testing.assert_allclose(samples.mean(), expected.mean(), atol=0.1)
    np.testing.assert_allclose(samples.var(), expected.var(), rtol=0.15)


def test_relaxed_bernoulli_is_nearly_one_of_both() -> None:
    soft = ds.RelaxedBernoulli(0.1, probs=0.7)
    samples = run(soft.sample(20000, seed=1))
    assert ((samples < 0.05) | (samples > 0.95)).mean() > 0.7 and abs((samples > 0.5).mean() - 0.7) < 0.02
    warm = ds.RelaxedBernoulli(0.7, logits=0.3)
    grid = (np.arange(20000, dtype=np.float32) + 0.5) / 20000
    np.testing.assert_allclose(run(warm.prob(grid)).mean(), 1.0, rtol=1e-2)


def test_deterministic() -> None:
    fixed = ds.Deterministic([1.0, 2.0], atol=0.1)
    assert run(fixed.prob([1.05, 3.0])).tolist() == [1.0, 0.0] and run(fixed.sample(2)).tolist() == [[1.0, 2.0]] * 2


MEAN = np.array([1.0, -1.0, 0.5])
TRIL = np.array([[1.0, 0.0, 0.0], [0.5, 2.0, 0.0], [-0.3, 0.2, 0.7]])
FACTOR = np.array([[1.0], [0.5], [-1.0]])


@pytest.mark.parametrize("name", ["tril", "full", "low_rank", "diag"])
def test_normal_vectors(name: str) -> None:
    low_rank = np.diag([1.0, 2.0, 3.0]) + FACTOR @ FACTOR.T * 2.0
    make, covariance = {
        "tril": (lambda: ds.MultivariateNormalTriL(MEAN, TRIL), TRIL @ TRIL.T),
        "full": (lambda: ds.MultivariateNormalFullCovariance(MEAN, TRIL @ TRIL.T), TRIL @ TRIL.T),
        "low_rank": (
            lambda: ds.MultivariateNormalDiagPlusLowRank(
                MEAN, np.array([1.0, 2.0, 3.0]), None, FACTOR, np.array([2.0])
            ),
            low_rank @ low_rank.T,
        ),
        "diag": (lambda: ds.MultivariateNormalTriL(MEAN), np.eye(3)),
    }[name]
    found = make()
    expected = scipy.stats.multivariate_normal(MEAN, covariance)
    x = RNG.normal(size=(4, 3))
    assert found.event_shape.as_list() == [3] and found.batch_shape.as_list() == []
    values = run(found.log_prob(x), found.entropy(), found.covariance(), found.variance(), found.mean())
    wanted = [expected.logpdf(x), expected.entropy(), covariance, np.diag(covariance), MEAN]
    for got, want in zip(values, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-7)
    samples = run(found.sample(40000, seed=1))
    np.testing.assert_allclose(np.cov(samples.T), covariance, atol=0.05 * covariance.max())


def test_divergences_of_normal_vectors() -> None:
    a, b = (
        ds.MultivariateNormalTriL(MEAN, TRIL),
        ds.MultivariateNormalTriL(-MEAN, 2 * np.eye(3)),
    )
    p, q = TRIL @ TRIL.T, 4 * np.eye(3)
    d = 2 * MEAN
    expected = 0.5 * (np.trace(p / 4) + d @ d / 4 - 3 + np.log(np.linalg.det(q) / np.linalg.det(p)))
    np.testing.assert_allclose(run(ds.kl_divergence(a, b)), expected)


def test_independent_joins_the_batch() -> None:
    normal = tf.distributions.Normal(np.zeros((2, 3)), np.ones((2, 3)))
    joint = ds.Independent(normal, 1)
    assert joint.batch_shape.as_list() == [2] and joint.event_shape.as_list() == [3]
    x = RNG.normal(size=(2, 3))
    np.testing.assert_allclose(run(joint.log_prob(x)), scipy.stats.norm.logpdf(x).sum(-1))
    assert run(joint.sample(5)).shape == (5, 2, 3)
    other = ds.Independent(tf.distributions.Normal(np.ones((2, 3)), np.ones((2, 3))), 1)
    np.testing.assert_allclose(run(ds.kl_divergence(joint, other)), [1.5, 1.5])


def test_mixtures_of_both_kinds_agree() -> None:
    weights, means, scales = [0.3, 0.7], np.array([-1.0, 2.0]), np.array([0.5, 1.0])
    parts = [tf.distributions.Normal(m, s) for m, s in zip(means, scales, strict=True)]
    cat = tf.distributions.Categorical(probs=np.array(weights))
    mixtures = [ds.Mixture(cat, parts), ds.MixtureSameFamily(cat, tf.distributions.Normal(means, scales))]
    x = np.array([-1.0, 0.0, 3.0])
    density = sum(w * scipy.stats.norm(m, s).pdf(x) for w, m, s in zip(weights, means, scales, strict=True))
    mean = np.dot(weights, means)
    variance = np.dot(weights, scales**2 + means**2) - mean**2
    for mixture in mixtures:
        np.testing.assert_allclose(run(mixture.prob(x)), density)
        np.testing.assert_allclose(run(mixture.mean(), mixture.variance()), [mean, variance])
        samples = run(mixture.sample(30000, seed=2))
        np.testing.assert_allclose([samples.mean(), samples.var()], [mean, variance], rtol=0.05)


def test_transformed_distributions() -> None:
    log_normal = ds.TransformedDistribution(tf.distributions.Normal(0.5, 2.0), bj.Exp())
    x = np.array([0.3, 2.0], np.float32)
    expected = scipy.stats.lognorm(2.0, scale=np.exp(0.5))
    np.testing.assert_allclose(run(log_normal.log_prob(x)), expected.logpdf(x), rtol=1e-5)
    np.testing.assert_allclose(run(log_normal.cdf(x)), expected.cdf(x), rtol=1e-5)
    normal = tf.distributions.Normal(np.float64(0.0), np.float64(1.0))
    vectors = ds.TransformedDistribution(normal, bj.Affine(MEAN, scale_tril=TRIL), event_shape=[3])
    y = RNG.normal(size=(4, 3))
    np.testing.assert_allclose(
        run(vectors.log_prob(y)), scipy.stats.multivariate_normal(MEAN, TRIL @ TRIL.T).logpdf(y), rtol=1e-7
    )
    assert run(vectors.sample(5)).shape == (5, 3)


def test_dirichlet_multinomial() -> None:
    found = tf.distributions.DirichletMultinomial(5.0, [1.0, 2.0, 3.0])
    expected = scipy.stats.dirichlet_multinomial([1, 2, 3], 5)
    np.testing.assert_allclose(run(found.log_prob([1.0, 2.0, 2.0])), expected.logpmf([1, 2, 2]), rtol=1e-5)
    np.testing.assert_allclose(run(found.mean()), expected.mean(), rtol=1e-6)
    np.testing.assert_allclose(run(found.variance()), expected.var(), rtol=1e-5)
    samples = run(found.sample(20000, seed=4))
    assert (samples.sum(-1) == 5).all()
    np.testing.assert_allclose(samples.mean(0), expected.mean(), atol=0.05)


BIJECTORS: dict[str, tuple[Any, Any]] = {
    "identity": (lambda: bj.Identity(), np.array([0.3, -1.2, 2.0])),
    "exp": (lambda: bj.Exp(), np.array([0.3, -1.2, 2.0])),
    "sigmoid": (lambda: bj.Sigmoid(), np.array([0.3, -1.2, 2.0])),
    "softplus": (lambda: bj.Softplus(), np.array([0.3, -1.2, 2.0])),
    "soft_softplus": (lambda: bj.Softplus(np.float64(2.0)), np.array([0.3, -1.2, 2.0])),
    "softsign": (lambda: bj.Softsign(), np.array([0.3, -1.2, 2.0])),
    "square": (lambda: bj.Square(), np.array([0.3, 1.2, 2.0])),
    "power": (lambda: bj.PowerTransform(0.5), np.array([0.3, -1.2, 2.0])),
    "affine_scalar": (lambda: bj.AffineScalar(np.float64(1.0), np.float64(-2.0)), np.array([0.3, -1.2, 2.0])),
    "affine": (lambda: bj.Affine(MEAN, scale_tril=TRIL, scale_diag=np.ones(3)), np.array([0.3, -1.2, 2.0])),
    "affine_low_rank": (
        lambda: bj.Affine(MEAN, np.float64(2.0), scale_perturb_factor=FACTOR), np.array([0.3, -1.2, 2.0]),
    ),
    "invert": (lambda: bj.Invert(bj.Exp()), np.array([0.3, 1.2, 2.0])),
    "chain": (lambda: bj.Chain([bj.Exp(), bj.Affine(MEAN, scale_tril=TRIL)]), np.array([0.3, -1.2, 2.0])),
    "permute": (lambda: bj.Permute([2, 0, 1]), np.array([0.3, -1.2, 2.0])),
    "inline": (
        lambda: bj.Inline(tf.exp, tf.log, lambda y: -tf.log(y), forward_min_event_ndims=0), np.array([0.3, -1.2, 2.0]),
    ),
    "real_nvp": (
        lambda: bj.RealNVP(1, bj.real_nvp_default_template([4], activation=tf.tanh)), np.array([[0.3, -1.2, 2.0]]),
    ),
    "autoregressive": (
        lambda: bj.MaskedAutoregressiveFlow(bj.masked_autoregressive_default_template([6], activation=tf.tanh)),
        np.array([[0.3, -1.2, 2.0]]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BIJECTORS)
def test_bijectors_invert_and_know_their_determinants(name: str) -> None:
    make, x = BIJECTORS[name]
    tf.set_random_seed(1)
    bijector = make()
    fed = tf.constant(x)
    y = bijector.forward(fed)
    back = bijector.inverse(tf.identity(y))
    rows = [tf.gradients(y[..., i], fed)[0] for i in range(3)]
    forward, inverse = bijector.forward_log_det_jacobian(fed, 1), bijector.inverse_log_det_jacobian(y, 1)
    found = run(back, forward, inverse, tf.stack([tf.reshape(row, [3]) for row in rows]))
    np.testing.assert_allclose(found[0], x, rtol=1e-8)
    expected = np.log(np.abs(np.linalg.det(found[3])))
    np.testing.assert_allclose(np.ravel(found[1])[0], expected, atol=1e-8)
    np.testing.assert_allclose(np.ravel(found[2])[0], -expected, atol=1e-8)


def test_an_unrolled_flow_is_the_same_and_shares_its_variables() -> None:
    template = bj.masked_autoregressive_default_template([6])
    x = tf.constant(RNG.normal(size=(2, 3)))
    flows = [bj.MaskedAutoregressiveFlow(template, unroll_loop=unroll) for unroll in (False, True)]
    a, b = run(*(flow.forward(x) for flow in flows))
    np.testing.assert_allclose(a, b)
    assert len(tf.trainable_variables()) == 4


def test_triangles_of_vectors() -> None:
    x = RNG.normal(size=(2, 6))
    for upper in (False, True):
        matrix = ds.fill_triangular(x, upper)
        found, again = run(matrix, ds.fill_triangular_inverse(matrix, upper))
        np.testing.assert_array_equal(found, np.triu(found) if upper else np.tril(found))
        np.testing.assert_array_equal(again, x)
    assert run(ds.fill_triangular([1, 2, 3, 4, 5, 6])).tolist() == [[4, 0, 0], [6, 5, 0], [3, 2, 1]]
    assert run(ds.fill_triangular([1, 2, 3, 4, 5, 6], upper=True)).tolist() == [[1, 2, 3], [0, 5, 6], [0, 0, 4]]
    with pytest.raises(ValueError, match="triangular"):
        ds.fill_triangular([1.0, 2.0])
