"""Updates of 100 MB of variables by Adam, Momentum and Adagrad; the gradients are computed before.

A step's result is a piece of the first variable after the update. Each update also states the bytes that it has to
read and write: the variables and their slots once each way, the gradients once.
"""

import time

import numpy as np

from case import Case, session, with_bytes

ORDER = 14
COUNT, SHAPE, RATE = 25, (1000, 1000), 1e-3
BYTES = COUNT * SHAPE[0] * SHAPE[1] * 4
SLOTS = {"adam": 2, "momentum": 1, "adagrad": 1}


def arrays(seed):
    random = np.random.default_rng(seed)
    return [random.standard_normal(SHAPE, dtype=np.float32) for _ in range(COUNT)]


def graph_side(kind):
    def build(tf, setting):
        graph = tf.Graph()
        with graph.as_default():
            # Placeholders keep the numbers out of the graph.
            start = tf.placeholder(tf.float32, SHAPE)
            variables = [tf.Variable(start, use_resource=True) for _ in range(COUNT)]
            grads = [tf.Variable(start, use_resource=True, trainable=False) for _ in range(COUNT)]
            optimizer = {
                "adam": lambda: tf.train.AdamOptimizer(RATE),
                "momentum": lambda: tf.train.MomentumOptimizer(RATE, 0.9),
                "adagrad": lambda: tf.train.AdagradOptimizer(RATE),
            }[kind]()
            update = optimizer.apply_gradients(
                [(tf.convert_to_tensor(g), v) for g, v in zip(grads, variables, strict=True)]
            )
            with tf.control_dependencies([update]):
                piece = tf.identity(variables[0][0])
            slots_and_powers = [v for v in tf.global_variables() if all(v is not w for w in variables + grads)]
            initialize = tf.variables_initializer(slots_and_powers)
        sess = session(tf, setting, graph)
        for variable, array in zip(variables + grads, arrays(31) + arrays(37), strict=True):
            sess.run(variable.initializer, {start: array})
        sess.run(initialize)
        return with_bytes(lambda: sess.run([piece, update])[0], (3 + 2 * SLOTS[kind]) * BYTES)

    return build


def torch_side(kind):
    def build(torch, setting):
        make = {
            "adam": lambda tensors, **how: torch.optim.Adam(tensors, lr=RATE, **how),
            "momentum": lambda tensors, **how: torch.optim.SGD(tensors, lr=RATE, momentum=0.9, **how),
            "adagrad": lambda tensors, **how: torch.optim.Adagrad(
                tensors, lr=RATE, initial_accumulator_value=0.1, **how
            ),
        }[kind]

        def stepper(**how):
            tensors = [torch.from_numpy(a).requires_grad_() for a in arrays(31)]
            for tensor, grad in zip(tensors, arrays(37), strict=True):
                tensor.grad = torch.from_numpy(grad)
            optimizer = make(tensors, **how)

            def step():
                optimizer.step()
                return tensors[0][0].detach().numpy().copy()

            return step

        def seconds(how):
            step = stepper(**how)
            step()
            start = time.perf_counter()
            step()
            return time.perf_counter() - start

        return stepper(**min(({"fused": True}, {"foreach": True}), key=seconds))

    return build


def jax_side(kind):
    def build(jax, setting):
        jnp = jax.numpy

        def adam(p, g, m, v, rate):
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            return p - rate * m / (jnp.sqrt(v) + 1e-8), m, v

        def momentum(p, g, m, rate):
            m = 0.9 * m + g
            return p - rate * m, m

        def adagrad(p, g, a, rate):
            a = a + g * g
            return p - rate * g / jnp.sqrt(a), a

        rule = {"adam": adam, "momentum": momentum, "adagrad": adagrad}[kind]

        def update(values, slots, t, grads):
            t = t + 1
            rate = RATE * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t) if kind == "adam" else RATE
            new = [rule(p, g, *s, rate) for p, g, s in zip(values, grads, slots, strict=True)]
            return [n[0] for n in new], [n[1:] for n in new], t

        compiled = jax.jit(update, donate_argnums=(0, 1, 2))
        values, grads = ([jnp.array(a) for a in arrays(seed)] for seed in (31, 37))
        start = 0.1 if kind == "adagrad" else 0.0
        slots = [tuple(jnp.full_like(p, start) for _ in range(SLOTS[kind])) for p in values]
        state = [values, slots, jnp.zeros(())]

        def step():
            state[:] = compiled(*state, grads)
            jax.block_until_ready(state)
            return np.asarray(state[0][0])[0].copy()

        return step

    return build


CASES = {
    f"{kind}_100mb": Case(
        f"{kind.capitalize()}'s update of 100 MB of variables",
        graph_side(kind),
        torch_side(kind),
        jax_side(kind),
        targets={"tensorflow": 1, "torch": 1, "jax": 1},
    )
    for kind in SLOTS
}
