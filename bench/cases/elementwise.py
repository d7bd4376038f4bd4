"""An element-wise chain over 4 million floats: sqrt(|x * a + b|) * x - tanh(x), fed and fetched as NumPy arrays."""

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


CASES = {
    "elementwise": Case(
        "sqrt(|x*a + b|)*x - tanh(x) over 4 million floats",
        elementwise,
        elementwise_torch,
        elementwise_jax,
        torch_compiled=elementwise_torch_compiled,
        targets={"tensorflow": 1.3, "torch": 1, "torch_compiled": 1, "jax": 1},
    )
}
