"""Initializers make the first value of a variable from its shape: `tf.*_initializer`, `tf.initializers.*`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from thalweg.graph import dtypes
from thalweg.graph.apply import apply, apply_one
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.array.constants import constant
from thalweg.ops.random.generators import random_normal, random_uniform, truncated_normal

# Larger constants are filled in when the variable is initialized, instead of being kept in the graph.
_LARGEST_CONSTANT = 1000
# The standard deviation of a unit normal distribution cut off at two standard deviations.
_TRUNCATED_STDDEV = 0.87962566103423978

_MODES = ("fan_in", "fan_out", "fan_avg")
_DISTRIBUTIONS = ("normal", "uniform", "truncated_normal", "untruncated_normal")


class Initializer:
    """Base class: `initializer(shape, dtype)` returns a Tensor; `get_config` holds the constructor's arguments."""

    _arguments: tuple[str, ...] = ()

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """Returns the first value.

        Args:
            shape: The shape of the variable.
            dtype: The type of its elements; the initializer's own if None.
            partition_info: For a piece of a partitioned variable: its place in the whole (`full_shape`).
        """
        return self._value(shape, as_dtype(getattr(self, "dtype") if dtype is None else dtype), partition_info)  # noqa: B009

    def _value(self, shape: Any, dtype: DType, partition_info: Any) -> Tensor:
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor, as values that JSON can hold."""
        return {
            name: value.name if isinstance(value := getattr(self, name), DType) else value for name in self._arguments
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Initializer:
        """Makes an initializer from what `get_config` returned."""
        return cls(**config)


def _dims(shape: Any) -> list[int]:
    dims = TensorShape(shape).as_list()
    if any(d is None for d in dims):
        raise ValueError(f"An initializer needs a fully defined shape, got {dims}.")
    return [int(d) for d in dims if d is not None]


def _float_dtype(dtype: Any) -> DType:
    found = as_dtype(dtype)
    if not found.is_floating:
        raise ValueError(f"Expected floating point type, got {found!r}.")
    return found


def _filled(shape: Any, value: Any, dtype: DType, name: str) -> Tensor:
    if isinstance(shape, Tensor):
        return apply_one("Fill", shape, constant(value, dtype), name=name)
    dims = _dims(shape)
    if math.prod(dims) <= _LARGEST_CONSTANT:
        return constant(value, dtype, dims, name)
    return apply_one("Fill", dims, constant(value, dtype), name=name)


@export("zeros_initializer", "initializers.zeros")
class Zeros(Initializer):
    """Makes tensors of zeros (False, or empty strings)."""

    _arguments = ("dtype",)

    def __init__(self, dtype: Any = dtypes.float32) -> None:
        """Takes the type of the elements."""
        self.dtype = as_dtype(dtype)

    def _value(self, shape: Any, dtype: DType, partition_info: Any) -> Tensor:
        return _filled(shape, b"" if dtype is dtypes.string else False if dtype.is_bool else 0, dtype, "zeros")


@export("ones_initializer", "initializers.ones")
class Ones(Initializer):
    """Makes tensors of ones."""

    _arguments = ("dtype",)

    def __init__(self, dtype: Any = dtypes.float32) -> None:
        """Takes the type of the elements."""
        self.dtype = as_dtype(dtype)

    def _value(self, shape: Any, dtype: DType, partition_info: Any) -> Tensor:
        return _filled(shape, True if dtype.is_bool else 1, dtype, "ones")


@export("constant_initializer", "initializers.constant")
class Constant(Initializer):
    """Makes tensors of a given value; of a list, the last element is repeated where there are too few."""

    _arguments = ("value", "dtype")

    def __init__(self, value: Any = 0, dtype: Any = dtypes.float32, verify_shape: bool = False) -> None:
        """Takes a number, a list or an array, the type, and whether the value must have exactly the shape asked for."""
        if not (np.isscalar(value) or isinstance(value, (list, tuple, np.ndarray))):
            raise TypeError(
                f"Invalid type for initial value: {type(value)}. Expected Python scalar, Python list, Python tuple, or "
                "numpy ndarray"
            )
        self.value = value
        self.dtype = as_dtype(dtype)
        self._verify_shape = verify_shape

    def __call__(
        self, shape: Any, dtype: Any = None, partition_info: Any = None, verify_shape: bool | None = None
    ) -> Tensor:
        """As for every initializer; `verify_shape` overrides what the constructor was told."""
        verify = self._verify_shape if verify_shape is None else verify_shape
        return constant(self.value, self.dtype if dtype is None else dtype, shape, verify_shape=verify)


@export("random_uniform_initializer", "initializers.random_uniform")
class RandomUniform(Initializer):
    """Makes tensors with values uniform in [minval, maxval)."""

    _arguments = ("minval", "maxval", "seed", "dtype")

    def __init__(
        self, minval: Any = 0.0, maxval: Any = None, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        """Takes the bounds (1 if `maxval` is None), the seed of the op and the type."""
        self.minval = minval
        self.maxval = maxval
        self.seed = seed
        self.dtype = as_dtype(dtype)

    def _value(self, shape: Any, dtype: DType, partition_info: Any) -> Tensor:
        return random_uniform(shape, self.minval, self.maxval, dtype, self.seed)


@export("random_normal_initializer", "initializers.random_normal")
class RandomNormal(Initializer):
    """Makes tensors with normally distributed values."""

    _arguments = ("mean", "stddev", "seed", "dtype")

    def __init__(
        self, mean: Any = 0.0, stddev: Any = 1.0, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        """Takes mean, standard deviation, the seed of the op and the type."""
        self.mean = mean
        self.stddev = stddev
        self.seed = seed
        self.dtype = _float_dtype(dtype)

    def _value(self, shape: Any, dtype: DType, partition_info: Any) -> Tensor:
        return random_normal(shape, self.mean, self.stddev, dtype, self.seed)


@export("truncated_normal_initializer", "initializers.truncated_normal")
class TruncatedNormal(Initializer):
    """Makes tensors with normally distributed values within two standard deviations of the mean."""

    _arguments = ("mean", "stddev", "seed", "dtype")

    def __init__(
        self, mean: Any = 0.0, stddev: Any = 1.0, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        """Takes mean, standard deviation, the seed of the op and the type."""
        self.mean = mean
        self.stddev = stddev
        self.seed = seed
        self.dtype = _float_dtype(dtype)

    def _value(self, shape: Any, dtype: DType, partition_info: Any) -> Tensor:
        return truncated_normal(shape, self.mean, self.stddev, dtype, self.seed)


def _whole_shape(shape: Any, partition_info: Any) -> list[int]:
    return _dims(shape if partition_info is None else partition_info.full_shape)


@export("uniform_unit_scaling_initializer", "initializers.uniform_unit_scaling")
class UniformUnitScaling(Initializer):
    """Makes uniform values that keep the scale of a linear layer's input: within sqrt(3 / inputs) * factor of zero."""

    _arguments = ("factor", "seed", "dtype")

    def __init__(self, factor: float = 1.0, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        """Takes a factor for the range, the seed of the op and the type."""
        self.factor = factor
        self.seed = seed
        self.dtype = _float_dtype(dtype)

    def _value(self, shape: Any, dtype: DType, partition_info: Any) -> Tensor:
        inputs = max(1, math.prod(_whole_shape(shape, partition_info)[:-1]))
        limit = math.sqrt(3 / inputs) * self.factor
        return random_uniform(shape, -limit, limit, dtype, self.seed)


def _fans(shape: list[int]) -> tuple[float, float]:
    """The numbers of inputs and outputs of a layer whose weights (or convolution kernel) have this shape."""
    if not shape:
        return 1.0, 1.0
    if len(shape) == 1:
        return float(shape[0]), float(shape[0])
    receptive_field = math.prod(shape[:-2])
    return float(shape[-2] * receptive_field), float(shape[-1] * receptive_field)


@export("variance_scaling_initializer", "initializers.variance_scaling")
class VarianceScaling(Initializer):
    """Makes values whose variance is `scale` / n, where n is the number of inputs, of outputs, or their average."""

    _arguments: tuple[str, ...] = ("scale", "mode", "distribution", "seed", "dtype")

    def __init__(
        self, scale: float = 1.0, mode: str = "fan_in", distribution: str = "truncated_normal",
        seed: int | None = None, dtype: Any = dtypes.float32,
    ) -> None:  # fmt: skip
        """Sets it up.

        Args:
            scale: A positive factor.
            mode: 'fan_in', 'fan_out' or 'fan_avg'.
            distribution: 'truncated_normal' (also called 'normal'), 'untruncated_normal' or 'uniform'.
            seed: The seed of the op.
            dtype: The type of the elements.

        Raises:
            ValueError: For another mode or distribution, or a scale that is not positive.
        """
        if scale <= 0.0:
            raise ValueError(f"`scale` must be positive float. Received: {scale}")
        if mode not in _MODES:
            raise ValueError(f"Invalid `mode` argument: {mode}; expected one of {', '.join(_MODES)}")
        if distribution.lower() not in _DISTRIBUTIONS:
            raise ValueError(
                f"Invalid `distribution` argument: {distribution}; expected one of {', '.join(_DISTRIBUTIONS)}"
            )
        self.scale = scale
        self.mode = mode
        self.distribution = distribution.lower()
        self.seed = seed
        self.dtype = _float_dtype(dtype)

    def _value(self, shape: Any, dtype: DType, partition_info: Any) -> Tensor:
        fan_in, fan_out = _fans(_whole_shape(shape, partition_info))
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        variance = self.scale / max(1.0, fan)
        if self.distribution == "uniform":
            limit = math.sqrt(3.0 * variance)
            return random_uniform(shape, -limit, limit, dtype, self.seed)
        if self.distribution == "untruncated_normal":
            return random_normal(shape, 0.0, math.sqrt(variance), dtype, self.seed)
        return truncated_normal(shape, 0.0, math.sqrt(variance) / _TRUNCATED_STDDEV, dtype, self.seed)


class _Glorot(VarianceScaling):
    _arguments: tuple[str, ...] = ("seed", "dtype")


@export("glorot_uniform_initializer", "initializers.glorot_uniform")
class GlorotUniform(_Glorot):
    """Uniform within sqrt(6 / (inputs + outputs)) of zero (Glorot and Bengio, 2010)."""

    def __init__(self, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        """Takes the seed of the op and the type."""
        super().__init__(1.0, "fan_avg", "uniform", seed, dtype)


@export("glorot_normal_initializer", "initializers.glorot_normal")
class GlorotNormal(_Glorot):
    """Truncated normal with variance 2 / (inputs + outputs) (Glorot and Bengio, 2010)."""

    def __init__(self, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        """Takes the seed of the op and the type."""
        super().__init__(1.0, "fan_avg", "truncated_normal", seed, dtype)


@export("initializers.he_normal")
def he_normal(seed: int | None = None) -> VarianceScaling:
    """Truncated normal with variance 2 / inputs (He et al., 2015)."""
    return VarianceScaling(2.0, "fan_in", "truncated_normal", seed)


@export("initializers.he_uniform")
def he_uniform(seed: int | None = None) -> VarianceScaling:
    """Uniform within sqrt(6 / inputs) of zero (He et al., 2015)."""
    return VarianceScaling(2.0, "fan_in", "uniform", seed)


@export("initializers.lecun_normal")
def lecun_normal(seed: int | None = None) -> VarianceScaling:
    """Truncated normal with variance 1 / inputs (LeCun et al., 1998)."""
    return VarianceScaling(1.0, "fan_in", "truncated_normal", seed)


@export("initializers.lecun_uniform")
def lecun_uniform(seed: int | None = None) -> VarianceScaling:
    """Uniform within sqrt(3 / inputs) of zero (LeCun et al., 1998)."""
    return VarianceScaling(1.0, "fan_in", "uniform", seed)


@export("orthogonal_initializer", "initializers.orthogonal")
class Orthogonal(Initializer):
    """Makes matrices with orthogonal rows or columns; more than two dimensions are flattened to (rest, last)."""

    _arguments = ("gain", "seed", "dtype")

    def __init__(self, gain: float = 1.0, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        """Takes a factor, the seed of the op and the type."""
        self.gain = gain
        self.seed = seed
        self.dtype = _float_dtype(dtype)

    def _value(self, shape: Any, dtype: DType, partition_info: Any) -> Tensor:
        dims = _dims(shape)
        if len(dims) < 2:
            raise ValueError(f"The tensor to initialize must be at least two-dimensional. Received: {dims}")
        rows, columns = math.prod(dims[:-1]), dims[-1]
        noise = random_normal([max(rows, columns), min(rows, columns)], dtype=dtype, seed=self.seed)
        q, r = apply("Qr", noise, full_matrices=False)
        # The signs make the distribution uniform over all orthogonal matrices.
        q = apply_one("Mul", q, apply_one("Sign", apply_one("DiagPart", r)), name="mul")
        if rows < columns:
            q = apply_one("Transpose", q, [1, 0], name="matrix_transpose")
        return apply_one("Mul", self.gain, apply_one("Reshape", q, dims), name="mul")


@export("initializers.identity")
class Identity(Initializer):
    """Makes the identity matrix, times a factor; or the piece of it that belongs to a part of a variable."""

    _arguments = ("gain", "dtype")

    def __init__(self, gain: float = 1.0, dtype: Any = dtypes.float32) -> None:
        """Takes a factor and the type."""
        self.gain = gain
        self.dtype = _float_dtype(dtype)

    def _value(self, shape: Any, dtype: DType, partition_info: Any) -> Tensor:
        whole = _whole_shape(shape, partition_info)
        if len(whole) != 2:
            raise ValueError(f"Identity matrix initializer can only be used for 2D matrices. Received: {whole}")
        rows, columns = _dims(shape)
        offset = (0, 0) if partition_info is None else tuple(partition_info.var_offset)
        matrix = np.eye(rows, columns, offset[0] - offset[1]) * self.gain
        return constant(matrix.astype(dtype.as_numpy_dtype), name="eye")
