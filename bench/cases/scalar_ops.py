"""The cost of an operation in the executor: 2,000 scalar ones in a chain, and 1,000 that do not depend on each other.

Nothing can be folded away: all operands are fed. The chain multiplies and adds in turn, because optimizers merge a row
of additions into one; the independent additions have different constants, so that none is a common subexpression, and
are stacked, so that none is unused.
"""

import numpy as np

from case import Case, session

ORDER = 2
CHAIN = 2000
INDEPENDENT = 1000
FED = (np.float32(1.5), np.float32(0.999), np.float32(0.001))


def link(h, a, b, i):
    """The chain's i-th operation, the same for every framework."""
    return h * a if i % 2 else h + b


def chain(tf, setting):
    graph = tf.Graph()
    with graph.as_default():
        x, a, b = (tf.placeholder(tf.float32, []) for _ in range(3))
        h = x
        for i in range(CHAIN):
            h = link(h, a, b, i)
    sess = session(tf, setting, graph)
    feeds = dict(zip((x, a, b), FED, strict=True))
    return lambda: sess.run(h, feeds)


def chain_torch(torch, setting):
    def step():
        h, a, b = (torch.from_numpy(np.asarray(value)) for value in FED)
        for i in range(CHAIN):
            h = link(h, a, b, i)
        return h.numpy()

    return step


def chain_jax(jax, setting):
    def chain_of(h, a, b):
        for i in range(CHAIN):
            h = link(h, a, b, i)
        return h

    compiled = jax.jit(chain_of)
    return lambda: np.asarray(compiled(*FED))


def independent(tf, setting):
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [])
        y = tf.stack([tf.add(x, float(i)) for i in range(INDEPENDENT)])
    sess = session(tf, setting, graph)
    return lambda: sess.run(y, {x: FED[0]})


def independent_torch(torch, setting):
    def step():
        x = torch.from_numpy(np.asarray(FED[0]))
        return torch.stack([torch.add(x, float(i)) for i in range(INDEPENDENT)]).numpy()

    return step


def independent_jax(jax, setting):
    compiled = jax.jit(lambda x: jax.numpy.stack([x + float(i) for i in range(INDEPENDENT)]))
    return lambda: np.asarray(compiled(FED[0]))


CASES = {
    "chain": Case(
        "2,000 dependent scalar ops (mul and add in turn, operands fed)",
        chain,
        chain_torch,
        chain_jax,
        targets={"tensorflow": 5},
    ),
    "independent": Case(
        "1,000 independent scalar adds, stacked",
        independent,
        independent_torch,
        independent_jax,
        targets={"tensorflow": 5},
    ),
}
