"""A product of two matrices of 2048 by 2048: the best time of any framework is taken as the machine's peak."""

import numpy as np

from case import Case, session, with_flops

ORDER = 0
SIZE = 2048
A, B = np.random.default_rng(3).standard_normal((2, SIZE, SIZE), dtype=np.float32)


def peak(tf, setting):
    graph = tf.Graph()
    with graph.as_default():
        a, b = (tf.placeholder(tf.float32, [SIZE, SIZE]) for _ in range(2))
        c = tf.matmul(a, b)
    sess = session(tf, setting, graph)
    return with_flops(lambda: sess.run(c, {a: A, b: B}), 2 * SIZE**3)


def peak_torch(torch, setting):
    return lambda: (torch.from_numpy(A) @ torch.from_numpy(B)).numpy()


def peak_jax(jax, setting):
    product = jax.jit(lambda a, b: a @ b)
    return lambda: np.asarray(product(A, B))


CASES = {"peak": Case("a product of matrices of 2048 by 2048", peak, peak_torch, peak_jax)}
