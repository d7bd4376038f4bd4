"""The training step of a word language model: vocabulary 40,000, LSTM of 512 units over 20 steps, batch 16, descent.

Full softmax, and sampled softmax with 512 sampled words; the sampled ids and their expected counts are given.
Gradients of the embeddings (and of the sampled softmax's weights) are sparse where the framework has such gradients.
"""

import numpy as np

from case import Case, session, with_flops
from networks.lstm import graph_lstm, jax_lstm, kernel, torch_layer

ORDER = 13
VOCABULARY, UNITS, STEPS, BATCH, SAMPLES, RATE = 40_000, 512, 20, 16, 512, 0.1
WORDS = STEPS * BATCH
LSTM_FLOPS = 6 * WORDS * 2 * UNITS * 4 * UNITS


def data():
    """Words [steps, batch], the words that follow them, sampled ids, expected counts of the true and sampled ids."""
    random = np.random.default_rng(23)
    words, following = random.integers(0, VOCABULARY, (2, STEPS, BATCH)).astype(np.int64)
    sampled = random.choice(VOCABULARY, SAMPLES, replace=False).astype(np.int64)

    def expected(ids):
        chance = np.log((ids + 2.0) / (ids + 1.0)) / np.log(VOCABULARY + 1.0)
        return (1 - (1 - chance) ** SAMPLES).astype(np.float32)

    return words, following, sampled, expected(following.reshape(-1, 1)), expected(sampled)


def parameters():
    """Embeddings, and the weights [vocabulary, units] and biases of the softmax."""
    random = np.random.default_rng(29)
    embeddings = random.standard_normal((VOCABULARY, UNITS), dtype=np.float32)
    return embeddings, embeddings[::-1] * np.float32(0.05), np.zeros(VOCABULARY, np.float32)


def graph_side(sampled_softmax):
    def build(tf, setting):
        words, following, sampled, true_counts, sampled_counts = data()
        graph = tf.Graph()
        with graph.as_default():
            x, y = (tf.placeholder(tf.int64, [STEPS, BATCH]) for _ in range(2))
            embeddings, weights, biases = (tf.Variable(a, use_resource=True) for a in parameters())
            outputs = graph_lstm(tf, tf.nn.embedding_lookup(embeddings, x), UNITS)
            outputs = tf.reshape(outputs, [WORDS, UNITS])
            feeds = {x: words, y: following}
            if sampled_softmax:
                sample = [tf.placeholder(tf.int64, [SAMPLES]), *map(tf.constant, (true_counts, sampled_counts))]
                feeds[sample[0]] = sampled
                losses = tf.nn.sampled_softmax_loss(
                    weights=weights,
                    biases=biases,
                    labels=tf.reshape(y, [-1, 1]),
                    inputs=outputs,
                    num_sampled=SAMPLES,
                    num_classes=VOCABULARY,
                    sampled_values=sample,
                )
            else:
                logits = tf.nn.bias_add(tf.matmul(outputs, weights, transpose_b=True), biases)
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(y, [-1]), logits=logits)
            loss = tf.reduce_mean(losses)
            step = tf.train.GradientDescentOptimizer(RATE).minimize(loss)
            initialize = tf.global_variables_initializer()
        sess = session(tf, setting, graph)
        sess.run(initialize)
        flops = LSTM_FLOPS + 6 * WORDS * UNITS * (SAMPLES + 1 if sampled_softmax else VOCABULARY)
        return with_flops(lambda: sess.run([loss, step], feeds)[0], flops)

    return build


def torch_side(sampled_softmax):
    def build(torch, setting):
        F = torch.nn.functional
        words, following, sampled, true_counts, sampled_counts = data()
        true_counts, sampled_counts = torch.from_numpy(true_counts), torch.from_numpy(sampled_counts)
        with torch.enable_grad():
            layer = torch_layer(torch, UNITS, UNITS)
        embeddings, weights, biases = (torch.from_numpy(a.copy()).requires_grad_() for a in parameters())
        if sampled_softmax:
            biases = biases.detach()[:, None].requires_grad_()  # Rows to look up.
        sparse = [embeddings, weights, biases] if sampled_softmax else [embeddings]
        dense = [*layer.parameters(), *([] if sampled_softmax else [weights, biases])]
        # The fused update does not take sparse gradients.
        optimizers = [torch.optim.SGD(sparse, lr=RATE), torch.optim.SGD(dense, lr=RATE, fused=True)]

        def loss_of(x, y, ids):
            outputs = layer(F.embedding(x, embeddings, sparse=True))[0].flatten(0, 1)
            y = y.flatten()
            if not sampled_softmax:
                return F.cross_entropy(F.linear(outputs, weights, biases), y)
            both = torch.cat([y, ids])
            rows = F.embedding(both, weights, sparse=True)
            offsets = F.embedding(both, biases, sparse=True)[:, 0]
            true = (outputs * rows[:WORDS]).sum(1) + offsets[:WORDS]
            sampled_logits = torch.addmm(offsets[WORDS:], outputs, rows[WORDS:].T) - sampled_counts.log()
            sampled_logits = sampled_logits.masked_fill(y[:, None] == ids, -torch.inf)
            logits = torch.cat([true[:, None] - true_counts.log(), sampled_logits], 1)
            return F.cross_entropy(logits, torch.zeros_like(y))

        def step():
            with torch.enable_grad():
                loss = loss_of(*map(torch.from_numpy, (words, following, sampled)))
                for optimizer in optimizers:
                    optimizer.zero_grad()
                loss.backward()
                for optimizer in optimizers:
                    optimizer.step()
            return loss.detach().numpy()

        return step

    return build


def jax_side(sampled_softmax):
    def build(jax, setting):
        jnp = jax.numpy
        words, following, sampled, true_counts, sampled_counts = data()

        def loss_of(values, x, y, ids):
            embeddings, weights, biases, *lstm = values
            outputs = jax_lstm(jax, embeddings[x], *lstm).reshape(-1, UNITS)
            y = y.reshape(-1)
            if not sampled_softmax:
                logits = outputs @ weights.T + biases
                return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()
            true = (outputs * weights[y]).sum(1, keepdims=True) + biases[y][:, None] - jnp.log(true_counts)
            sampled_logits = outputs @ weights[ids].T + biases[ids] - jnp.log(sampled_counts)
            sampled_logits = jnp.where(y[:, None] == ids, -jnp.inf, sampled_logits)
            return -jax.nn.log_softmax(jnp.concatenate([true, sampled_logits], 1))[:, 0].mean()

        def descend(values, x, y, ids):
            loss, grads = jax.value_and_grad(loss_of)(values, x, y, ids)
            return [p - RATE * g for p, g in zip(values, grads, strict=True)], loss

        compiled = jax.jit(descend, donate_argnums=0)
        arrays = (*parameters(), kernel(UNITS, UNITS), np.zeros(4 * UNITS, np.float32))
        state = [[jnp.array(a) for a in arrays]]

        def step():
            state[0], loss = compiled(state[0], words, following, sampled)
            jax.block_until_ready(state)
            return np.asarray(loss)

        return step

    return build


CASES = {
    f"lm_{kind}": Case(
        f"language model, vocabulary 40,000, LSTM-512, 20 steps, batch 16, {kind} softmax",
        graph_side(kind == "sampled"),
        torch_side(kind == "sampled"),
        jax_side(kind == "sampled"),
        targets={"tensorflow": 1, "torch": 1, "jax": 1},
    )
    for kind in ("full", "sampled")
}
