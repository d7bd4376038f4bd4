"""The layers of the benchmark networks for JAX: functions of parameters, to be compiled as a whole."""

import jax.numpy as jnp
from jax import lax, nn

from .parameters import Parameters


class JaxNet:
    """Layers on NHWC images. The first pass makes the parameters; `begin(arrays, statistics)` starts later passes."""

    def __init__(self, training):
        self.training, self.parameters, self.first = training, Parameters(), True
        self.statistics, self.new_statistics, self.next_statistic = [], [], 0

    def begin(self, arrays, statistics):
        """Starts a pass with these parameters and moving averages."""
        self.first, self.statistics, self.new_statistics, self.next_statistic = False, statistics, [], 0
        self.parameters.begin(arrays)

    def variable(self, shape, kind):
        """The next parameter."""
        return jnp.asarray(self.parameters.make(shape, kind)) if self.first else self.parameters.current()

    def _convolved(self, x, channels, size, stride, pad):
        height, width = (size, size) if isinstance(size, int) else size
        rows, columns = (pad, pad) if isinstance(pad, int) else pad
        filters = self.variable((height, width, x.shape[3], channels), "weight")
        return lax.conv_general_dilated(
            x, filters, (stride, stride), [(rows, rows), (columns, columns)], dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def conv(self, x, channels, size, stride=1, pad=0, relu=True):
        y = self._convolved(x, channels, size, stride, pad) + self.variable((channels,), "zero")
        return nn.relu(y) if relu else y

    def bn_conv(self, x, channels, size, stride=1, pad=0, relu=True):
        y = self._convolved(x, channels, size, stride, pad)
        scale, offset = self.variable((channels,), "one"), self.variable((channels,), "zero")
        if self.first:
            self.statistics.append((jnp.zeros(channels), jnp.ones(channels)))
        mean, variance = self.statistics[self.next_statistic]
        self.next_statistic += 1
        if self.training:
            old_mean, old_variance = mean, variance
            mean, variance = y.mean((0, 1, 2)), y.var((0, 1, 2))
            self.new_statistics.append((0.9 * old_mean + 0.1 * mean, 0.9 * old_variance + 0.1 * variance))
        factor = scale * lax.rsqrt(variance + 1e-3)
        y = y * factor + (offset - mean * factor)
        return nn.relu(y) if relu else y

    def _windows(self, x, start, operation, size, stride, pad):
        padding = [(0, 0), (pad, pad), (pad, pad), (0, 0)]
        return lax.reduce_window(x, start, operation, (1, size, size, 1), (1, stride, stride, 1), padding)

    def max_pool(self, x, size, stride, pad=0):
        return self._windows(x, -jnp.inf, lax.max, size, stride, pad)

    def avg_pool(self, x, size, stride, pad=0):
        total = self._windows(x, 0.0, lax.add, size, stride, pad)
        return total / self._windows(jnp.ones_like(x[:1, :, :, :1]), 0.0, lax.add, size, stride, pad)

    def global_pool(self, x):
        return x.mean((1, 2))

    def lrn(self, x):
        squares = lax.reduce_window(x * x, 0.0, lax.add, (1, 1, 1, 5), (1, 1, 1, 1), [(0, 0)] * 3 + [(2, 2)])
        return x / (1.0 + 2e-5 * squares) ** 0.75

    def concat(self, parts):
        return jnp.concatenate(parts, 3)

    def add_relu(self, x, y):
        return nn.relu(x + y)

    def flatten(self, x):
        return x.transpose(0, 3, 1, 2).reshape(x.shape[0], -1)

    def dense(self, x, size, relu=True):
        y = x @ self.variable((x.shape[1], size), "weight") + self.variable((size,), "zero")
        return nn.relu(y) if relu else y
