"""Random graphs with control flow and state on random devices, the same for a seed with any number of devices.

`python -m tests.devices.random_graphs 1000` compares a thousand of them: the results on 2, 4 and 16 devices must have
the bits of those on one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import thalweg as tf

SIZE = 3
COUNTS = (2, 4, 16)
STRATEGIES = ("hash", "greedy", "heft", "depth_first", "critical_path")

_UNARY: list[Callable[[Any], Any]] = [
    tf.tanh,
    tf.sigmoid,
    tf.negative,
    tf.identity,
    lambda x: tf.square(x) * 0.25,
    lambda x: tf.transpose(x),
    lambda x: x - tf.reduce_mean(x, 0, keepdims=True),
    lambda x: tf.concat(tf.split(x, SIZE, 1)[::-1], 1),
    lambda x: tf.gather(x, [2, 0, 1]),
    lambda x: tf.cumsum(x) * 0.5,
    lambda x: tf.nn.softmax(x),
]
_BINARY: list[Callable[[Any, Any], Any]] = [
    tf.add,
    tf.subtract,
    tf.multiply,
    tf.maximum,
    lambda x, y: tf.matmul(x, y) * 0.25,
    lambda x, y: tf.matmul(x, y, transpose_b=True) * 0.25,
    lambda x, y: tf.where(x > y, x, y * 0.5),
    lambda x, y: tf.add_n([x, y, x]) * 0.3,
]


class GraphMaker:
    """Builds one graph in the default graph.

    Attributes:
        fetches: The tensors to compare.
    """

    def __init__(self, seed: int, count: int) -> None:
        """Builds the graph of a seed for this many devices."""
        self._random = np.random.default_rng(seed)
        self._count = count
        self._variables: list[Any] = []
        self._last: dict[Any, Any] = {}  # the last op on each variable: reads and updates are ordered
        inputs = [tf.constant(self._array()) for _ in range(2)]
        # Values that a step computes itself, so that they cannot be folded away.
        start = [x + tf.zeros_like(tf.random_uniform([SIZE, SIZE], seed=seed)) for x in inputs]
        for _ in range(int(self._random.integers(0, 3))):
            with self._device():
                self._variables.append(tf.Variable(self._array(), use_resource=True))
        values = self._grow(start, int(self._random.integers(6, 16)), depth=0)
        total = tf.add_n([tf.reduce_sum(value) for value in values[-3:]])
        self.fetches = [*values[-4:], total]
        gradients = tf.gradients(total, start) if self._random.random() < 0.6 else []
        self.fetches += [tf.convert_to_tensor(gradient) for gradient in gradients if gradient is not None]

    def _array(self) -> np.ndarray:
        return self._random.standard_normal((SIZE, SIZE)).astype(np.float32)

    def _device(self) -> Any:
        """A random device, or none."""
        wanted = int(self._random.integers(0, 24))
        return tf.device(f"/cpu:{wanted % self._count}" if wanted < 16 else None)

    def _pick(self, values: list[Any]) -> Any:
        recent = values[-6:]
        return recent[int(self._random.integers(0, len(recent)))]

    def _grow(self, values: list[Any], steps: int, depth: int) -> list[Any]:
        values = list(values)
        for _ in range(steps):
            with self._device():
                values.append(self._next(values, depth))
        return values

    def _next(self, values: list[Any], depth: int) -> Any:
        kind = self._random.random()
        x, y = self._pick(values), self._pick(values)
        if kind < 0.12 and depth < 2:
            return self._conditional(x, y, depth)
        if kind < 0.24 and depth < 2:
            return self._loop(x, y, depth)
        if kind < 0.34 and depth == 0 and self._variables:
            return self._state(x)
        if kind < 0.40 and depth < 2:
            return self._array_loop(x, y, depth)
        if kind < 0.44 and depth < 2:
            return self._recomputed(x, y, depth)
        if kind < 0.68:
            return _UNARY[int(self._random.integers(0, len(_UNARY)))](x)
        return _BINARY[int(self._random.integers(0, len(_BINARY)))](x, y)

    def _conditional(self, x: Any, y: Any, depth: int) -> Any:
        sizes = self._random.integers(1, 4, 2)

        def branch(k: int) -> Callable[[], Any]:
            return lambda: self._grow([x, y], int(sizes[k]), depth + 1)[-1]

        return tf.cond(tf.reduce_sum(x) > tf.reduce_sum(y), branch(0), branch(1))

    def _loop(self, x: Any, y: Any, depth: int) -> Any:
        trips, size = (int(n) for n in self._random.integers(0, 4, 2))
        parallel = int(self._random.integers(1, 5))
        bounded = self._random.random() < 0.3

        def condition(i: Any, a: Any, b: Any) -> Any:
            more = i < trips
            return tf.logical_and(more, tf.reduce_max(tf.abs(a)) < 2.0) if bounded else more

        def body(i: Any, a: Any, b: Any) -> Any:
            grown = self._grow([a, b, x], size + 1, depth + 1)
            return i + 1, tf.tanh(grown[-1]), a

        swap = self._random.random() < 0.5
        return tf.while_loop(condition, body, (0, x, y), parallel_iterations=parallel, swap_memory=swap)[1]

    def _array_loop(self, x: Any, y: Any, depth: int) -> Any:
        """A loop that reads rows from one TensorArray and writes to another, on random devices."""
        size = int(self._random.integers(1, 3))
        rows = tf.TensorArray(tf.float32, SIZE).unstack(x)
        written = tf.TensorArray(tf.float32, SIZE, clear_after_read=False)

        def body(i: Any, total: Any, written: Any) -> Any:
            with self._device():
                row = rows.read(i) + total[0]
            grown = self._grow([y + row, total], size, depth + 1)[-1]
            with self._device():
                written = written.write(i, tf.tanh(grown[1]))
            return i + 1, tf.tanh(grown), written

        _, total, written = tf.while_loop(lambda i, *_: i < SIZE, body, (0, y, written))
        with self._device():
            return written.stack() + total * 0.5

    def _recomputed(self, x: Any, y: Any, depth: int) -> Any:
        """A function whose inner values are computed again for its gradient; it builds the same nodes in each call."""
        seed, size = int(self._random.integers(1 << 30)), int(self._random.integers(1, 4))

        def f(a: Any, b: Any) -> Any:
            outer, self._random = self._random, np.random.default_rng(seed)
            try:
                return self._grow([a, b], size, max(depth + 1, 1))[-1]
            finally:
                self._random = outer

        return tf.recompute_grad(f)(x, y)

    def _state(self, x: Any) -> Any:
        variable = self._variables[int(self._random.integers(0, len(self._variables)))]
        before = [self._last[variable]] if variable in self._last else []
        with tf.control_dependencies(before):
            if self._random.random() < 0.5:
                value = variable.read_value()
            else:
                value = tf.convert_to_tensor(variable.assign_add(tf.clip_by_value(x, -1.0, 1.0) * 0.5))
        self._last[variable] = value.op
        return value


def results(seed: int, count: int, strategy: str = "") -> list[np.ndarray]:
    """The results of a seed's graph in two steps on this many devices; ops without a device go by the strategy."""
    with tf.Graph().as_default():
        maker = GraphMaker(seed, count)
        config = tf.ConfigProto(device_count={"CPU": count}, operation_timeout_in_ms=20_000)
        if strategy:
            tf.placement.configure(config, strategy=strategy)
        with tf.Session(config=config) as sess:
            sess.run(tf.global_variables_initializer())
            return [*sess.run(maker.fetches), *sess.run(maker.fetches)]


def check(seed: int, count: int, expected: list[np.ndarray] | None = None, strategy: str = "") -> None:
    """Asserts that so many devices compute what one does."""
    expected = expected or results(seed, 1)
    for i, (want, got) in enumerate(zip(expected, results(seed, count, strategy), strict=True)):
        assert want.tobytes() == got.tobytes(), f"seed {seed}: result {i} differs on {count} devices:\n{want}\n{got}"


if __name__ == "__main__":
    for number in range(int(sys.argv[1])):
        alone = results(number, 1)
        for devices in COUNTS:
            check(number, devices, alone)
        check(number, 4, alone, STRATEGIES[number % len(STRATEGIES)])
        if number % 50 == 49:
            print(f"{number + 1} graphs are equal on 1, 2, 4 and 16 devices", flush=True)
