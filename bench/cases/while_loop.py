"""A while_loop over two scalars, 10,000 iterations: i = i + 1, s = s * a + b. JAX compiles its own: for information."""

import numpy as np

from case import Case, session

ORDER = 3
N, A, B = np.int32(10000), np.float32(0.999), np.float32(0.5)


def while_loop(tf, setting):
    graph = tf.Graph()
    with graph.as_default():
        n = tf.placeholder(tf.int32, [])
        a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        _, s = tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s * a + b), [tf.constant(0), tf.constant(1.0)])
    sess = session(tf, setting, graph)
    return lambda: sess.run(s, {n: N, a: A, b: B})


def while_loop_torch(torch, setting):
    def step():
        i, s = torch.tensor(0, dtype=torch.int32), torch.tensor(1.0)
        n, a, b = (torch.from_numpy(np.asarray(value)) for value in (N, A, B))
        while i < n:
            i, s = i + 1, s * a + b
        return s.numpy()

    return step


def while_loop_jax(jax, setting):
    @jax.jit
    def loop(n, a, b):
        return jax.lax.while_loop(
            lambda state: state[0] < n,
            lambda state: (state[0] + 1, state[1] * a + b),
            (jax.numpy.int32(0), jax.numpy.float32(1)),
        )[1]

    return lambda: np.asarray(loop(N, A, B))


CASES = {
    "while_loop": Case(
        "while_loop, 10,000 iterations over two scalars",
        while_loop,
        while_loop_torch,
        while_loop_jax,
        targets={"tensorflow": 10},
    )
}
