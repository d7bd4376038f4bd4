"""Loops of 10,000 iterations: over two scalars, with a conditional, and over a small vector; 1,000 with a product."""

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


def conditional(tf, setting):
    graph = tf.Graph()
    with graph.as_default():
        n, a = tf.placeholder(tf.int32, []), tf.placeholder(tf.float32, [])
        _, x = tf.while_loop(
            lambda i, x: i < n,
            lambda i, x: (i + 1, tf.cond(x > 1.0, lambda: x * 0.5, lambda: tf.tanh(x) + a)),
            [tf.constant(0), tf.constant(0.3)],
        )
    sess = session(tf, setting, graph)
    return lambda: sess.run(x, {n: N, a: A})


def conditional_jax(jax, setting):
    lax, jnp = jax.lax, jax.numpy

    @jax.jit
    def loop(n, a):
        def body(state):
            i, x = state
            return i + 1, lax.cond(x > 1.0, lambda x: x * 0.5, lambda x: jnp.tanh(x) + a, x)

        return lax.while_loop(lambda state: state[0] < n, body, (jnp.int32(0), jnp.float32(0.3)))[1]

    return lambda: np.asarray(loop(N, A))


START = np.array([1.0, 0.5, -0.5], np.float32)


def small_vector(tf, setting):
    graph = tf.Graph()
    with graph.as_default():
        n, a = tf.placeholder(tf.int32, []), tf.placeholder(tf.float32, [])
        _, x = tf.while_loop(
            lambda i, x: i < n,
            lambda i, x: (i + 1, x - 0.01 * (x * x * x - a * x)),
            [tf.constant(0), tf.constant(START)],
        )
    sess = session(tf, setting, graph)
    return lambda: sess.run(x, {n: N, a: A})


def small_vector_jax(jax, setting):
    @jax.jit
    def loop(n, a):
        def body(state):
            i, x = state
            return i + 1, x - 0.01 * (x * x * x - a * x)

        return jax.lax.while_loop(lambda state: state[0] < n, body, (jax.numpy.int32(0), jax.numpy.asarray(START)))[1]

    return lambda: np.asarray(loop(N, A))


PRODUCTS, SIZE = np.int32(1000), 64
MATRIX = (np.random.default_rng(0).standard_normal((SIZE, SIZE)) / SIZE**0.5).astype(np.float32)


def products(tf, setting):
    graph = tf.Graph()
    with graph.as_default():
        n, m = tf.placeholder(tf.int32, []), tf.placeholder(tf.float32, [SIZE, SIZE])
        start = [tf.constant(0), tf.ones([1, SIZE])]
        _, x = tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, tf.tanh(tf.matmul(x, m)) + 0.1), start)
    sess = session(tf, setting, graph)
    return lambda: sess.run(x, {n: PRODUCTS, m: MATRIX})


def products_jax(jax, setting):
    jnp = jax.numpy

    @jax.jit
    def loop(n, m):
        def body(state):
            i, x = state
            return i + 1, jnp.tanh(x @ m) + 0.1

        return jax.lax.while_loop(lambda state: state[0] < n, body, (jnp.int32(0), jnp.ones([1, SIZE], jnp.float32)))[1]

    return lambda: np.asarray(loop(PRODUCTS, MATRIX))


CASES = {
    "while_loop_conditional": Case(
        "while_loop, 10,000 iterations with a cond",
        conditional,
        jax=conditional_jax,
        targets={"tensorflow": 10, "jax": 0.5},
    ),
    "while_loop_vector": Case(
        "while_loop, 10,000 iterations over three floats",
        small_vector,
        jax=small_vector_jax,
        targets={"tensorflow": 10, "jax": 0.5},
    ),
    "while_loop_products": Case(
        "while_loop, 1,000 products with a 64 x 64 matrix, and tanh",
        products,
        jax=products_jax,
        targets={"tensorflow": 1, "jax": 1},
    ),
    "while_loop": Case(
        "while_loop, 10,000 iterations over two scalars",
        while_loop,
        while_loop_torch,
        while_loop_jax,
        targets={"tensorflow": 10, "jax": 0.5},
    ),
}
