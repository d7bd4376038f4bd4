"""Training steps of a language model over parameter servers (OSDI paper, section 6.4, figure 9).

LSTM of 512 units, vocabulary 40,000, 20 words of 16 texts a step, descent; one worker with all cores, and 1, 2 and 4 PS
tasks with one thread each for the work of an operation. Embedding and softmax are in as many parts as there are PS
tasks. The full softmax is computed on the PS tasks; the sampled one (512 words) fetches rows. Words a second: 320
divided by the time of a step.
"""

import numpy as np

from case import Case
from cases.clusters import ClusterStep, Others, start_server
from networks.lstm import graph_lstm

ORDER = 61
VOCABULARY, UNITS, STEPS, BATCH, SAMPLES, RATE = 40_000, 512, 20, 16, 512, 0.1
WORDS = STEPS * BATCH


def parts_of(tf, name, shape, count, initializer):
    """A variable cut along its first dimension, part k on PS task k."""
    parts = []
    for k in range(count):
        with tf.device(f"/job:ps/task:{k}"):
            parts.append(
                tf.get_variable(
                    f"{name}_{k}", [shape[0] // count, *shape[1:]], initializer=initializer, use_resource=True
                )
            )
    return parts


def full_softmax_loss(tf, weights, biases, labels, outputs):
    """The cross-entropy of the rows of `outputs`; all that is as wide as the vocabulary stays on the PS tasks."""
    sums, true_scores, first = [], [], 0
    for part, bias in zip(weights, biases, strict=True):
        with tf.device(part.device):
            words = int(part.shape[0])
            scores = tf.nn.bias_add(tf.matmul(outputs, part, transpose_b=True), bias)
            sums.append(tf.reduce_logsumexp(scores, 1))
            own = tf.logical_and(labels >= first, labels < first + words)
            column = tf.where(own, labels - first, tf.zeros_like(labels))
            rows = tf.range(WORDS, dtype=tf.int64)
            score = tf.gather_nd(scores, tf.stack([rows, column], 1))
            true_scores.append(tf.where(own, score, tf.zeros_like(score)))
        first += words
    return tf.reduce_logsumexp(tf.stack(sums), 0) - tf.add_n(true_scores)


def sampled_softmax_loss(tf, weights, biases, labels, outputs):
    """The cross-entropy among the right words and 512 sampled ones."""
    return tf.nn.sampled_softmax_loss(
        weights=weights, biases=biases, labels=tf.reshape(labels, [-1, 1]), inputs=outputs, num_sampled=SAMPLES,
        num_classes=VOCABULARY, partition_strategy="div", seed=3,
    )  # fmt: skip


def training_step(loss_of, num_ps):
    """Builder: one step of the worker, which feeds the words."""

    def build(tf, setting):
        others = Others("thalweg" if tf.__name__.startswith("thalweg") else "tensorflow", None, num_ps, 1)
        random = np.random.default_rng(23)
        words, following = random.integers(0, VOCABULARY, (2, STEPS, BATCH)).astype(np.int64)
        worker = "/job:worker/task:0"
        with tf.Graph().as_default():
            tf.set_random_seed(1)
            with tf.device(tf.train.replica_device_setter(ps_tasks=num_ps, worker_device=worker)):
                uniform = tf.random_uniform_initializer(-0.05, 0.05, seed=7)
                embedding = parts_of(tf, "embedding", [VOCABULARY, UNITS], num_ps, uniform)
                weights = parts_of(tf, "weights", [VOCABULARY, UNITS], num_ps, uniform)
                biases = parts_of(tf, "biases", [VOCABULARY], num_ps, tf.zeros_initializer())
                x, y = (tf.placeholder(tf.int64, [STEPS, BATCH]) for _ in range(2))
                outputs = graph_lstm(tf, tf.nn.embedding_lookup(embedding, x, "div"), UNITS)
                losses = loss_of(tf, weights, biases, tf.reshape(y, [-1]), tf.reshape(outputs, [WORDS, UNITS]))
                loss = tf.reduce_mean(losses)
                optimizer = tf.train.GradientDescentOptimizer(RATE)
                train = optimizer.minimize(loss, colocate_gradients_with_ops=True)
            server = start_server(tf, others.cluster, "worker", 0, setting.threads)
            sess = tf.Session(server.target)
            sess.run(tf.global_variables_initializer())

        def step():
            sess.run([loss, train], {x: words, y: following})

        step.keep = (server, sess)
        return ClusterStep(others, step)

    return build


LOSSES = {"full": full_softmax_loss, "sampled": sampled_softmax_loss}
CASES = {
    f"ps_lm_{kind}_{num_ps}": Case(
        f"language model, vocabulary 40,000, LSTM-512, {WORDS} words a step, {kind} softmax, {num_ps} PS",
        graph=training_step(loss, num_ps),
        targets={"tensorflow": 3.0},
        ends_workers=True,
    )
    for kind, loss in LOSSES.items()
    for num_ps in (1, 2, 4)
}
