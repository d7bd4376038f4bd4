"""A perceptron's training step with a tape and Adam, at once and within a function; calls of functions.

The perceptron is that of `mlp`. The result of a step is the loss before the update.
"""

import numpy as np

from case import Case
from cases.eager_ops import eagerly
from cases.mlp import data, jax_logits, parameters, torch_module

ORDER = 13
RATE, CALLS, ARGUMENTS = 0.001, 200, 10


def loss_of(tf, values, x, y):
    for weights, bias in zip(values[:-2:2], values[1:-2:2], strict=True):
        x = tf.nn.relu(tf.matmul(x, weights) + bias)
    logits = tf.matmul(x, values[-2]) + values[-1]
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))


def train(in_function):
    def build(tf, setting):
        images, labels = data(32)
        with eagerly(tf):
            values = [tf.Variable(array, use_resource=True) for array in parameters()]
            x, y = tf.constant(images), tf.constant(labels)
            optimizer = tf.train.AdamOptimizer(RATE)

        def descend(x, y):
            with tf.GradientTape() as tape:
                loss = loss_of(tf, values, x, y)
            optimizer.apply_gradients(zip(tape.gradient(loss, values), values, strict=True))
            return loss

        with eagerly(tf):
            descend(x, y)  # Makes the optimizer's slots, which a function could not.
            run = tf.function(descend) if in_function else descend

        def step():
            with eagerly(tf):
                return run(x, y).numpy()

        return step

    return build


def train_torch(compiled):
    def build(torch, setting):
        images, labels = (torch.from_numpy(array) for array in data(32))
        with torch.enable_grad():
            module = torch_module(torch)
        optimizer = torch.optim.Adam(module.parameters(), lr=RATE, fused=True)
        evaluate = lambda x, y: torch.nn.functional.cross_entropy(module(x), y)  # noqa: E731
        run = torch.compile(evaluate) if compiled else evaluate

        def step():
            with torch.enable_grad():
                loss = run(images, labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            return loss.detach().numpy()

        step()  # As the others, which have made their slots by a first step.
        return step

    return build


def train_jax(jitted):
    def build(jax, setting):
        jnp = jax.numpy
        x, y = (jnp.asarray(array) for array in data(32))

        def loss(values):
            scores = jax.nn.log_softmax(jax_logits(jax, values, x))
            return -jnp.take_along_axis(scores, y[:, None], 1).mean()

        def descend(values, m, v, t):
            value, grads = jax.value_and_grad(loss)(values)
            m = [0.9 * a + 0.1 * g for a, g in zip(m, grads, strict=True)]
            v = [0.999 * a + 0.001 * g * g for a, g in zip(v, grads, strict=True)]
            rate = RATE * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            values = [p - rate * a / (jnp.sqrt(b) + 1e-8) for p, a, b in zip(values, m, v, strict=True)]
            return values, m, v, t + 1, value

        run = jax.jit(descend) if jitted else descend
        values = [jnp.asarray(array) for array in parameters()]
        state = [run(values, [jnp.zeros_like(p) for p in values], [jnp.zeros_like(p) for p in values], 1.0)]

        def step():
            state[0] = run(*state[0][:-1])
            return np.asarray(jax.block_until_ready(state[0])[-1])

        return step

    return build


def total(*values):
    result = values[0]
    for value in values[1:]:
        result = result + value
    return result


def calls(tf, setting):
    with eagerly(tf):
        arguments = [tf.constant(float(i)) for i in range(ARGUMENTS)]
        function = tf.function(total)

    def step():
        with eagerly(tf):
            for _ in range(CALLS):
                result = function(*arguments)
            return result.numpy()

    return step


def calls_jax(jax, setting):
    arguments = [jax.numpy.asarray(np.float32(i)) for i in range(ARGUMENTS)]
    function = jax.jit(total)

    def step():
        for _ in range(CALLS):
            result = function(*arguments)
        return np.asarray(result)

    return step


CASES = {
    "eager_mlp_adam": Case(
        "MLP 784-256-256-10, batch 32: step with tape and Adam, at once", train(False), train_torch(False),
        train_jax(False), targets={"torch": 1, "tensorflow": 3},
    ),
    "function_mlp_adam": Case(
        "the same step as a tf.function", train(True), train_torch(False), train_jax(True),
        targets={"torch_compiled": 1, "jax": 1}, torch_compiled=train_torch(True),
    ),
    "function_dispatch": Case(
        f"{CALLS} calls of a function with {ARGUMENTS} scalar arguments", calls, jax=calls_jax, targets={"jax": 1},
    ),
}  # fmt: skip
