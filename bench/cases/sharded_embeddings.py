"""Look-ups and updates of rows of variables that are partitioned over parameter servers, alone and in a DeepFM.

One worker, which is measured, and 2 or 4 PS tasks with a thread each. Both frameworks run the same program:
`tf.get_variable` with a partitioner, `embedding_lookup`, an optimizer.
"""

import numpy as np

from case import Case
from cases.clusters import ClusterStep, Others, start_server

ORDER = 62
IDS, WIDTH = 8192, 64
FEATURES, BATCH, UNITS, HIDDEN = 26, 1024, 16, (256, 128)
OPTIMIZERS = {
    "adagrad": lambda tf: tf.train.AdagradOptimizer(0.01),
    "adam": lambda tf: tf.train.AdamOptimizer(0.01),
}


def _sharded(tf, name, shape, num_ps):
    return tf.get_variable(
        name, shape, initializer=tf.constant_initializer(0.01), partitioner=tf.fixed_size_partitioner(num_ps),
        use_resource=True,
    )  # fmt: skip


def _on_cluster(tf, setting, num_ps, model):
    """A step of the worker: `model()` returns the fetches and what is fed."""
    others = Others("thalweg" if tf.__name__.startswith("thalweg") else "tensorflow", None, num_ps, 1)
    with tf.Graph().as_default():
        with tf.device(tf.train.replica_device_setter(ps_tasks=num_ps, worker_device="/job:worker/task:0")):
            fetches, fed = model()
        server = start_server(tf, others.cluster, "worker", 0, setting.threads)
        sess = tf.Session(server.target)
        sess.run(tf.global_variables_initializer())
    run = sess.make_callable(fetches, list(fed))
    values = list(fed.values())

    def step():
        return run(*values)[0]

    step.keep = (server, sess)
    return ClusterStep(others, step)


def rows_step(optimizer, num_ps, rows):
    """Builder: 8,192 random rows of 64 floats are looked up, and updated."""

    def build(tf, setting):
        def model():
            ids = tf.placeholder(tf.int64, [IDS])
            found = tf.nn.embedding_lookup(_sharded(tf, "table", [rows, WIDTH], num_ps), ids, "div")
            loss = tf.reduce_mean(tf.square(found))
            train = OPTIMIZERS[optimizer](tf).minimize(loss)
            return [loss, train], {ids: np.random.default_rng(5).integers(0, rows, IDS)}

        return _on_cluster(tf, setting, num_ps, model)

    return build


def deep_fm_step(num_ps, rows, kinds=None):
    """Builder: one training step of a DeepFM; `rows` are those of all 26 features together.

    A larger table has more different ids in a batch. With `kinds`, ids are drawn from so many rows of all, far apart.
    """

    def build(tf, setting):
        def model():
            each = rows // FEATURES
            ids = tf.placeholder(tf.int64, [BATCH, FEATURES])
            clicks = tf.placeholder(tf.float32, [BATCH])
            columns = tf.unstack(ids, axis=1)
            vectors, weights = [], []
            for k, column in enumerate(columns):
                table = _sharded(tf, f"vectors_{k}", [each, UNITS], num_ps)
                vectors.append(tf.nn.embedding_lookup(table, column, "div"))
                table = _sharded(tf, f"weights_{k}", [each, 1], num_ps)
                weights.append(tf.nn.embedding_lookup(table, column, "div"))
            first = tf.reduce_sum(tf.concat(weights, 1), 1)
            stacked = tf.stack(vectors, 1)
            total = tf.reduce_sum(stacked, 1)
            second = 0.5 * tf.reduce_sum(tf.square(total) - tf.reduce_sum(tf.square(stacked), 1), 1)
            hidden = tf.reshape(stacked, [BATCH, FEATURES * UNITS])
            for k, units in enumerate((*HIDDEN, 1)):
                size = int(hidden.shape[1])
                w = tf.get_variable(
                    f"w{k}", [size, units], initializer=tf.constant_initializer(0.02), use_resource=True
                )
                hidden = tf.matmul(hidden, w)
                hidden = tf.nn.relu(hidden) if units > 1 else hidden
            logits = first + second + tf.reshape(hidden, [-1])
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=clicks, logits=logits))
            train = tf.train.AdagradOptimizer(0.01).minimize(loss)
            random = np.random.default_rng(5)
            # A power law within each feature: few ids make most of the batch.
            most = (kinds or rows) // FEATURES
            drawn = (random.random((BATCH, FEATURES)) ** 4 * most).astype(np.int64) * (each // most)
            return [loss, train], {ids: drawn, clicks: (random.random(BATCH) < 0.3).astype(np.float32)}

        return _on_cluster(tf, setting, num_ps, model)

    return build


def _rows_case(optimizer, num_ps, rows, **targets):
    about = f"look-up and {optimizer} update of 8,192 rows of 64 floats, table of {rows:,}, {num_ps} PS"
    return Case(about, graph=rows_step(optimizer, num_ps, rows), targets=targets, ends_workers=True)


CASES = {
    **{f"ps_rows_adagrad_{n}": _rows_case("adagrad", n, 1_000_000, tensorflow=5.0) for n in (2, 4)},
    **{f"ps_rows_adam_{n}": _rows_case("adam", n, 100_000, tensorflow=5.0) for n in (2, 4)},
    **{
        f"ps_deep_fm_1e{k}": Case(
            f"DeepFM step, batch 1,024, 26 features, 2 PS, 10^{k} rows",
            graph=deep_fm_step(2, 10**k),
            targets={"tensorflow": 3.0},
            ends_workers=True,
        )
        for k in (5, 6, 7)
    },
    # The same batch of ids, but for their distances: how far a step depends on the number of rows alone.
    **{
        f"ps_deep_fm_spread_1e{k}": Case(
            f"DeepFM step, 2 PS, 10^{k} rows, ids of 10^5 of them",
            graph=deep_fm_step(2, 10**k, 10**5),
            targets={"tensorflow": 3.0},
            ends_workers=True,
        )
        for k in (5, 6, 7)
    },
}
