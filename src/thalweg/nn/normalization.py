"""Normalizing: by the statistics of a batch, by length, by neighbouring channels; and the statistics themselves."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply, apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import bfloat16, float16, float32
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.shapes_of_tensors import squeeze
from thalweg.ops.math.arithmetic import add, multiply, subtract
from thalweg.ops.math.operators import binary, unary
from thalweg.ops.math.reductions import reduce_mean, reduce_sum
from thalweg.platform.deprecation import deprecated_argument_lookup


@export("nn.lrn", "nn.local_response_normalization")
def local_response_normalization(
    input: Any, depth_radius: int = 5, bias: float = 1, alpha: float = 1, beta: float = 0.5, name: str | None = None
) -> Tensor:
    """Divides each element by `(bias + alpha * s) ** beta`, with `s` the sum of squares of its neighbours in depth.

    Args:
        input: A Tensor `[batch, rows, columns, channels]`.
        depth_radius: How many channels on each side count as neighbours.
        bias: An offset.
        alpha: A factor.
        beta: An exponent.
        name: The node's name.

    Returns:
        A Tensor like `input`.
    """
    return apply_one("LRN", input, depth_radius=depth_radius, bias=bias, alpha=alpha, beta=beta, name=name)


@export("nn.fused_batch_norm")
def fused_batch_norm(
    x: Any, scale: Any, offset: Any, mean: Any = None, variance: Any = None, epsilon: float = 0.001,
    data_format: str = "NHWC", is_training: bool = True, name: str | None = None, exponential_avg_factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Normalizes images, channel by channel, in one op.

    Args:
        x: A Tensor of rank 4, or of rank 5 with a fitting `data_format`.
        scale: A factor per channel.
        offset: A number per channel that is added at the end.
        mean: The means to use, or to update when training with an `exponential_avg_factor` other than 1.
        variance: The variances, likewise.
        epsilon: Is added to the variance.
        data_format: 'NHWC', 'NCHW', 'NDHWC' or 'NCDHW'.
        is_training: Whether to use the statistics of the batch.
        name: The node's name.
        exponential_avg_factor: How much the batch counts in the returned statistics; the rest are the given ones.

    Returns:
        The normalized images; means; and variances (of the batch: with Bessel's correction).

    Raises:
        ValueError: If statistics are needed and not given.
    """
    needed = not is_training or exponential_avg_factor != 1.0
    if needed and (mean is None or variance is None):
        raise ValueError(
            "Both `mean` and `variance` must be a 1D tensor when `is_training` is False or `exponential_avg_factor` "
            f"!= 1.0. Received: `mean` {mean!r} and `variance` {variance!r}"
        )
    x = convert_to_tensor(x, name="input")
    scale = convert_to_tensor(scale, name="scale")
    offset = convert_to_tensor(offset, name="offset")
    nothing = None if needed else convert_to_tensor([], dtype=float32)
    result = apply(
        "FusedBatchNormV3", x, scale, offset, nothing if mean is None else mean,
        nothing if variance is None else variance,
        epsilon=max(epsilon, 1.001e-5), exponential_avg_factor=exponential_avg_factor, data_format=data_format,
        is_training=is_training, name=name,
    )  # fmt: skip
    return result.y, result.batch_mean, result.batch_variance


@export("nn.batch_normalization")
def batch_normalization(
    x: Any, mean: Any, variance: Any, offset: Any, scale: Any, variance_epsilon: float, name: str | None = None
) -> Tensor:
    """Returns `(x - mean) / sqrt(variance + variance_epsilon) * scale + offset`, with broadcasting.

    Args:
        x: A Tensor.
        mean: Its mean.
        variance: Its variance.
        offset: What to add, or None.
        scale: A factor, or None.
        variance_epsilon: A small number, against division by zero.
        name: A name scope.

    Returns:
        A Tensor like `x`.
    """
    with name_scope(name, "batchnorm", [x, mean, variance, scale, offset]):
        x = convert_to_tensor(x)
        factor = unary("Rsqrt", add(variance, variance_epsilon, name="add"))
        if scale is not None:
            factor = multiply(factor, scale, name="mul")
        # Two numbers per channel: one multiplication and one addition per element remain. The names are TensorFlow's.
        scaled = multiply(x, apply_one("Cast", factor, DstT=x.dtype) if factor.dtype != x.dtype else factor, name="mul")
        if offset is not None:
            shift = subtract(offset, multiply(mean, factor, name="mul"), name="sub")
        else:
            shift = multiply(unary("Neg", mean), factor, name="mul")
        return add(scaled, apply_one("Cast", shift, DstT=x.dtype) if shift.dtype != x.dtype else shift, name="add")


@export("nn.batch_norm_with_global_normalization")
def batch_norm_with_global_normalization(
    t: Any = None, m: Any = None, v: Any = None, beta: Any = None, gamma: Any = None, variance_epsilon: Any = None,
    scale_after_normalization: Any = None, name: str | None = None, input: Any = None, mean: Any = None,
    variance: Any = None,
) -> Tensor:  # fmt: skip
    """The same as `batch_normalization`, in an older order of arguments; scales only if told to."""
    t = deprecated_argument_lookup("input", input, "t", t)
    m = deprecated_argument_lookup("mean", mean, "m", m)
    v = deprecated_argument_lookup("variance", variance, "v", v)
    return batch_normalization(t, m, v, beta, gamma if scale_after_normalization else None, variance_epsilon, name)


def _keepdims_argument(keepdims: bool | None, keep_dims: bool | None) -> bool:
    return bool(deprecated_argument_lookup("keepdims", keepdims, "keep_dims", keep_dims))


@export("nn.moments")
def moments(
    x: Any, axes: Any, shift: Any = None, name: str | None = None, keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Returns mean and variance of `x` over `axes`.

    Args:
        x: A Tensor.
        axes: The dimensions to reduce.
        shift: Not used.
        name: A name scope.
        keep_dims: The same as `keepdims`.
        keepdims: Whether reduced dimensions stay, with size 1.

    Returns:
        Two tensors. 16-bit elements are added up in 32 bits.

    Example:
        >>> mean, variance = tf.nn.moments(tf.constant([[1.0, 2.0], [3.0, 6.0]]), axes=[0])
        >>> mean.shape.as_list()
        [2]
    """
    keep = _keepdims_argument(keepdims, keep_dims)
    with name_scope(name, "moments", [x, axes]):
        x = convert_to_tensor(x, name="x")
        given = x.dtype.base_dtype
        y = apply_one("Cast", x, DstT=float32) if given in (float16, bfloat16) else x
        mean = reduce_mean(y, axes, keepdims=True, name="mean")
        # The gradient through the mean sums to zero, so it is not computed.
        deviations = binary("SquaredDifference", y, unary("StopGradient", mean))
        variance = reduce_mean(deviations, axes, keepdims=True, name="variance")
        if not keep:
            mean, variance = _squeezed(mean, axes), _squeezed(variance, axes)
        if y is not x:
            mean, variance = (apply_one("Cast", t, DstT=given) for t in (mean, variance))
        return mean, variance


def _squeezed(x: Tensor, axes: Any) -> Tensor:
    return squeeze(x, axes)


@export("nn.weighted_moments")
def weighted_moments(
    x: Any, axes: Any, frequency_weights: Any, name: str | None = None, keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Returns mean and variance of `x` over `axes`, with each element counted `frequency_weights` times.

    Args:
        x: A Tensor.
        axes: The dimensions to reduce.
        frequency_weights: A Tensor that broadcasts with `x`, of any type of numbers.
        name: A name scope.
        keep_dims: The same as `keepdims`.
        keepdims: Whether reduced dimensions stay, with size 1.

    Returns:
        Two tensors.
    """
    keep = _keepdims_argument(keepdims, keep_dims)
    with name_scope(name, "weighted_moments", [x, frequency_weights, axes]):
        x = convert_to_tensor(x, name="x")
        weights = convert_to_tensor(frequency_weights, name="frequency_weights")
        given = x.dtype.base_dtype
        if given in (float16, bfloat16):
            x = apply_one("Cast", x, DstT=float32)
        if weights.dtype.base_dtype != x.dtype.base_dtype:
            weights = apply_one("Cast", weights, DstT=x.dtype)
        total = reduce_sum(multiply(weights, x), axes, keepdims=True, name="weighted_input_sum")
        # Weights may be smaller than x: each counts for all elements that it is broadcast to.
        weight = reduce_sum(add(weights, unary("ZerosLike", x)), axes, keepdims=True, name="sum_of_weights")
        mean = apply_one("DivNoNan", total, weight)
        distances = multiply(weights, binary("SquaredDifference", x, mean))
        variance = apply_one("DivNoNan", reduce_sum(distances, axes, keepdims=True, name="weighted_distsq"), weight)
        if not keep:
            mean, variance = _squeezed(mean, axes), _squeezed(variance, axes)
        if x.dtype.base_dtype != given:
            mean, variance = (apply_one("Cast", t, DstT=given) for t in (mean, variance))
        return mean, variance


@export("nn.sufficient_statistics")
def sufficient_statistics(
    x: Any, axes: Any, shift: Any = None, keep_dims: bool | None = None, name: str | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor, Tensor, Any]:  # fmt: skip
    """Returns the sufficient statistics of mean and variance: count, sum, sum of squares over `axes`, and shift.

    Args:
        x: A Tensor.
        axes: The dimensions to reduce.
        shift: A value near the mean that is subtracted first, for precision; or None.
        keep_dims: The same as `keepdims`.
        name: A name scope.
        keepdims: Whether reduced dimensions stay, with size 1.

    Returns:
        Four values for `normalize_moments`; the last is None if `shift` is.
    """
    keep = _keepdims_argument(keepdims, keep_dims)
    axes = sorted(set(axes)) if isinstance(axes, (list, tuple, set)) else axes
    with name_scope(name, "sufficient_statistics", [x, shift]):
        x = convert_to_tensor(x, name="x")
        dims = x.shape.dims_tuple
        along = None
        if dims is not None and isinstance(axes, (list, tuple)):
            along = [dims[axis] for axis in axes]
        if along is not None and None not in along:
            number = 1.0
            for size in along:
                number *= size or 0
            count = convert_to_tensor(number, dtype=x.dtype)
        else:
            sizes = apply_one("GatherV2", apply_one("Shape", x), axes, 0)
            count = apply_one("Cast", apply_one("Prod", sizes, [0]), DstT=x.dtype, name="count")
        if shift is not None:
            shift = convert_to_tensor(shift, dtype=x.dtype.base_dtype, name="shift")
            values, squares = subtract(x, shift), binary("SquaredDifference", x, shift)
        else:
            values, squares = x, unary("Square", x)
        total = reduce_sum(values, axes, keepdims=keep, name="mean_ss")
        return count, total, reduce_sum(squares, axes, keepdims=keep, name="var_ss"), shift


@export("nn.normalize_moments")
def normalize_moments(
    counts: Any, mean_ss: Any, variance_ss: Any, shift: Any, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Returns mean and variance from the results of `sufficient_statistics`.

    Args:
        counts: The number of elements.
        mean_ss: Their sum, after the shift.
        variance_ss: The sum of their squares, after the shift.
        shift: The shift, or None.
        name: A name scope.

    Returns:
        Two tensors.
    """
    with name_scope(name, "normalize", [counts, mean_ss, variance_ss, shift]):
        divisor = unary("Reciprocal", counts, "divisor")
        if shift is not None:
            shifted = binary("Mul", mean_ss, divisor, "shifted_mean")
            mean = binary("AddV2", shifted, shift, "mean")
        else:
            shifted = mean = binary("Mul", mean_ss, divisor, "mean")
        variance = binary("Sub", multiply(variance_ss, divisor), unary("Square", shifted), "variance")
        return mean, variance


@export("nn.l2_normalize", "math.l2_normalize", "linalg.l2_normalize")
def l2_normalize(x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None) -> Tensor:
    """Divides by the Euclidean norm along `axis`.

    Args:
        x: A Tensor, real or complex.
        axis: The dimensions along which to take norms; all if None.
        epsilon: Squared norms smaller than this count as this.
        name: A name scope.
        dim: The same as `axis`.

    Returns:
        A Tensor like `x`.
    """
    axis = deprecated_argument_lookup("axis", axis, "dim", dim)
    with name_scope(name, "l2_normalize", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        if x.dtype.is_complex:
            real, imag = (apply_one(part, x, Tout=x.dtype.real_dtype) for part in ("Real", "Imag"))
            squares = add(unary("Square", real), unary("Square", imag))
        else:
            squares = unary("Square", x)
        inverse = unary("Rsqrt", binary("Maximum", reduce_sum(squares, axis, keepdims=True), epsilon))
        if x.dtype.is_complex:
            return apply_one("Complex", multiply(real, inverse), multiply(imag, inverse), Tout=x.dtype, name=scope)
        return binary("Mul", x, inverse, scope)


@export("nn.zero_fraction", "math.zero_fraction")
def zero_fraction(value: Any, name: str | None = None) -> Tensor:
    """Returns which part of the elements is zero, as a float32 scalar (NaN if there are none)."""
    with name_scope(name, "zero_fraction", [value]):
        value = convert_to_tensor(value, name="value")
        zero = convert_to_tensor(0, dtype=value.dtype)
        is_zero = apply_one("Cast", binary("Equal", value, zero), DstT=float32)
        # In 64 bits: sums of ones in float32 stop growing at 2^24.
        total = apply_one("Sum", apply_one("Cast", apply_one("Reshape", is_zero, [-1]), DstT="int64"), [0])
        size = apply_one("Size", value, out_type="int64")
        fraction = apply_one(
            "RealDiv", apply_one("Cast", total, DstT="float64"), apply_one("Cast", size, DstT="float64")
        )
        return apply_one("Cast", fraction, DstT=float32, name="fraction")
