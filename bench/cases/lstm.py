"""Training step of an LSTM layer of 256 units over 40 steps, batch 16: forward, backward, gradient descent.

The loss is the mean square of all outputs. In a loop (`dynamic_rnn`, nn.LSTM or a loop over the cell, lax.scan) and
unrolled (`static_rnn`, the loop compiled, the loop under jit).
"""

import time

import numpy as np

from case import Case, session, with_flops
from networks.lstm import graph_lstm, jax_lstm, kernel, torch_layer, torch_loop

ORDER = 12
STEPS, BATCH, INPUTS, UNITS, RATE = 40, 16, 256, 256, 0.1
X = np.random.default_rng(13).standard_normal((STEPS, BATCH, INPUTS), dtype=np.float32)
# Forward, and backward for weights and states, two operations each; the gradient of the inputs is not computed.
FLOPS = STEPS * BATCH * (4 * INPUTS + 6 * UNITS) * 4 * UNITS


def graph_side(unrolled):
    def build(tf, setting):
        graph = tf.Graph()
        with graph.as_default():
            x = tf.placeholder(tf.float32, X.shape)
            loss = tf.reduce_mean(tf.square(graph_lstm(tf, x, UNITS, unrolled)))
            step = tf.train.GradientDescentOptimizer(RATE).minimize(loss)
            initialize = tf.global_variables_initializer()
        sess = session(tf, setting, graph)
        sess.run(initialize)
        return with_flops(lambda: sess.run([loss, step], {x: X})[0], FLOPS)

    return build


def torch_step(torch, outputs_of, tensors):
    """A step that descends along the gradient of `outputs_of(x)`."""
    optimizer = torch.optim.SGD(tensors, lr=RATE, fused=True)

    def step():
        with torch.enable_grad():
            loss = outputs_of(torch.from_numpy(X)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.detach().numpy()

    return step


def torch_written_out(torch, compiled=False):
    weights = torch.from_numpy(kernel(INPUTS, UNITS)).requires_grad_()
    bias = torch.zeros(4 * UNITS, requires_grad=True)
    run = torch.compile(torch_loop) if compiled else torch_loop
    return torch_step(torch, lambda x: run(torch, x, weights, bias), [weights, bias])


def faster(*makers):
    """A new step of the maker whose step is fastest here."""

    def seconds(step):
        step()
        times = []
        for _ in range(5):
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
        return min(times)

    return min(makers, key=lambda maker: seconds(maker()))()


def torch_side(torch, setting):
    def own_layer():
        with torch.enable_grad():
            layer = torch_layer(torch, INPUTS, UNITS)
        return torch_step(torch, lambda x: layer(x)[0], list(layer.parameters()))

    return faster(own_layer, lambda: torch_written_out(torch))


def jax_side(unrolled):
    def build(jax, setting):
        jnp = jax.numpy

        def loss_of(parameters, x):
            return jnp.square(jax_lstm(jax, x, *parameters, unrolled)).mean()

        def descend(parameters, x):
            loss, grads = jax.value_and_grad(loss_of)(parameters, x)
            return [p - RATE * g for p, g in zip(parameters, grads, strict=True)], loss

        compiled = jax.jit(descend, donate_argnums=0)
        state = [[jnp.asarray(kernel(INPUTS, UNITS)), jnp.zeros(4 * UNITS)]]

        def step():
            state[0], loss = compiled(state[0], X)
            jax.block_until_ready(state)
            return np.asarray(loss)

        return step

    return build


ALL = {"tensorflow": 1, "torch": 1, "torch_compiled": 1, "jax": 1}
CASES = {
    "lstm_while": Case(
        "LSTM-256, 40 steps, batch 16, training step in a while_loop",
        graph_side(unrolled=False),
        torch_side,
        jax_side(unrolled=False),
        targets={"tensorflow": 1, "torch": 1, "jax": 1},
    ),
    "lstm_unrolled": Case(
        "LSTM-256, 40 steps, batch 16, training step, unrolled",
        graph_side(unrolled=True),
        torch_side,
        jax_side(unrolled=True),
        torch_compiled=lambda torch, setting: torch_written_out(torch, compiled=True),
        targets=ALL,
    ),
}
