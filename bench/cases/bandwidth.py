"""a += b / 2 over 200 MB, in place: the best time of any framework is taken as the bandwidth of the memory."""

import numpy as np

from case import Case, session, with_bytes

ORDER = 0.5
SIZE = 25_000_000


def arrays():
    random = np.random.default_rng(41)
    return random.standard_normal(SIZE, dtype=np.float32), random.standard_normal(SIZE, dtype=np.float32)


def bandwidth(tf, setting):
    graph = tf.Graph()
    with graph.as_default():
        start = tf.placeholder(tf.float32, [SIZE])
        a, b = (tf.Variable(start, use_resource=True) for _ in range(2))
        update = tf.train.GradientDescentOptimizer(-0.5).apply_gradients([(tf.convert_to_tensor(b), a)])
        with tf.control_dependencies([update]):
            piece = tf.identity(a[:100])
    sess = session(tf, setting, graph)
    for variable, array in zip((a, b), arrays(), strict=True):
        sess.run(variable.initializer, {start: array})
    return with_bytes(lambda: sess.run([piece, update])[0], 3 * 4 * SIZE)


def bandwidth_torch(torch, setting):
    a, b = map(torch.from_numpy, arrays())
    return lambda: a.add_(b, alpha=0.5)[:100].numpy().copy()


def bandwidth_jax(jax, setting):
    a, b = map(jax.numpy.array, arrays())
    compiled, state = jax.jit(lambda a, b: a + 0.5 * b, donate_argnums=0), [a]

    def step():
        state[0] = compiled(state[0], b).block_until_ready()
        return np.asarray(state[0])[:100].copy()

    return step


CASES = {"bandwidth": Case("a += b / 2 over 200 MB, in place", bandwidth, bandwidth_torch, bandwidth_jax)}
