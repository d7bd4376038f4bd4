"""The cost of a step itself: one that does nothing, and one that adds 1 to four floats, from NumPy to NumPy."""

import numpy as np

from case import Case, session

ORDER = 1


def empty(tf, setting):
    graph = tf.Graph()
    with graph.as_default():
        nothing = tf.no_op()
    sess = session(tf, setting, graph)
    return lambda: sess.run(nothing)


FOUR = np.array([1, 2, 3, 4], np.float32)


def feed_fetch(tf, setting):
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [4])
        y = x + 1.0
    sess = session(tf, setting, graph)
    return lambda: sess.run(y, {x: FOUR})


def feed_fetch_torch(torch, setting):
    return lambda: (torch.from_numpy(FOUR) + 1.0).numpy()


def feed_fetch_jax(jax, setting):
    add_one = jax.jit(lambda x: x + 1.0)
    return lambda: np.asarray(add_one(FOUR))


CASES = {
    "empty_step": Case("session.run of a NoOp", empty, targets={"tensorflow": 8}),
    "feed_fetch": Case(
        "feed 4 floats, add 1, fetch (PyTorch: from_numpy, add, numpy)",
        feed_fetch,
        feed_fetch_torch,
        feed_fetch_jax,
        targets={"tensorflow": 8, "torch": 1},
    ),
}
