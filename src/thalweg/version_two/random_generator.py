"""tf.random.Generator: a stream of random numbers whose state is a variable, with TensorFlow's values.

The state of Philox is a counter of 128 bits and a key of 64. A call takes 256 steps of the counter for each element,
so that numbers do not depend on how many threads draw them.
"""

from __future__ import annotations

import secrets
from typing import Any, Final

import numpy as np

from thalweg.version_two.public_names import OTHERWISE, otherwise, tf

_PHILOX: Final = 1
_NAMES: Final = {"philox": _PHILOX, "auto_select": _PHILOX, 1: _PHILOX, 3: _PHILOX}
_STEPS: Final = 256  # Of the counter, for each element.


def _algorithm(alg: Any) -> int:
    if alg not in _NAMES:
        raise ValueError(f"The algorithm must be 'philox' or 'auto_select', got {alg!r}.")
    return _NAMES[alg]


@otherwise("random.create_rng_state", "random.experimental.create_rng_state")
def create_rng_state(seed: Any, alg: Any = "philox") -> Any:
    """The state that belongs to a seed: an integer, or up to three of them."""
    _algorithm(alg)
    given = np.asarray(seed.numpy() if isinstance(seed, tf.Tensor) else seed, dtype=object)
    values = [_as_int64(each) for each in given.reshape(-1)]
    if len(values) > 3:
        raise ValueError(f"A seed for Philox has at most 3 numbers, got {len(values)}.")
    if given.ndim == 0:  # One number of 192 bits, the lowest first.
        return tf.constant([values[0], *[-1 if values[0] < 0 else 0] * 2], tf.int64)
    return tf.constant([0] * (3 - len(values)) + values, tf.int64)


def _as_int64(value: Any) -> int:
    number = int(value) & (2**64 - 1)
    return number - 2**64 if number >= 2**63 else number


@otherwise("random.Generator", "random.experimental.Generator")
class Generator(tf.Module):
    """A stream of random numbers.

    Example:
        >>> import thalweg.compat.v2 as tf2
        >>> with tf.eager():
        ...     print(tf2.random.Generator.from_seed(1).uniform([2]).shape)
        (2,)
    """

    def __init__(self, copy_from: Any = None, state: Any = None, alg: Any = None) -> None:
        """Takes a generator to copy, or a state; see `from_seed`."""
        super().__init__()
        if copy_from is not None:
            state, alg = copy_from.state.read_value(), copy_from.algorithm
        if state is None:
            raise ValueError("A Generator needs a state: use Generator.from_seed(seed).")
        self._algorithm = _algorithm("philox" if alg is None else alg)
        initial = tf.cast(tf.convert_to_tensor(state), tf.int64)
        if initial.shape.as_list() != [3]:
            raise ValueError(f"The state of Philox has 3 numbers, got the shape {initial.shape}.")
        self._state = tf.Variable(initial, trainable=False, dtype=tf.int64, name="StateVar")

    @classmethod
    def from_seed(cls, seed: Any, alg: Any = None) -> Generator:
        """A generator that starts from a seed."""
        return cls(state=create_rng_state(seed), alg=alg)

    @classmethod
    def from_state(cls, state: Any, alg: Any) -> Generator:
        """A generator that goes on from a state."""
        return cls(state=state, alg=alg)

    @classmethod
    def from_key_counter(cls, key: Any, counter: Any, alg: Any) -> Generator:
        """A generator of a key and a counter."""
        return cls(state=[*(_as_int64(each) for each in counter), _as_int64(key)], alg=alg)

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = None) -> Generator:
        """A generator that starts anywhere."""
        return cls(state=[_as_int64(secrets.randbits(64)) for _ in range(3)], alg=alg)

    @property
    def state(self) -> Any:
        """The variable of the state."""
        return self._state

    @property
    def algorithm(self) -> int:
        """1, which is Philox."""
        return self._algorithm

    @property
    def key(self) -> Any:
        """The key."""
        return self._state.read_value()[2]

    def reset(self, state: Any) -> None:
        """Goes on from a state."""
        self._state.assign(tf.cast(state, tf.int64))

    def reset_from_seed(self, seed: Any) -> None:
        """Starts from a seed."""
        self._state.assign(create_rng_state(seed))

    def reset_from_key_counter(self, key: Any, counter: Any) -> None:
        """Goes on from a key and a counter."""
        self._state.assign([*(_as_int64(each) for each in counter), _as_int64(key)])

    def skip(self, delta: int) -> Any:
        """Moves on as if `delta` numbers had been drawn."""
        return self._moved(tf.cast(delta, tf.int64) * _STEPS)

    def _moved(self, steps: Any) -> Any:
        """The state before the counter of 128 bits is moved by so many steps."""
        before = self._state.read_value()
        low = before[0] + steps
        flip = np.int64(-(2**63))  # Compares as without signs.
        carry = tf.cast(tf.bitwise.bitwise_xor(low, flip) < tf.bitwise.bitwise_xor(before[0], flip), tf.int64)
        self._state.assign(tf.stack([low, before[1] + carry, before[2]]))
        return before

    def _draw(self, op: str, shape: Any, **attributes: Any) -> Any:
        sizes = tf.convert_to_tensor(shape if not isinstance(shape, tf.TensorShape) else shape.as_list(), tf.int32)
        before = self._moved(tf.cast(tf.reduce_prod(sizes), tf.int64) * _STEPS)
        unsigned = tf.bitcast(before, tf.uint64)
        return getattr(tf.raw_ops, op)(
            shape=sizes, key=unsigned[2:], counter=unsigned[:2], alg=tf.constant(self._algorithm), **attributes
        )

    def normal(self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = tf.float32, name: Any = None) -> Any:
        """Normal numbers."""
        drawn = self._draw("StatelessRandomNormalV2", shape, dtype=tf.as_dtype(dtype))
        return drawn * tf.cast(stddev, dtype) + tf.cast(mean, dtype)

    def truncated_normal(
        self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = tf.float32, name: Any = None
    ) -> Any:
        """Normal numbers within two standard deviations."""
        drawn = self._draw("StatelessTruncatedNormalV2", shape, dtype=tf.as_dtype(dtype))
        return drawn * tf.cast(stddev, dtype) + tf.cast(mean, dtype)

    def uniform(
        self, shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = tf.float32, name: Any = None
    ) -> Any:
        """Uniform numbers in [minval, maxval).

        Raises:
            ValueError: If `maxval` is None for integers.
        """
        kind = tf.as_dtype(dtype)
        if kind.is_integer:
            if maxval is None:
                raise ValueError(f"Must specify maxval for integer dtype {kind.name}")
            return self._draw("StatelessRandomUniformIntV2", shape, minval=tf.cast(minval, kind),
                              maxval=tf.cast(maxval, kind))  # fmt: skip
        low, high = tf.cast(minval, kind), tf.cast(1 if maxval is None else maxval, kind)
        return self._draw("StatelessRandomUniformV2", shape, dtype=kind) * (high - low) + low

    def uniform_full_int(self, shape: Any, dtype: Any = tf.uint64, name: Any = None) -> Any:
        """Integers of all values of a type."""
        return self._draw("StatelessRandomUniformFullIntV2", shape, dtype=tf.as_dtype(dtype))

    def make_seeds(self, count: int = 1) -> Any:
        """Seeds for stateless random ops, one in each column."""
        keys = self.uniform_full_int([count], tf.int64)
        return tf.stack([keys, tf.zeros_like(keys)])

    def split(self, count: int = 1) -> list[Generator]:
        """Generators whose numbers have nothing to do with each other."""
        keys = self.uniform_full_int([count], tf.int64)
        return [Generator(state=tf.stack([0, 0, keys[i]]), alg=self._algorithm) for i in range(count)]


_global: list[Generator] = []


@otherwise("random.get_global_generator", "random.experimental.get_global_generator")
def get_global_generator() -> Generator:
    """The generator of the program."""
    if not _global:
        with tf.init_scope():
            seed = tf.get_seed(0)[0]
            made = Generator.from_non_deterministic_state() if tf.get_default_graph().seed is None else None
            _global.append(made or Generator.from_seed(seed))
    return _global[0]


@otherwise("random.set_global_generator", "random.experimental.set_global_generator")
def set_global_generator(generator: Generator) -> None:
    """Makes a generator that of the program."""
    _global[:] = [generator]


@otherwise("random.stateless_uniform")
def stateless_uniform(
    shape: Any, seed: Any, minval: Any = 0, maxval: Any = None, dtype: Any = tf.float32, name: Any = None,
    alg: str = "auto_select",
) -> Any:  # fmt: skip
    """Uniform numbers that depend on the seed only; with both bounds None, integers of all values of the type."""
    if minval is None and maxval is None:
        return tf.raw_ops.StatelessRandomUniformFullInt(
            shape=tf.convert_to_tensor(shape, tf.int32), seed=seed, dtype=tf.as_dtype(dtype)
        )
    return tf.random.stateless_uniform(shape, seed, minval, maxval, dtype, name)


@otherwise("random.split", "random.experimental.stateless_split")
def stateless_split(seed: Any, num: int = 2, alg: str = "auto_select") -> Any:
    """Seeds that are made of one."""
    seed = tf.convert_to_tensor(seed)
    return stateless_uniform([num, 2], seed, None, None, seed.dtype)


@otherwise("random.fold_in", "random.experimental.stateless_fold_in")
def stateless_fold_in(seed: Any, data: Any, alg: str = "auto_select") -> Any:
    """A seed that is made of one and of a number."""
    seed = tf.convert_to_tensor(seed)
    first = stateless_uniform([], seed, None, None, seed.dtype)
    return tf.stack([first, tf.cast(data, first.dtype)])


OTHERWISE["random.Algorithm"] = type("Algorithm", (), {"PHILOX": 1, "THREEFRY": 2, "AUTO_SELECT": 3})
