"""The parameters of a network: the same numbers for every framework, made in the order of the layers."""

import numpy as np


class Parameters:
    """Makes parameters on the first pass over a network and hands them out again on the following ones.

    Attributes:
        arrays: NumPy arrays in the order of the layers: filters are HWIO, weights of dense layers [in, out].
        values: The values that `current` returns: the framework's own tensors, once the first pass is over.
    """

    def __init__(self):
        self.random = np.random.default_rng(7)
        self.arrays, self.values, self.next = [], None, 0

    def make(self, shape, kind):
        """The next parameter. Kinds: "weight" (scaled to keep the variance), "zero", "one"."""
        if kind == "weight":
            fan_in = int(np.prod(shape[:-1]))
            array = self.random.standard_normal(shape, dtype=np.float32) * np.float32(np.sqrt(2 / fan_in))
        else:
            array = np.full(shape, 0 if kind == "zero" else 1, np.float32)
        self.arrays.append(array)
        return array

    def begin(self, values):
        """Starts another pass, over these values."""
        self.values, self.next = values, 0

    def current(self):
        """The next value of this pass."""
        self.next += 1
        return self.values[self.next - 1]
