"""Training and inference steps of the convnet benchmarks' four networks, Inception-v3, ResNet-50 and LeNet.

A training step is forward, backward and a plain gradient-descent update of every parameter (LeNet: Adam); its result is
the loss before the update. An inference step returns the logits. Images and labels are fed as NumPy arrays.
"""

import numpy as np

from case import Case, session, with_flops
from networks.convnets import NETWORKS

ORDER = 10
RATE = 1e-4
# (network, batch size); the convnet benchmarks' sizes, cut to what two cores do in a second or so.
BATCHES = {"lenet": 64, "alexnet": 16, "overfeat": 8, "vgg_a": 8, "googlenet": 8, "inception_v3": 8, "resnet_50": 8}


def data(name, batch):
    """Images NHWC and labels."""
    _, size, channels, classes = NETWORKS[name]
    random = np.random.default_rng(11)
    images = random.standard_normal((batch, size, size, channels), dtype=np.float32)
    return images, random.integers(0, classes, batch).astype(np.int64)


def graph_step(tf, setting, name, batch, training):
    """A session of Thalweg or TensorFlow, its fetches and feeds, and the flops of a step."""
    from networks.graph_net import GraphNet

    images, labels = data(name, batch)
    graph = tf.Graph()
    with graph.as_default():
        x, y = tf.placeholder(tf.float32, images.shape), tf.placeholder(tf.int64, labels.shape)
        net = GraphNet(tf, training=training)
        fetches = logits = NETWORKS[name][0](net, x)
        if training:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
            make = tf.train.AdamOptimizer if name == "lenet" else tf.train.GradientDescentOptimizer
            fetches = [loss, tf.group(make(RATE).minimize(loss, var_list=net.variables), *net.updates)]
        initialize = tf.variables_initializer(net.other_variables())
    sess = session(tf, setting, graph)
    net.initialize(sess, initialize)
    feeds = {x: images, y: labels} if training else {x: images}
    return sess, fetches, feeds, (6 if training else 2) * net.multiplications * batch


def graph_training(name, batch):
    """Builder for Thalweg and TensorFlow."""

    def build(tf, setting):
        sess, fetches, feeds, flops = graph_step(tf, setting, name, batch, training=True)
        return with_flops(lambda: sess.run(fetches, feeds)[0], flops)

    return build


def graph_inference(name, batch):
    """Builder for Thalweg and TensorFlow."""

    def build(tf, setting):
        sess, fetches, feeds, flops = graph_step(tf, setting, name, batch, training=False)
        return with_flops(lambda: sess.run(fetches, feeds), flops)

    return build


def torch_training(name, batch, compiled=False):
    """Builder for PyTorch, eager or compiled."""

    def build(torch, setting):
        from networks.torch_net import TorchNet

        images, labels = data(name, batch)
        images = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        net, network = TorchNet(training=True), NETWORKS[name][0]
        network(net, torch.from_numpy(images[:2]))
        net.statistics = [(torch.zeros_like(m), torch.ones_like(v)) for m, v in net.statistics]
        tensors = [t.requires_grad_() for t in net.tensors()]
        optimizer = (torch.optim.Adam if name == "lenet" else torch.optim.SGD)(tensors, lr=RATE)

        def loss_of(x, y):
            net.begin(tensors)
            return torch.nn.functional.cross_entropy(network(net, x), y)

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


def torch_inference(name, batch, compiled=False):
    """Builder for PyTorch, eager or compiled."""

    def build(torch, setting):
        from networks.torch_net import TorchNet

        images, _ = data(name, batch)
        images = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        net, network = TorchNet(training=False), NETWORKS[name][0]
        network(net, torch.from_numpy(images[:1]))
        tensors = net.tensors()

        def logits(x):
            net.begin(tensors)
            return network(net, x)

        run = torch.compile(logits) if compiled else logits
        return lambda: run(torch.from_numpy(images)).numpy()

    return build


def jax_training(name, batch):
    """Builder for JAX: the whole step compiled, parameters given over to it."""

    def build(jax, setting):
        from networks.jax_net import JaxNet

        jnp = jax.numpy
        images, labels = data(name, batch)
        net, network = JaxNet(training=True), NETWORKS[name][0]
        network(net, jnp.asarray(images[:2]))

        def loss_of(parameters, statistics, x, y):
            net.begin(parameters, statistics)
            logits = network(net, x)
            return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean(), net.new_statistics

        def descend(parameters, statistics, moments, x, y):
            (loss, statistics), grads = jax.value_and_grad(loss_of, has_aux=True)(parameters, statistics, x, y)
            if name != "lenet":
                return [p - RATE * g for p, g in zip(parameters, grads, strict=True)], statistics, moments, loss
            t = moments[0] + 1
            first = [0.9 * m + 0.1 * g for m, g in zip(moments[1], grads, strict=True)]
            second = [0.999 * v + 0.001 * g * g for v, g in zip(moments[2], grads, strict=True)]
            rate = RATE * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            new = [p - rate * m / (jnp.sqrt(v) + 1e-8) for p, m, v in zip(parameters, first, second, strict=True)]
            return new, statistics, (t, first, second), loss

        parameters = [jnp.asarray(a) for a in net.parameters.arrays]
        zeros = [jnp.zeros_like(p) for p in parameters] if name == "lenet" else []
        state = [parameters, [(jnp.zeros_like(m), jnp.ones_like(v)) for m, v in net.statistics],
                 (jnp.zeros(()), zeros, [z + 0 for z in zeros])]  # fmt: skip
        compiled = jax.jit(descend, donate_argnums=(0, 1, 2))

        def step():
            state[0], state[1], state[2], loss = compiled(*state, images, labels)
            jax.block_until_ready(state)
            return np.asarray(loss)

        return step

    return build


def jax_inference(name, batch):
    """Builder for JAX."""

    def build(jax, setting):
        from networks.jax_net import JaxNet

        jnp = jax.numpy
        images, _ = data(name, batch)
        net, network = JaxNet(training=False), NETWORKS[name][0]
        network(net, jnp.asarray(images[:1]))
        statistics = list(net.statistics)

        def logits(parameters, x):
            net.begin(parameters, statistics)
            return network(net, x)

        compiled, parameters = jax.jit(logits), [jnp.asarray(a) for a in net.parameters.arrays]
        return lambda: np.asarray(compiled(parameters, images))

    return build


def _cases():
    cases = {}
    for name, batch in BATCHES.items():
        for kind, graph, torch, jax in (
            ("train", graph_training, torch_training, jax_training),
            ("infer", graph_inference, torch_inference, jax_inference),
        ):
            about = f"{name} {'training' if kind == 'train' else 'inference'} step, batch {batch}"
            cases[f"{name}_{kind}"] = Case(
                about,
                graph(name, batch),
                torch(name, batch),
                jax(name, batch),
                torch_compiled=torch(name, batch, compiled=True),
                targets={"tensorflow": 1, "torch": 1, "torch_compiled": 1, "jax": 1},
            )
    return cases


CASES = _cases()
