"""Models of other kinds: attention, recurrence in both directions, transposed and depthwise convolutions, embeddings.

Small sizes, a step of some milliseconds. Parameters are drawn once with NumPy and set by assignment, so that all
frameworks begin with the same; the results compared are losses or outputs.
"""

import numpy as np

from case import Case, session

ORDER = 12
RATE = 1e-3


class Model:
    """A graph under construction: parameters, feeds, and the step."""

    def __init__(self, tf):
        self.tf, self.random = tf, np.random.default_rng(5)
        self.variables, self.values, self.feeds = [], [], {}

    def parameter(self, *shape):
        """A variable of normally distributed values, scaled by the inputs of a product."""
        scale = 1 / np.sqrt(max(1, np.prod(shape[:-1])))
        return self._variable((self.random.standard_normal(shape) * scale).astype(np.float32))

    def zeros(self, *shape):
        """A variable of zeros: a bias."""
        return self._variable(np.zeros(shape, np.float32))

    def ones(self, *shape):
        """A variable of ones: a scale."""
        return self._variable(np.ones(shape, np.float32))

    def _variable(self, value):
        fed = self.tf.placeholder(self.tf.float32, value.shape)
        self.variables.append(self.tf.Variable(fed, name=f"v{len(self.variables)}", use_resource=True))
        self.values.append((self.variables[-1].initializer, fed, value))
        return self.variables[-1]

    def fed(self, array):
        """A placeholder that gets this array in every step."""
        x = self.tf.placeholder(array.dtype, array.shape)
        self.feeds[x] = array
        return x

    def normal(self, *shape):
        """Normally distributed data, fed."""
        return self.fed(self.random.standard_normal(shape).astype(np.float32))

    def integers(self, high, *shape):
        """Integers, fed."""
        return self.fed(self.random.integers(0, high, shape).astype(np.int32))

    def dense(self, x, units):
        """A layer without an activation."""
        return self.tf.nn.bias_add(self.tf.matmul(x, self.parameter(int(x.shape[-1]), units)), self.zeros(units))

    def normalized(self, x):
        """Layer normalization."""
        tf = self.tf
        centred = x - tf.reduce_mean(x, -1, keepdims=True)
        scale = tf.rsqrt(tf.reduce_mean(tf.square(centred), -1, keepdims=True) + 1e-6)
        return centred * scale * self.ones(int(x.shape[-1])) + self.zeros(int(x.shape[-1]))


def builder(model, training):
    """Builder for Thalweg and TensorFlow; `model` returns the loss, or the output."""

    def build(tf, setting):
        graph = tf.Graph()
        with graph.as_default():
            net = Model(tf)
            result = model(net)
            fetches = [result]
            if training:
                fetches.append(tf.train.AdamOptimizer(RATE).minimize(result, var_list=net.variables))
            names = {variable.name for variable in net.variables}
            rest = tf.variables_initializer([v for v in tf.global_variables() if v.name not in names])
        sess = session(tf, setting, graph)
        for assignment, fed, value in net.values:
            sess.run(assignment, {fed: value})
        sess.run(rest)
        return lambda: sess.run(fetches, net.feeds)[0]

    return build


BATCH, LENGTH, WIDTH, HEADS = 8, 64, 256, 4


def encoder(net):
    """Two layers of a Transformer's encoder."""
    tf = net.tf
    x = net.normal(BATCH, LENGTH, WIDTH)
    for _ in range(2):
        flat = tf.reshape(x, [BATCH * LENGTH, WIDTH])
        q, k, v = (
            tf.transpose(tf.reshape(net.dense(flat, WIDTH), [BATCH, LENGTH, HEADS, WIDTH // HEADS]), [0, 2, 1, 3])
            for _ in range(3)
        )
        scores = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * (HEADS / WIDTH) ** 0.5)
        mixed = tf.reshape(tf.transpose(tf.matmul(scores, v), [0, 2, 1, 3]), [BATCH * LENGTH, WIDTH])
        flat = net.normalized(flat + net.dense(mixed, WIDTH))
        hidden = net.dense(flat, 4 * WIDTH)
        hidden = 0.5 * hidden * (1.0 + tf.tanh(0.7978845608 * (hidden + 0.044715 * hidden * hidden * hidden)))
        x = tf.reshape(net.normalized(flat + net.dense(hidden, WIDTH)), [BATCH, LENGTH, WIDTH])
    return x


def encoder_loss(net):
    """Its output against random numbers."""
    return net.tf.reduce_mean(net.tf.square(encoder(net) - net.normal(BATCH, LENGTH, WIDTH)))


def bidirectional_gru(net):
    """GRU cells over 32 steps in both directions, as two while-loops."""
    tf, units = net.tf, 128
    x = net.normal(32, 16, 64)
    outputs = []
    for inputs in (x, tf.reverse(x, [0])):
        gates = net.parameter(64 + units, 2 * units), net.ones(2 * units)
        candidate = net.parameter(64 + units, units), net.zeros(units)

        def step(h, x, gates=gates, candidate=candidate):
            r, u = tf.split(tf.sigmoid(tf.nn.bias_add(tf.matmul(tf.concat([x, h], 1), gates[0]), gates[1])), 2, 1)
            new = tf.tanh(tf.nn.bias_add(tf.matmul(tf.concat([x, r * h], 1), candidate[0]), candidate[1]))
            return u * h + (1.0 - u) * new

        outputs.append(tf.scan(step, inputs, initializer=tf.zeros([16, units])))
    return tf.concat([outputs[0], tf.reverse(outputs[1], [0])], 2)


def autoencoder_loss(net):
    """A variational autoencoder of 28 x 28 pictures, with transposed convolutions."""
    tf, batch = net.tf, 32
    x = net.fed(net.random.random((batch, 28, 28, 1)).astype(np.float32))
    y = tf.nn.relu(tf.nn.conv2d(x, net.parameter(4, 4, 1, 16), strides=[1, 2, 2, 1], padding="SAME"))
    y = tf.nn.relu(tf.nn.conv2d(y, net.parameter(4, 4, 16, 32), strides=[1, 2, 2, 1], padding="SAME"))
    y = tf.reshape(y, [batch, 7 * 7 * 32])
    mean, log_variance = net.dense(y, 16), net.dense(y, 16)
    z = mean + tf.exp(0.5 * log_variance) * net.normal(batch, 16)
    y = tf.reshape(tf.nn.relu(net.dense(z, 7 * 7 * 32)), [batch, 7, 7, 32])
    for size, channels, before in ((14, 16, 32), (28, 1, 16)):
        filters = net.parameter(4, 4, channels, before)
        y = tf.nn.conv2d_transpose(y, filters, [batch, size, size, channels], strides=[1, 2, 2, 1], padding="SAME")
        y = tf.nn.relu(y) if channels > 1 else y
    likelihood = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=y), [1, 2, 3])
    divergence = -0.5 * tf.reduce_sum(1.0 + log_variance - tf.square(mean) - tf.exp(log_variance), 1)
    return tf.reduce_mean(likelihood + divergence)


def text_loss(net):
    """A text CNN: windows of 3, 4 and 5 words over embeddings, the largest value of each filter."""
    tf, batch = net.tf, 64
    words = tf.nn.embedding_lookup(net.parameter(5000, 64), net.integers(5000, batch, 50))
    x = tf.reshape(words, [batch, 50, 1, 64])
    found = []
    for size in (3, 4, 5):
        y = tf.nn.conv2d(x, net.parameter(size, 1, 64, 64), strides=[1, 1, 1, 1], padding="VALID")
        found.append(tf.reduce_max(tf.nn.relu(tf.nn.bias_add(y, net.zeros(64))), [1, 2]))
    logits = net.dense(tf.concat(found, 1), 4)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=net.integers(4, batch), logits=logits)
    return tf.reduce_mean(losses)


def mobile_net(net):
    """Depthwise and pointwise convolutions, on four pictures of 64 x 64."""
    tf = net.tf
    x = tf.nn.conv2d(net.normal(4, 64, 64, 3), net.parameter(3, 3, 3, 16), strides=[1, 2, 2, 1], padding="SAME")
    for channels, stride in ((32, 1), (64, 2), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1)):
        depthwise = net.parameter(3, 3, int(x.shape[3]), 1)
        x = tf.nn.depthwise_conv2d(x, depthwise, strides=[1, stride, stride, 1], padding="SAME")
        x = tf.minimum(tf.nn.relu(x * net.ones(int(x.shape[3])) + net.zeros(int(x.shape[3]))), 6.0)
        x = tf.nn.conv2d(x, net.parameter(1, 1, int(x.shape[3]), channels), strides=[1, 1, 1, 1], padding="SAME")
        x = tf.minimum(tf.nn.relu(x * net.ones(channels) + net.zeros(channels)), 6.0)
    return net.dense(tf.reduce_mean(x, [1, 2]), 10)


def resnet_18_loss(net):
    """ResNet-18 for pictures of 32 x 32, with batch normalization."""
    tf, batch = net.tf, 16

    def normalized_conv(x, channels, size, stride):
        filters = net.parameter(size, size, int(x.shape[3]), channels)
        y = tf.nn.conv2d(x, filters, strides=[1, stride, stride, 1], padding="SAME")
        return tf.nn.fused_batch_norm(y, net.ones(channels), net.zeros(channels), is_training=True)[0]

    x = tf.nn.relu(normalized_conv(net.normal(batch, 32, 32, 3), 32, 3, 1))
    for channels, stride in ((32, 1), (32, 1), (64, 2), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1)):
        y = normalized_conv(tf.nn.relu(normalized_conv(x, channels, 3, stride)), channels, 3, 1)
        x = tf.nn.relu(y + (x if stride == 1 else normalized_conv(x, channels, 1, stride)))
    logits = net.dense(tf.reduce_mean(x, [1, 2]), 10)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=net.integers(10, batch), logits=logits)
    return tf.reduce_mean(losses)


def factorization_loss(net):
    """DeepFM: 20 fields of a table of 20,000 rows, their pairs, and a dense part."""
    tf, batch, fields, width = net.tf, 256, 20, 16
    ids = net.integers(20000, batch, fields)
    rows = tf.nn.embedding_lookup(net.parameter(20000, width), ids)
    linear = tf.reduce_sum(tf.nn.embedding_lookup(net.parameter(20000, 1), ids), [1, 2])
    pairs = 0.5 * tf.reduce_sum(tf.square(tf.reduce_sum(rows, 1)) - tf.reduce_sum(tf.square(rows), 1), 1)
    y = tf.reshape(rows, [batch, fields * width])
    for units in (128, 64):
        y = tf.nn.relu(net.dense(y, units))
    logits = linear + pairs + tf.reshape(net.dense(y, 1), [batch])
    labels = tf.cast(net.integers(2, batch), tf.float32)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))


def policy(tf, setting):
    """Builder: 100 actions one at a time, then an update by the gradient of the policy."""
    graph = tf.Graph()
    with graph.as_default():
        net = Model(tf)
        hidden, last = (net.parameter(4, 32), net.zeros(32)), (net.parameter(32, 2), net.zeros(2))
        states = tf.placeholder(tf.float32, [None, 4])
        actions, rewards = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [None])
        logits = tf.matmul(tf.tanh(tf.matmul(states, hidden[0]) + hidden[1]), last[0]) + last[1]
        probabilities = tf.nn.softmax(logits)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=actions, logits=logits)
        loss = tf.reduce_mean(losses * rewards)
        update = tf.train.GradientDescentOptimizer(RATE).minimize(loss, var_list=net.variables)
    sess = session(tf, setting, graph)
    for assignment, fed, value in net.values:
        sess.run(assignment, {fed: value})

    def step():
        state, seen, taken = np.ones(4, np.float32), [], []
        for i in range(100):
            chosen = sess.run(probabilities, {states: state[None]})[0]
            seen.append(state)
            taken.append(i % 2)
            state = (state * 0.9 + chosen[0] * 0.1).astype(np.float32)
        given = {states: np.stack(seen), actions: np.array(taken, np.int32), rewards: np.linspace(1, 0, 100)}
        return sess.run([loss, update], given)[0]

    return step


SIZE = 1000
LEFT, RIGHT = np.random.default_rng(3).standard_normal((2, SIZE, SIZE), dtype=np.float32)


def product(tf, setting):
    """Builder of one product."""
    graph = tf.Graph()
    with graph.as_default():
        a, b = (tf.placeholder(tf.float32, [SIZE, SIZE]) for _ in range(2))
        c = tf.matmul(a, b)
    sess = session(tf, setting, graph)
    return lambda: sess.run(c, {a: LEFT, b: RIGHT})


def product_torch(torch, setting):
    """The same for PyTorch."""
    return lambda: (torch.from_numpy(LEFT) @ torch.from_numpy(RIGHT)).numpy()


ONE = {"tensorflow": 1}
CASES = {
    "transformer_train": Case(
        "Transformer encoder, 2 layers, a training step", builder(encoder_loss, True), targets=ONE
    ),
    "transformer_infer": Case("Transformer encoder, 2 layers", builder(encoder, False), targets=ONE),
    "bidirectional_gru": Case("GRU in both directions, 32 steps", builder(bidirectional_gru, False), targets=ONE),
    "autoencoder_train": Case("variational autoencoder, a training step", builder(autoencoder_loss, True), targets=ONE),
    "text_cnn_train": Case("text CNN, a training step", builder(text_loss, True), targets=ONE),
    "mobile_net_infer": Case("MobileNet-like network on 4 pictures", builder(mobile_net, False), targets=ONE),
    "resnet_18_train": Case("ResNet-18 on 16 small pictures, training", builder(resnet_18_loss, True), targets=ONE),
    "deep_fm_train": Case("DeepFM, a training step", builder(factorization_loss, True), targets=ONE),
    "policy_gradient": Case("100 actions of a policy, and its update", policy, targets=ONE),
    "product_1000": Case(
        "a product of matrices of 1000 by 1000", product, product_torch, targets={"tensorflow": 1, "torch": 1}
    ),
}
