"""Operations that run at once: many small ones, a Python loop over an LSTM's steps, one that moves 100 MB.

Each step runs a number of operations one after the other, with tensors as operands, and gives the last result out as an
array. TensorFlow's worker has its second version's behaviour switched off: it enters eager mode in the step.
"""

import importlib

import numpy as np

from case import Case, with_bytes

ORDER = 12
ADDITIONS, PRODUCTS, CHAINS, LONG = 1000, 500, 100, 40
BIG = 25_000_000


def eagerly(tf):
    """The scope in which operations of a module run at once."""
    if "tensorflow" in tf.__name__:
        return importlib.import_module("tensorflow.python.eager.context").eager_mode()
    return tf.eager()


def links(m, x, y):
    """Ten element-wise operations, the same for every framework."""
    x = x * y + x
    x = m.tanh(x) - y
    x = m.exp(x * y)
    x = (x + y) * m.sqrt(x)
    return x - y


def added(m, x, y):
    for _ in range(ADDITIONS):
        x = x + y
    return x


def multiplied(m, x, y):
    for _ in range(PRODUCTS):
        x = m.matmul(x, y)
    return x


def chained(m, x, y):
    for _ in range(CHAINS):
        last = links(m, x, y)
    return last


def recurrent(m, x, y):
    """An LSTM of 32 units over 40 steps: x is the sequence with the state before it, y are the weights."""
    h = c = x[0]
    for i in range(1, LONG + 1):
        gates = m.matmul(m.concat([x[i], h], 1), y)
        a, b, g, o = (gates[:, 32 * k : 32 * (k + 1)] for k in range(4))
        c = m.sigmoid(a) * c + m.sigmoid(b) * m.tanh(g)
        h = m.sigmoid(o) * m.tanh(c)
    return h


def big(m, x, y):
    return x * y


def operands(run):
    random = np.random.default_rng(5)
    if run is added:
        return np.ones(4, np.float32), np.full(4, 0.001, np.float32)
    if run is multiplied:
        return np.linalg.qr(random.standard_normal((8, 8)))[0].astype(np.float32), np.eye(8, dtype=np.float32)
    if run is recurrent:
        shape = (LONG + 1, 16, 32)
        return random.standard_normal(shape, dtype=np.float32), 0.1 * random.standard_normal(
            (64, 128), dtype=np.float32
        )
    size = BIG if run is big else 16
    return np.linspace(0.1, 0.2, size, dtype=np.float32), np.full(size, 0.3, np.float32)


def graph_side(run):
    def build(tf, setting):
        with eagerly(tf):
            x, y = (tf.constant(array) for array in operands(run))

        def step():
            with eagerly(tf):
                return run(tf, x, y).numpy()

        return step

    return build


class _TorchNames:
    """PyTorch under the names that `recurrent` uses."""

    def __init__(self, torch):
        self.matmul, self.tanh, self.exp, self.sqrt = torch.matmul, torch.tanh, torch.exp, torch.sqrt
        self.sigmoid, self.concat = torch.sigmoid, torch.cat


class _JaxNames:
    """JAX under the names that `recurrent` uses."""

    def __init__(self, jax):
        jnp = jax.numpy
        self.matmul, self.tanh, self.exp, self.sqrt = jnp.matmul, jnp.tanh, jnp.exp, jnp.sqrt
        self.sigmoid, self.concat = jax.nn.sigmoid, jnp.concatenate


def torch_side(run):
    def build(torch, setting):
        x, y = (torch.from_numpy(array.copy()) for array in operands(run))
        names = _TorchNames(torch)
        return lambda: run(names, x, y).numpy()

    return build


def jax_side(run):
    def build(jax, setting):
        x, y = (jax.numpy.asarray(array) for array in operands(run))
        names = _JaxNames(jax)
        return lambda: np.asarray(run(names, x, y))

    return build


def large(tf, setting):
    return with_bytes(graph_side(big)(tf, setting), 3 * 4 * BIG)


def case(about, run, **targets):
    return Case(about, graph_side(run), torch_side(run), jax_side(run), targets=targets)


CASES = {
    "eager_add": case(f"{ADDITIONS} times a + b of 4 floats, at once", added, tensorflow=5, torch=1, jax=3),
    "eager_matmul": case(f"{PRODUCTS} products of 8x8, at once", multiplied, tensorflow=5, torch=1, jax=3),
    "eager_chain": case(f"{CHAINS} chains of 10 operations on 16 floats", chained, tensorflow=5, torch=1, jax=3),
    "eager_lstm": case(f"an LSTM of 32 units over {LONG} steps, a Python loop", recurrent, tensorflow=3, torch=1),
    "eager_large": Case("a * b of 100 MB each, at once", large, torch_side(big), jax_side(big), targets={"torch": 1}),
}
