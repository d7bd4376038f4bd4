"""Cases of batch normalization, local response normalization, and composite functions of normalization."""

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real

_EPSILON = 1e-3
_REDUCED = "float16 bfloat16 float32"


def _wide(x):
    return np.asarray(x).astype(np.float64)


def _normal(x, mean, variance, scale, offset):
    return (x - mean) / np.sqrt(variance + _EPSILON) * scale + offset


def _train(x, scale, offset):
    x, scale, offset = _wide(x), _wide(scale), _wide(offset)
    axes = tuple(range(x.ndim - 1))
    count = x.size // max(1, x.shape[-1])
    mean, variance = x.mean(axes), x.var(axes)
    unbiased = variance * count / max(1, count - 1)
    return _normal(x, mean, variance, scale, offset), mean, unbiased, mean, variance


def _batch_norm(op, **attrs):
    def call(x, scale, offset, mean=None, variance=None):
        none = tf.zeros([0])
        scale, offset = tf.cast(scale, tf.float32), tf.cast(offset, tf.float32)
        mean, variance = (none if v is None else tf.cast(v, tf.float32) for v in (mean, variance))
        result = op(x=x, scale=scale, offset=offset, mean=mean, variance=variance, epsilon=_EPSILON, **attrs)
        return result[:5]

    return call


_TRAIN = [
    Args(real(2, 3, 4, 5), real(5), real(5)),
    Args(real(3, 5, 4, 40), real(40), real(40)),
    Args(real(1, 1, 1, 3), real(3), real(3)),
]
_TRAIN_BAD = [
    Bad(Args(real(2, 3, 4, 5), real(4), real(5)), match="[4]"),
    Bad(Args(real(2, 3, 4, 5), real(5), real(5, 1)), match="[5,1]"),
    Bad(Args(real(3, 4), real(4), real(4)), match="[3,4]"),
]
_INFER = [Args(real(2, 3, 4, 5), real(5), real(5), real(5), real(5, low=0.5)), Args(real(0, 2, 2, 3), *[real(3)] * 4)]
_INFER_BAD = [
    Bad(Args(real(2, 3, 4, 5), real(5), real(5), real(4), real(5)), match="[4]"),
    Bad(Args(real(2, 3, 4, 5), real(5), real(5), real(5), real(0)), match="[0]"),
]


def _infer(x, scale, offset, mean, variance):
    mean, variance = _wide(mean), _wide(variance)
    y = _normal(_wide(x), mean, variance, _wide(scale), _wide(offset))
    return y, mean, variance, mean, variance


for _version, _types in (("", "float32"), ("V2", _REDUCED), ("V3", _REDUCED)):
    _op = getattr(tf.raw_ops, f"FusedBatchNorm{_version}")
    case(f"FusedBatchNorm{_version}", _batch_norm(_op), _train, samples=_TRAIN, bad=_TRAIN_BAD, dtypes=_types,
         tolerance=1e-4)  # fmt: skip
    case(f"FusedBatchNorm{_version}", _batch_norm(_op, is_training=False), _infer, samples=_INFER, bad=_INFER_BAD,
         dtypes=_types, tolerance=1e-4)  # fmt: skip


def _first(function):
    def reference(x, *args):
        y, *rest = function(np.moveaxis(x, 1, -1), *args)
        return [np.moveaxis(y, -1, 1), *rest]

    return reference


_CHANNELS_FIRST = [Args(real(2, 5, 3, 4), real(5), real(5)), Args(real(1, 2, 70, 3), real(2), real(2))]
case("FusedBatchNorm", _batch_norm(tf.raw_ops.FusedBatchNorm, data_format="NCHW"), _first(_train),
     samples=_CHANNELS_FIRST, dtypes="float32", tolerance=1e-4)  # fmt: skip
case("FusedBatchNormV3", _batch_norm(tf.raw_ops.FusedBatchNormV3, data_format="NCDHW"), _first(_train),
     samples=[Args(real(2, 5, 3, 4, 2), real(5), real(5))], dtypes="float32", tolerance=1e-4)  # fmt: skip
case("FusedBatchNormV3", _batch_norm(tf.raw_ops.FusedBatchNormV3, data_format="NDHWC"), _train,
     samples=[Args(real(2, 3, 2, 4, 5), real(5), real(5))], dtypes="float32", tolerance=1e-4)  # fmt: skip


def _running(x, scale, offset, mean, variance):
    y, new_mean, new_variance, *saved = _train(x, scale, offset)
    return [y, 0.7 * _wide(mean) + 0.3 * new_mean, 0.7 * _wide(variance) + 0.3 * new_variance, *saved]


case("FusedBatchNorm", _batch_norm(tf.raw_ops.FusedBatchNorm, exponential_avg_factor=0.3), _running,
     samples=_INFER[:1], bad=_INFER_BAD, dtypes="float32", tolerance=1e-4)  # fmt: skip


def _batch_norm_grad(op, third=False, **attrs):
    def call(grad, x, scale, mean, variance):
        scale, mean, variance = (tf.cast(v, tf.float32) for v in (scale, mean, variance))
        more = {"reserve_space_3": tf.zeros([])} if third else {}
        return op(y_backprop=grad, x=x, scale=scale, reserve_space_1=mean, reserve_space_2=variance, epsilon=_EPSILON,
                  **more, **attrs)[:3]  # fmt: skip

    return call


def _grad_reference(training):
    def reference(grad, x, scale, mean, variance):
        grad, x, scale, mean, variance = (_wide(v) for v in (grad, x, scale, mean, variance))
        axes = tuple(range(x.ndim - 1))
        inverse = 1 / np.sqrt(variance + _EPSILON)
        normal = (x - mean) * inverse
        inner = grad
        if training:
            inner = grad - grad.mean(axes) - normal * (grad * normal).mean(axes)
        return scale * inverse * inner, (grad * normal).sum(axes), grad.sum(axes)

    return reference


_GRADS = [
    Args(real(2, 3, 4, 5), real(2, 3, 4, 5), real(5), real(5), real(5, low=0.5)),
    Args(real(1, 2, 3, 40), real(1, 2, 3, 40), real(40), real(40), real(40, low=0.5)),
]
_GRADS_BAD = [
    Bad(Args(real(2, 3, 4, 5), real(2, 3, 4, 6), real(5), real(5), real(5)), match="[2,3,4,6]"),
    Bad(Args(real(2, 3, 4, 5), real(2, 3, 4, 5), real(4), real(5), real(5)), match="[4]"),
    Bad(Args(real(4, 5), real(4, 5), real(5), real(5), real(5)), match="[4,5]"),
]
for _version, _types in (("", "float32"), ("V2", _REDUCED), ("V3", _REDUCED)):
    _op = getattr(tf.raw_ops, f"FusedBatchNormGrad{_version}")
    for _training in (True, False):
        case(f"FusedBatchNormGrad{_version}", _batch_norm_grad(_op, _version == "V3", is_training=_training),
             _grad_reference(_training), samples=_GRADS, bad=_GRADS_BAD, dtypes=_types, tolerance=2e-4)  # fmt: skip
case(
    "FusedBatchNormGrad",
    lambda g, x, *rest: _batch_norm_grad(tf.raw_ops.FusedBatchNormGrad, data_format="NCHW")(g, x, *rest),
    lambda g, x, *rest: _first(lambda y, *a: _grad_reference(True)(np.moveaxis(g, 1, -1), y, *a))(x, *rest),
    samples=[Args(real(2, 5, 3, 4), real(2, 5, 3, 4), real(5), real(5), real(5, low=0.5))],
    dtypes="float32",
    tolerance=2e-4,
)


def _norms(x, radius, bias, alpha):
    x = _wide(x)
    sums = np.zeros_like(x)
    for c in range(x.shape[-1]):
        sums[..., c] = (x[..., max(0, c - radius) : c + radius + 1] ** 2).sum(-1)
    return bias + alpha * sums


def _lrn(x, radius, bias, alpha, beta):
    return _wide(x) * _norms(x, radius, bias, alpha) ** -beta


def _lrn_grad(grad, x, radius, bias, alpha, beta):
    grad, x = _wide(grad), _wide(x)
    norms = _norms(x, radius, bias, alpha)
    shares = grad * x * norms ** (-beta - 1)
    sums = np.zeros_like(x)
    for c in range(x.shape[-1]):
        sums[..., c] = shares[..., max(0, c - radius) : c + radius + 1].sum(-1)
    return grad * norms**-beta - 2 * alpha * beta * x * sums


def _raw_lrn_grad(grad, x, radius, bias, alpha, beta):
    return tf.raw_ops.LRNGrad(
        input_grads=grad, input_image=x, output_image=tf.nn.lrn(x, radius, bias, alpha, beta),
        depth_radius=radius, bias=bias, alpha=alpha, beta=beta,
    )  # fmt: skip


case(
    "LRN",
    tf.nn.lrn,
    _lrn,
    samples=[
        Args(real(2, 2, 3, 7), 2, 1.0, 0.5, 0.5),
        Args(real(1, 2, 3, 40), 5, 2.0, 0.1, 0.75),
        Args(real(1, 2, 1, 40), 20, 2.0, 0.1, 1.0),
        Args(real(1, 2, 1, 3), 9, 2.0, 0.1, 0.6),
        Args(real(1, 2, 1, 3), 0, 2.0, 0.1, 0.6),
        Args(real(0, 2, 1, 3), 1, 2.0, 0.1, 0.6),
        Args(real(2, 2, 1, 0), 1, 2.0, 0.1, 0.6),
    ],
    bad=[Bad(Args(real(2, 3, 7), 2, 1.0, 1.0, 0.5), match="[2,3,7]"), Bad(Args(real(1, 1, 1, 7), -2, 1.0, 1.0, 0.5))],
    dtypes=_REDUCED,
)
case(
    "LRNGrad",
    _raw_lrn_grad,
    _lrn_grad,
    samples=[
        Args(real(2, 2, 3, 7), real(2, 2, 3, 7), 2, 1.0, 0.5, 0.5),
        Args(real(1, 2, 3, 40), real(1, 2, 3, 40), 5, 2.0, 0.1, 0.75),
    ],
    bad=[Bad(Args(real(2, 2, 3, 7), real(2, 2, 3, 6), 2, 1.0, 0.5, 0.5), match="[2,2,3,6]")],
    dtypes=_REDUCED,
    tolerance=1e-4,
)


def _layer_norm(x, scale, offset):
    x, scale, offset = _wide(x), _wide(scale), _wide(offset)
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * scale + offset


_LAYERS_BAD = [
    Bad(Args(real(2, 3), real(2), real(3)), match="[2]"),
    Bad(Args(real(2, 3), real(3), real(1, 3)), match="[1,3]"),
    Bad(Args(real(), real(1), real(1)), match="dimension"),
]
case(
    "_LayerNorm",
    tf.nn.layer_norm,
    _layer_norm,
    samples=[
        Args(real(2, 5), real(5), real(5)),
        Args(real(2, 3, 70), real(70), real(70)),
        Args(real(40), real(40), real(40)),
    ],
    bad=_LAYERS_BAD,
    dtypes="float16 bfloat16 float32 float64",
    tolerance=1e-4,
    order=2,
)
case(
    "_LayerNorm",
    tf.nn.layer_norm,
    lambda x, scale, offset: x,
    samples=[Args(real(0, 3), real(3), real(3)), Args(real(2, 0), real(0), real(0))],
)
case(
    "_LayerNorm",
    lambda x: tf.nn.layer_norm(x, axis=[-1, -2]),
    lambda x: _layer_norm(x.reshape(len(x), -1), np.ones(1), np.zeros(1)).reshape(x.shape),
    samples=[Args(real(2, 3, 4))],
)


def _layer_norm_grads(grad, x, scale):
    inverse = 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    normal = (x - x.mean(-1, keepdims=True)) * inverse
    scaled = grad * scale
    inner = scaled - scaled.mean(-1, keepdims=True) - normal * (scaled * normal).mean(-1, keepdims=True)
    return inner * inverse, (grad * normal).sum(0), grad.sum(0)


def _raw_layer_norm_grad(grad, x, scale):
    from thalweg.graph.apply import apply

    forward = apply("_LayerNorm", x, scale, tf.zeros_like(scale), U=x.dtype)
    return list(apply("_LayerNormGrad", grad, x, scale, forward.mean, forward.inverse))


case(
    "_LayerNormGrad",
    _raw_layer_norm_grad,
    _layer_norm_grads,
    samples=[Args(real(4, 5), real(4, 5), real(5)), Args(real(3, 50), real(3, 50), real(50))],
    bad=[Bad(Args(real(4, 5), real(3, 5), real(5)), match="[3,5]")],
    order=1,
    tolerance=1e-4,
)
