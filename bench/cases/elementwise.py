"""Element-wise chains over 4 million floats: a short one, fed and fetched as arrays, and a long one that is summed."""

import numpy as np

from case import Case, session

ORDER = 4
X = np.random.default_rng(1).standard_normal(4_000_000, dtype=np.float32)
A, B = 0.7, -0.3


def elementwise(tf, setting):
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [None])
        y = tf.sqrt(tf.abs(x * A + B)) * x - tf.tanh(x)
    sess = session(tf, setting, graph)
    return lambda: sess.run(y, {x: X})


def elementwise_torch(torch, setting):
    def step():
        x = torch.from_numpy(X)
        return (torch.sqrt(torch.abs(x * A + B)) * x - torch.tanh(x)).numpy()

    return step


def elementwise_torch_compiled(torch, setting):
    compiled = torch.compile(lambda x: torch.sqrt(torch.abs(x * A + B)) * x - torch.tanh(x))
    return lambda: compiled(torch.from_numpy(X)).numpy()


def elementwise_jax(jax, setting):
    jnp = jax.numpy
    compiled = jax.jit(lambda x: jnp.sqrt(jnp.abs(x * A + B)) * x - jnp.tanh(x))
    return lambda: np.asarray(compiled(X))


TURNS = 8


def long_chain(tanh, sigmoid, y):
    for _ in range(TURNS):
        y = tanh(y * 1.1 + 0.1) * sigmoid(y) - 0.5 * y
    return y


def chain(tf, setting):
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [None])
        y = tf.reduce_sum(long_chain(tf.tanh, tf.sigmoid, x))
    sess = session(tf, setting, graph)
    return lambda: sess.run(y, {x: X})


def chain_torch(torch, setting):
    return lambda: long_chain(torch.tanh, torch.sigmoid, torch.from_numpy(X)).sum().numpy()


def chain_torch_compiled(torch, setting):
    compiled = torch.compile(lambda x: long_chain(torch.tanh, torch.sigmoid, x).sum())
    return lambda: compiled(torch.from_numpy(X)).numpy()


def chain_jax(jax, setting):
    compiled = jax.jit(lambda x: long_chain(jax.numpy.tanh, jax.nn.sigmoid, x).sum())
    return lambda: np.asarray(compiled(X))


CASES = {
    "elementwise_chain": Case(
        "8 times tanh(y*1.1 + .1)*sigmoid(y) - .5*y over 4 million floats, summed",
        chain,
        chain_torch,
        chain_jax,
        torch_compiled=chain_torch_compiled,
        targets={"tensorflow": 1.3, "torch": 1, "torch_compiled": 1, "jax": 1},
    ),
    "elementwise": Case(
        "sqrt(|x*a + b|)*x - tanh(x) over 4 million floats",
        elementwise,
        elementwise_torch,
        elementwise_jax,
        torch_compiled=elementwise_torch_compiled,
        targets={"tensorflow": 1.3, "torch": 1, "torch_compiled": 1, "jax": 1},
    ),
}
