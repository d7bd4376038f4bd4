"""Cases of softmax, the cross entropies, biases and L2Loss."""

import numpy as np
from scipy import special

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from tests.op_cases.arithmetic import FLOATS, NUMBERS

_LOGITS = [Args(real(2, 5)), Args(real(3)), Args(real(2, 3, 40)), Args(real(2, 0)), Args(real(0, 2))]
_SCALAR = [Bad(Args(real()), match="dimension")]


def _softmax(x, axis=-1):
    return special.softmax(x.astype(np.float64), axis) if x.size else np.zeros(x.shape)


def _log_softmax(x):
    return special.log_softmax(x.astype(np.float64), -1) if x.size else np.zeros(x.shape)


case("Softmax", tf.nn.softmax, _softmax, samples=_LOGITS, bad=_SCALAR, dtypes=FLOATS, order=2)
case(
    "Softmax",
    lambda x: tf.nn.softmax(tf.ensure_shape(x, [2, 3, 4]), axis=1),
    lambda x: _softmax(x, 1),
    samples=[Args(real(2, 3, 4))],
    order=2,
)
_EXTREME = Args(np.array([[1e4, -1e4, 0.0], [-3e38, 3e38, 1.0]], np.float32))
case("Softmax", tf.nn.softmax, _softmax, samples=[_EXTREME])
case("LogSoftmax", tf.nn.log_softmax, _log_softmax, samples=_LOGITS, bad=_SCALAR, dtypes=FLOATS, order=2)
case("LogSoftmax", tf.nn.log_softmax, _log_softmax, samples=[Args(np.array([[1e4, -1e4, 0.0]], np.float32))])


def _cross_entropy(logits, labels):
    labels = labels / tf.reduce_sum(labels, -1, keepdims=True)  # Its gradient holds for probabilities only.
    return tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits)


def _normalized_reference(logits, labels):
    return _cross_entropy_reference(logits, labels / labels.sum(-1, keepdims=True))


def _cross_entropy_reference(logits, labels):
    return -np.sum(_log_softmax(logits) * labels.astype(np.float64), -1)


_MATRIX_BAD = [Bad(Args(real(2, 3), real(4, 5)), match="[2,3]"), Bad(Args(real(2, 3), real(2, 4)), match="[2,4]")]
case(
    "SoftmaxCrossEntropyWithLogits",
    lambda x, y: tf.nn.softmax_cross_entropy_with_logits(
        labels=tf.ensure_shape(y, [2, 3, 4, 5]), logits=tf.ensure_shape(x, [2, 3, 4, 5]), axis=1
    ),
    lambda x, y: _cross_entropy_reference(np.moveaxis(x, 1, -1), np.moveaxis(y, 1, -1)),
    samples=[Args(real(2, 3, 4, 5), real(2, 3, 4, 5, low=0.1, high=1))],
)
case(
    "SoftmaxCrossEntropyWithLogits",
    _cross_entropy,
    _normalized_reference,
    order=2,
    bad=_MATRIX_BAD,
    samples=[
        Args(real(4, 5), real(4, 5, low=0.1, high=1)),
        Args(real(0, 3), real(0, 3)),
        Args(real(2, 3, 4), real(2, 3, 4, low=0.1, high=1)),
    ],
)


def _raw_cross_entropy(features, labels):
    return tf.raw_ops.SoftmaxCrossEntropyWithLogits(features=features, labels=labels)


case(
    "SoftmaxCrossEntropyWithLogits",
    _raw_cross_entropy,
    lambda x, y: [_cross_entropy_reference(x, np.broadcast_to(y, x.shape)), _softmax(x) - y.astype(np.float64)],
    samples=[Args(real(4, 20), real(4, 20, low=0, high=1)), Args(real(4, 5), real(1, 5, low=0, high=1))],
    bad=[
        *_MATRIX_BAD,
        Bad(Args(real(3), real(3)), match="matrix"),
        Bad(Args(real(1, 2, 3), real(2, 3)), match="matrix"),
    ],
    dtypes=FLOATS,
)


def _sparse(logits, labels):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


def _sparse_reference(logits, labels):
    flat = _log_softmax(logits).reshape(-1, logits.shape[-1])
    return -flat[np.arange(len(flat)), labels.ravel()].reshape(labels.shape)


_LABELS = np.array([0, 2, 1], np.int32)
case(
    "SparseSoftmaxCrossEntropyWithLogits",
    _sparse,
    _sparse_reference,
    order=2,
    samples=[
        Args(real(3, 4), _LABELS),
        Args(real(3, 40), _LABELS.astype(np.int64)),
        Args(real(4), np.array(1)),
        Args(real(1, 3, 5), _LABELS[None]),
    ],
    bad=[
        Bad(Args(real(3, 2), _LABELS), match="label value of 2"),
        Bad(Args(real(3, 4), _LABELS - 1), match="-1"),
        Bad(Args(real(2, 4), _LABELS), match="first dimension"),
    ],
)
case(
    "SparseSoftmaxCrossEntropyWithLogits",
    lambda x, y: tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(features=x, labels=y),
    lambda x, y: [_sparse_reference(x, y), _softmax(x) - np.eye(x.shape[1])[y]],
    samples=[Args(real(3, 4), _LABELS)],
    bad=[Bad(Args(real(3), _LABELS), match="2-D"), Bad(Args(real(3, 0), _LABELS), match="at least one class")],
    dtypes=FLOATS,
)


def _sigmoid_cross_entropy(logits, labels):
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)


case(
    "Softplus",
    _sigmoid_cross_entropy,
    lambda x, z: np.maximum(x, 0) - x * z + np.log1p(np.exp(-np.abs(x))),
    samples=[Args(real(3, 4), real(3, 4, low=0, high=1))],
    order=2,
)
case(
    "Softplus",
    lambda x, z: tf.nn.weighted_cross_entropy_with_logits(labels=z, logits=x, pos_weight=3.0),
    lambda x, z: 3 * z * np.logaddexp(0, -x) + (1 - z) * np.logaddexp(0, x),
    samples=[Args(real(3, 4), real(3, 4, low=0, high=1))],
    order=2,
)

_BIASES = [
    Args(real(2, 3), real(3)),
    Args(real(2, 4, 5, 3), real(3)),
    Args(real(0, 3), real(3)),
    Args(real(2, 0), real(0)),
]
_BIAS_BAD = [
    Bad(Args(real(2, 3), real(4)), match="[4]"),
    Bad(Args(real(3), real(3)), match="2-D"),
    Bad(Args(real(2, 3), real(1, 3)), match="1D"),
]
case("BiasAdd", tf.nn.bias_add, np.add, samples=_BIASES, bad=_BIAS_BAD, dtypes=NUMBERS, order=2)
case(
    "BiasAdd",
    tf.nn.bias_add,
    lambda x, b, data_format: x + b[:, None, None],
    samples=[Args(real(2, 3, 4, 5), real(3), data_format="NCHW")],
    order=2,
)
case("BiasAddV1", lambda x, b: tf.raw_ops.BiasAddV1(value=x, bias=b), np.add, samples=_BIASES, bad=_BIAS_BAD, order=2)
case(
    "BiasAddGrad",
    lambda x: tf.raw_ops.BiasAddGrad(out_backprop=x),
    lambda x: x.reshape(-1, x.shape[-1]).sum(0, x.dtype),
    samples=[Args(real(4, 3)), Args(real(2, 4, 5, 300)), Args(real(0, 3))],
    bad=[Bad(Args(real(3)), match="2-D")],
    dtypes="int32 float32 float64 complex64",
    order=2,
    tolerance=1e-4,
)
case(
    "BiasAddGrad",
    lambda x: tf.raw_ops.BiasAddGrad(out_backprop=x, data_format="NCHW"),
    lambda x: x.sum((0, 2, 3)),
    samples=[Args(real(2, 3, 4, 5))],
    order=2,
    tolerance=1e-4,
)
case(
    "L2Loss",
    tf.nn.l2_loss,
    lambda x: np.asarray((x.astype(np.float64) ** 2).sum() / 2),
    dtypes=FLOATS,
    order=2,
    samples=[Args(real(2, 3)), Args(real()), Args(real(0)), Args(real(40000, low=-0.1, high=0.1))],
)


def _stirling(t, x):
    with np.errstate(all="ignore"):
        rest = t * np.log(t) - t + 0.5 * np.log(2 * np.pi * t)
    return np.exp(x) - x * t + np.where((t >= 0) & (t <= 1), 0, rest)


case(
    "Exp",
    lambda t, x: tf.nn.log_poisson_loss(t, x, compute_full_loss=True),
    _stirling,
    samples=[Args(real(3, 4, low=0.5, high=4), real(3, 4))],
    bad=[Bad(Args(real(3), real(4)))],
    order=1,
)
case(
    "Relu",
    tf.nn.relu_layer,
    lambda x, w, b: np.maximum(x @ w + b, 0),
    samples=[Args(real(2, 3), real(3, 4), real(4))],
    order=1,
)
case("BiasAdd", tf.nn.xw_plus_b, lambda x, w, b: x @ w + b, samples=[Args(real(2, 3), real(3, 4), real(4))], order=1)
# Lengths of rows around the number of lanes, and more rows than are worked on side by side.
_MANY = [Args(real(rows, n, low=-9, high=9)) for rows, n in ((33, 1), (17, 10), (16, 32), (3, 33), (2, 70), (40, 16))]
case("Softmax", tf.nn.softmax, _softmax, samples=_MANY, dtypes=FLOATS)
case("LogSoftmax", tf.nn.log_softmax, _log_softmax, samples=_MANY, dtypes=FLOATS)
_FAR = np.array([[-800.0, 0.0, -30.0], [-np.inf, 0.0, 1.0], [np.nan, 0.0, 1.0], [-720.0, -1400.0, -700.0]])
case("Softmax", tf.nn.softmax, _softmax, samples=[Args(_FAR), Args(_FAR.astype(np.float32)), Args(np.tile(_FAR, 20))])
