"""A multilayer perceptron 784-256-256-10: its training step (gradient descent) at batch 32, its inference at batch 1.

A training step's result is the loss before the update; an inference step's, the logits. Inputs are NumPy arrays.
"""

import itertools

import numpy as np

from case import Case, session, with_flops

ORDER = 11
SIZES, RATE = (784, 256, 256, 10), 0.1
MULTIPLICATIONS = sum(a * b for a, b in itertools.pairwise(SIZES))
# The gradient of the inputs is not computed.
TRAINING_FLOPS = 32 * (6 * MULTIPLICATIONS - 2 * SIZES[0] * SIZES[1])


def data(batch):
    random = np.random.default_rng(17)
    return random.standard_normal((batch, SIZES[0]), dtype=np.float32), random.integers(0, SIZES[-1], batch)


def parameters():
    random = np.random.default_rng(19)
    made = []
    for inputs, units in itertools.pairwise(SIZES):
        weights = random.standard_normal((inputs, units), dtype=np.float32) * np.float32(np.sqrt(2 / inputs))
        made += [weights, np.zeros(units, np.float32)]
    return made


def graph_logits(tf, x):
    variables = [tf.Variable(array, use_resource=True) for array in parameters()]
    for weights, bias in zip(variables[:-2:2], variables[1:-2:2], strict=True):
        x = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, weights), bias))
    return tf.nn.bias_add(tf.matmul(x, variables[-2]), variables[-1])


def train(tf, setting):
    images, labels = data(32)
    graph = tf.Graph()
    with graph.as_default():
        x, y = tf.placeholder(tf.float32, [None, SIZES[0]]), tf.placeholder(tf.int64, [None])
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=graph_logits(tf, x)))
        step = tf.train.GradientDescentOptimizer(RATE).minimize(loss)
        initialize = tf.global_variables_initializer()
    sess = session(tf, setting, graph)
    sess.run(initialize)
    return with_flops(lambda: sess.run([loss, step], {x: images, y: labels})[0], TRAINING_FLOPS)


def infer(tf, setting):
    images, _ = data(1)
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [None, SIZES[0]])
        logits = graph_logits(tf, x)
        initialize = tf.global_variables_initializer()
    sess = session(tf, setting, graph)
    sess.run(initialize)
    return with_flops(lambda: sess.run(logits, {x: images}), 2 * MULTIPLICATIONS)


def torch_module(torch):
    layers, arrays = [], parameters()
    for weights, bias in zip(arrays[::2], arrays[1::2], strict=True):
        layer = torch.nn.Linear(*weights.shape)
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(weights).T)
            layer.bias.copy_(torch.from_numpy(bias))
        layers += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def torch_train(compiled):
    def build(torch, setting):
        images, labels = data(32)
        with torch.enable_grad():
            module = torch_module(torch)
        optimizer = torch.optim.SGD(module.parameters(), lr=RATE, fused=True)

        def loss_of(x, y):
            return torch.nn.functional.cross_entropy(module(x), y)

        run = torch.compile(loss_of) if compiled else loss_of

        def step():
            with torch.enable_grad():
                loss = run(torch.from_numpy(images), torch.from_numpy(labels))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            return loss.detach().numpy()

        return step

    return build


def torch_infer(compiled):
    def build(torch, setting):
        images, _ = data(1)
        module = torch_module(torch).eval()
        run = torch.compile(module) if compiled else module
        return lambda: run(torch.from_numpy(images)).detach().numpy()

    return build


def jax_logits(jax, values, x):
    for weights, bias in zip(values[:-2:2], values[1:-2:2], strict=True):
        x = jax.nn.relu(x @ weights + bias)
    return x @ values[-2] + values[-1]


def jax_train(jax, setting):
    jnp, (images, labels) = jax.numpy, data(32)

    def loss_of(values, x, y):
        logits = jax_logits(jax, values, x)
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()

    def descend(values, x, y):
        loss, grads = jax.value_and_grad(loss_of)(values, x, y)
        return [p - RATE * g for p, g in zip(values, grads, strict=True)], loss

    compiled, state = jax.jit(descend, donate_argnums=0), [[jnp.asarray(a) for a in parameters()]]

    def step():
        state[0], loss = compiled(state[0], images, labels)
        jax.block_until_ready(state)
        return np.asarray(loss)

    return step


def jax_infer(jax, setting):
    images, _ = data(1)
    compiled = jax.jit(lambda values, x: jax_logits(jax, values, x))
    values = [jax.numpy.asarray(a) for a in parameters()]
    return lambda: np.asarray(compiled(values, images))


CASES = {
    "mlp_train": Case(
        "MLP 784-256-256-10 training step, batch 32",
        train,
        torch_train(compiled=False),
        jax_train,
        torch_compiled=torch_train(compiled=True),
        targets={"tensorflow": 2, "torch": 2, "torch_compiled": 2, "jax": 2},
    ),
    "mlp_infer": Case(
        "MLP 784-256-256-10 inference, batch 1",
        infer,
        torch_infer(compiled=False),
        jax_infer,
        torch_compiled=torch_infer(compiled=True),
        targets={"tensorflow": 1, "torch": 1, "torch_compiled": 1, "jax": 1},
    ),
}
