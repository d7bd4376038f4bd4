"""An LSTM layer for each framework: i, j, f, o = [x, h] K + b; c = σ(f + 1) c + σ(i) tanh(j); h = σ(o) tanh(c).

Inputs are time-major, states begin as zeros. The kernel is [inputs + units, 4 * units] in the order i, j, f, o.
"""

import numpy as np


def kernel(inputs, units):
    """The initial kernel of every framework; the bias is zero."""
    random = np.random.default_rng(5)
    return random.standard_normal((inputs + units, 4 * units), dtype=np.float32) / np.float32(np.sqrt(inputs + units))


class WrittenOutCell:
    """The basic LSTM cell in TensorFlow's operations: its 2.21 has the loops of recurrent networks, but no cells."""

    def __init__(self, tf, units):
        self.tf, self.units, self.output_size, self.state_size = tf, units, units, (units, units)

    def zero_state(self, batch, dtype):
        return self.tf.zeros([batch, self.units], dtype), self.tf.zeros([batch, self.units], dtype)

    def __call__(self, x, state, scope=None):
        tf, (c, h) = self.tf, state
        with tf.variable_scope("cell", reuse=tf.AUTO_REUSE):
            weights = tf.get_variable("kernel", [int(x.shape[1]) + self.units, 4 * self.units], use_resource=True)
            bias = tf.get_variable("bias", [4 * self.units], initializer=tf.zeros_initializer(), use_resource=True)
        gates = tf.nn.bias_add(tf.matmul(tf.concat([x, h], 1), weights), bias)
        i, j, f, o = tf.split(gates, 4, 1)
        c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(j)
        h = tf.sigmoid(o) * tf.tanh(c)
        return h, (c, h)


def graph_lstm(tf, x, units, unrolled=False):
    """The outputs [time, batch, units], or a list of them, of the framework's own loop over its basic cell."""
    start = tf.constant_initializer(kernel(int(x.shape[2]), units))
    with tf.variable_scope("lstm", initializer=start, use_resource=True):
        try:
            cell = tf.nn.rnn_cell.BasicLSTMCell(units)
        except AttributeError:
            cell = WrittenOutCell(tf, units)
        if unrolled:
            return tf.nn.static_rnn(cell, tf.unstack(x), dtype=tf.float32)[0]
        return tf.nn.dynamic_rnn(cell, x, dtype=tf.float32, time_major=True)[0]


def torch_layer(torch, inputs, units):
    """PyTorch's own layer with the same numbers: its order is i, f, j, o."""
    i, j, f, o = np.split(kernel(inputs, units), 4, 1)
    ours = torch.from_numpy(np.concatenate([i, f, j, o], 1))
    layer = torch.nn.LSTM(inputs, units)
    with torch.no_grad():
        layer.weight_ih_l0.copy_(ours[:inputs].T)
        layer.weight_hh_l0.copy_(ours[inputs:].T)
        layer.bias_ih_l0.zero_()
        layer.bias_ih_l0[units : 2 * units] = 1.0
        layer.bias_hh_l0.zero_()
    return layer


def torch_loop(torch, x, weights, bias):
    """The cell in a Python loop, with the inputs of all steps multiplied at once."""
    inputs, units = x.shape[2], bias.shape[0] // 4
    prepared = torch.addmm(bias, x.flatten(0, 1), weights[:inputs]).view(x.shape[0], x.shape[1], -1)
    recurrent = weights[inputs:]
    h = c = torch.zeros(x.shape[1], units)
    outputs = []
    for step in prepared.unbind(0):
        i, j, f, o = torch.addmm(step, h, recurrent).chunk(4, 1)
        c = torch.sigmoid(f + 1.0) * c + torch.sigmoid(i) * torch.tanh(j)
        h = torch.sigmoid(o) * torch.tanh(c)
        outputs.append(h)
    return torch.stack(outputs)


def jax_lstm(jax, x, weights, bias, unrolled=False):
    """The cell in lax.scan, or in a Python loop that the compiler unrolls."""
    jnp, inputs, units = jax.numpy, x.shape[2], bias.shape[0] // 4
    prepared, recurrent = x @ weights[:inputs] + bias, weights[inputs:]

    def cell(state, step):
        c, h = state
        i, j, f, o = jnp.split(step + h @ recurrent, 4, 1)
        c = jax.nn.sigmoid(f + 1.0) * c + jax.nn.sigmoid(i) * jnp.tanh(j)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (c, h), h

    state = (jnp.zeros((x.shape[1], units)), jnp.zeros((x.shape[1], units)))
    if not unrolled:
        return jax.lax.scan(cell, state, prepared)[1]
    outputs = []
    for step in range(x.shape[0]):
        state, h = cell(state, prepared[step])
        outputs.append(h)
    return jnp.stack(outputs)
