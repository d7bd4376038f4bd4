"""Distributions against SciPy: densities, moments, samples and divergences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import thalweg as tf

_D = tf.distributions
_HAS_GAMMA = hasattr(tf, "lgamma") and hasattr(tf, "digamma")
_needs_gamma = pytest.mark.skipif(not _HAS_GAMMA, reason="tf.lgamma is still missing")

_CONTINUOUS = [
    pytest.param(lambda: _D.Normal([0.5, -1.0], 2.0), stats.norm([0.5, -1.0], 2.0), id="Normal"),
    pytest.param(lambda: _D.Uniform(-1.0, [2.0, 3.0]), stats.uniform(-1.0, [3.0, 4.0]), id="Uniform"),
    pytest.param(lambda: _D.Laplace([0.5, 1.0], 2.0), stats.laplace([0.5, 1.0], 2.0), id="Laplace"),
    pytest.param(lambda: _D.Exponential([0.5, 2.0]), stats.expon(scale=[2.0, 0.5]), id="Exponential"),
    pytest.param(
        lambda: _D.Gamma([2.0, 3.0], [0.5, 4.0]), stats.gamma([2.0, 3.0], scale=[2.0, 0.25]), id="Gamma",
        marks=_needs_gamma,
    ),
    pytest.param(lambda: _D.Beta([2.0, 3.0], 1.5), stats.beta([2.0, 3.0], 1.5), id="Beta", marks=_needs_gamma),
    pytest.param(
        lambda: _D.StudentT([5.0, 9.0], 1.0, 2.0), stats.t([5.0, 9.0], 1.0, 2.0), id="StudentT", marks=_needs_gamma
    ),
]  # fmt: skip


def _run(values: Any) -> Any:
    with tf.Session() as session:
        return session.run(values)


@pytest.fixture(autouse=True)
def _fresh_graph() -> Any:
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize(("make", "reference"), _CONTINUOUS)
def test_densities_moments_and_samples(make: Any, reference: Any) -> None:
    distribution = make()
    assert distribution.batch_shape.as_list() == [2] and distribution.event_shape.as_list() == []
    points = np.array([[0.2, 0.7], [0.9, 0.4]], np.float32)
    log_prob, prob, mean, stddev = _run(
        [distribution.log_prob(points), distribution.prob(points), distribution.mean(), distribution.stddev()]
    )
    np.testing.assert_allclose(log_prob, reference.logpdf(points), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(prob, reference.pdf(points), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(mean, reference.mean(), rtol=1e-5)
    np.testing.assert_allclose(stddev, reference.std(), rtol=1e-5)
    samples = _run(distribution.sample([3000, 2], seed=7))
    assert samples.shape == (3000, 2, 2)
    np.testing.assert_allclose(samples.mean((0, 1)), reference.mean(), atol=5 * reference.std().max() / np.sqrt(6000))
    if type(distribution) is not _D.Gamma and not isinstance(distribution, (_D.StudentT, _D.Beta)):
        np.testing.assert_allclose(_run(distribution.cdf(points)), reference.cdf(points), rtol=1e-4)
        np.testing.assert_allclose(_run(distribution.entropy()), reference.entropy(), rtol=1e-4, atol=1e-6)


def test_bernoulli() -> None:
    b = _D.Bernoulli(probs=[0.2, 0.9])
    np.testing.assert_allclose(_run(b.prob([1, 0])), [0.2, 0.1], rtol=1e-5)
    np.testing.assert_allclose(_run(b.entropy()), stats.bernoulli([0.2, 0.9]).entropy(), rtol=1e-5)
    np.testing.assert_allclose(_run([b.mean(), b.variance()]), [[0.2, 0.9], [0.16, 0.09]], rtol=1e-5)
    samples = _run(b.sample(5000, seed=1))
    assert samples.dtype == np.int32
    np.testing.assert_allclose(samples.mean(0), [0.2, 0.9], atol=0.03)
    with pytest.raises(ValueError, match="not both"):
        _D.Bernoulli(logits=1.0, probs=0.5)
    with pytest.raises(ValueError, match="probs or logits"):
        _D.Bernoulli()


def test_categorical() -> None:
    probs = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]], np.float32)
    c = _D.Categorical(probs=probs)
    assert c.batch_shape.as_list() == [2]
    np.testing.assert_allclose(_run(c.prob([2, 0])), [0.7, 0.5], rtol=1e-5)
    np.testing.assert_allclose(_run(c.prob([[2, 0], [0, 2]])), [[0.7, 0.5], [0.1, 0.0]], rtol=1e-5)
    np.testing.assert_allclose(_run(c.entropy()), stats.entropy(probs, axis=1), rtol=1e-5)
    assert _run(c.mode()).tolist()[0] == 2
    samples = _run(c.sample([2500, 2], seed=1))
    assert samples.shape == (2500, 2, 2) and samples.dtype == np.int32
    np.testing.assert_allclose([(samples[..., 0] == k).mean() for k in range(3)], probs[0], atol=0.03)


@pytest.mark.skipif(not hasattr(tf, "one_hot"), reason="tf.one_hot is still missing")
def test_multinomial_counts_add_up() -> None:
    m = _D.Multinomial(20.0, probs=[[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
    assert m.batch_shape.as_list() == [2] and m.event_shape.as_list() == [3]
    samples = _run(m.sample(500, seed=1))
    assert samples.shape == (500, 2, 3)
    np.testing.assert_array_equal(samples.sum(-1), np.full((500, 2), 20.0))
    np.testing.assert_allclose(samples.mean(0), _run(m.mean()), atol=0.5)


@_needs_gamma
def test_dirichlet_and_multinomial_densities() -> None:
    point, alpha = [0.2, 0.3, 0.5], [1.5, 2.0, 3.0]
    np.testing.assert_allclose(
        _run(_D.Dirichlet(alpha).log_prob(point)), stats.dirichlet.logpdf(point, alpha), rtol=1e-5
    )
    counts, probs = [1.0, 2.0, 2.0], [0.2, 0.3, 0.5]
    got = _run(_D.Multinomial(5.0, probs=probs).prob(counts))
    np.testing.assert_allclose(got, stats.multinomial.pmf(counts, 5, probs), rtol=1e-4)
    assert _run(_D.kl_divergence(_D.Dirichlet(alpha), _D.Dirichlet(alpha))) == pytest.approx(0, abs=1e-5)


def test_divergences() -> None:
    a, b = _D.Normal(0.0, 1.0), _D.Normal(1.0, 2.0)
    expected = np.log(2) + (1 + 1) / 8 - 0.5
    np.testing.assert_allclose(_run([_D.kl_divergence(a, b), a.kl_divergence(b)]), [expected] * 2, rtol=1e-6)
    np.testing.assert_allclose(_run(a.cross_entropy(b)), expected + stats.norm(0, 1).entropy(), rtol=1e-6)
    p, q = np.array([0.2, 0.8]), np.array([0.5, 0.5])
    kl = float(np.sum(p * np.log(p / q)))
    np.testing.assert_allclose(_run(_D.kl_divergence(_D.Categorical(probs=p), _D.Categorical(probs=q))), kl)
    np.testing.assert_allclose(_run(_D.kl_divergence(_D.Bernoulli(probs=0.8), _D.Bernoulli(probs=0.5))), kl, rtol=1e-6)
    u, v = _D.Uniform(0.0, 1.0), _D.Uniform(-1.0, 3.0)
    np.testing.assert_allclose(_run([_D.kl_divergence(u, v), _D.kl_divergence(v, u)]), [np.log(4), np.inf], rtol=1e-6)
    with pytest.raises(NotImplementedError, match="Normal"):
        _D.kl_divergence(a, u)


def test_samples_of_reparameterized_distributions_have_gradients() -> None:
    loc, scale = tf.constant([1.0, 2.0]), tf.constant([0.5, 0.5])
    sample = _D.Normal(loc, scale).sample(4, seed=3)
    by_loc, by_scale, z = _run([*tf.gradients(sample, [loc, scale]), tf.reduce_sum((sample - loc) / scale, 0)])
    np.testing.assert_allclose(by_loc, [4, 4])
    np.testing.assert_allclose(by_scale, z, rtol=1e-5)


def test_arguments_are_validated_on_request() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="> 0"):
        _run(
            _D.Normal(0.0, tf.placeholder_with_default(-1.0, []), validate_args=True).mean()
            + _D.Normal(0.0, tf.placeholder_with_default(-1.0, []), validate_args=True).stddev()
        )
    copy = _D.Normal(0.0, 1.0).copy(scale=3.0)
    assert _run(copy.stddev()) == 3 and "Normal" in repr(copy)
    with pytest.raises(NotImplementedError, match="quantile"):
        _D.Gamma(1.0, 1.0).quantile(0.5)


def test_the_shape_of_samples_may_have_tensors_in_it() -> None:
    size = tf.placeholder(tf.int32, [])
    drawn = tf.distributions.Normal([0.0, 1.0], 1.0).sample([size, 3])
    assert drawn.shape.as_list() == [None, 3, 2]
    with tf.Session() as session:
        assert session.run(drawn, {size: 4}).shape == (4, 3, 2)


def test_the_quantile_of_a_normal_distribution_inverts_its_distribution_function() -> None:
    normal = _D.Normal([0.0, 2.0], [1.0, 3.0])
    values = [[-1.0, 0.5], [0.3, 4.0]]
    np.testing.assert_allclose(_run(normal.quantile(normal.cdf(values))), values, rtol=1e-4)


@_needs_gamma
def test_samples_of_a_seed_are_tensorflows() -> None:
    # What TensorFlow 1.15 gives for these programs.
    expected = [
        (_D.Exponential([1.0, 2.0]), [0.7258, 0.3404]),
        (_D.Beta([1.0, 3.0], 2.0), [0.1243, 0.4683]),
        (_D.StudentT([3.0, 4.0], 0.0, 2.0), [-0.0754, -2.9652]),
        (_D.Gamma([1.0, 2.0], 3.0), [0.0140, 0.5502]),
    ]
    for distribution, sample in expected:
        np.testing.assert_allclose(_run(distribution.sample(3, seed=7))[0], sample, atol=1e-4)
