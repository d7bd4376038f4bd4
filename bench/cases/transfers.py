"""Several devices in one process: the cost of a transfer between two of them, and the gain of a second device."""

import statistics
import time

import numpy as np

from case import Case

ORDER = 22
LINKS = 200
FED = (np.float32(1.5), np.float32(0.999), np.float32(0.001))


def as_written(tf, devices, kernel_threads, op_threads):
    """A configuration for CPU devices that run the graph as it was written: nothing is fused or folded."""
    config = tf.ConfigProto(
        device_count={"CPU": devices},
        intra_op_parallelism_threads=kernel_threads,
        inter_op_parallelism_threads=op_threads,
        use_per_session_threads=True,
    )
    rewriting = config.graph_options.rewrite_options
    rewriting.disable_meta_optimizer = True
    rewriting.remapping = rewriting.OFF
    return config


def chain(tf, setting, devices):
    """A chain of scalar operations that takes its devices in turn."""
    graph = tf.Graph()
    with graph.as_default():
        x, a, b = (tf.placeholder(tf.float32, []) for _ in range(3))
        h = x
        for i in range(LINKS):
            with tf.device(f"/cpu:{i % devices}"):
                h = h * a if i % 4 < 2 else h + b
    sess = tf.Session(graph=graph, config=as_written(tf, 2, setting.threads, setting.threads))
    feeds = dict(zip((x, a, b), FED, strict=True))
    return lambda: sess.run(h, feeds)


def interleaved(setting, steps, calls):
    """The median time of each step, measured in turn."""
    taken = [[] for _ in steps]
    for _ in range(20 if setting.quick else 60):
        for step, times in zip(steps, taken, strict=True):
            if hasattr(step, "prepare"):
                step.prepare()
                step()
            start = time.perf_counter()
            for _ in range(calls):
                step()
            times.append((time.perf_counter() - start) / calls)
    return [statistics.median(times) for times in taken]


def send_recv(tf, setting):
    """The time of a Send/Recv pair: a chain over two devices against the same chain on one."""
    steps = [chain(tf, setting, devices) for devices in (1, 2)]
    assert steps[0]() == steps[1]()

    def measure():
        alone, alternating = interleaved(setting, steps, 20)
        return max(alternating - alone, 1e-9) / (LINKS - 1)

    return measure


WIDTH, LAYERS = 384, 4


def towers(tf, devices, kernel_threads):
    """Two independent towers of matrix products, on one device or two."""
    random = np.random.default_rng(5)
    weights = [random.standard_normal((WIDTH, WIDTH), dtype=np.float32) / np.float32(WIDTH**0.5) for _ in range(LAYERS)]
    start = random.standard_normal((WIDTH, WIDTH), dtype=np.float32)
    graph, feeds, fetches = tf.Graph(), {}, []
    with graph.as_default():
        for number in range(2):
            with tf.device(f"/cpu:{number % devices}"):
                h = tf.placeholder(tf.float32, [WIDTH, WIDTH])
                feeds[h] = start
                for w in weights:
                    h = tf.nn.relu(tf.matmul(h, tf.constant(w)))
                fetches.append(tf.reduce_mean(h))
    config = as_written(tf, 2, kernel_threads, devices)
    sess = tf.Session(graph=graph, config=config)

    def step():
        sess.run(fetches, feeds)

    # In Thalweg the number of threads of a kernel belongs to the process: that of the newest session. Not timed.
    step.prepare = lambda: tf.Session(graph=graph, config=config).close()
    return step


def two_towers(kernel_threads):
    """The time of two towers on two devices, divided by the time of the two one after the other."""

    def build(tf, setting):
        steps = [towers(tf, devices, kernel_threads) for devices in (1, 2)]

        def measure():
            alone, together = interleaved(setting, steps, 1)
            return together / alone

        return measure

    return build


CASES = {
    "send_recv": Case(
        f"a Send/Recv pair between two devices (chain of {LINKS} scalar ops)",
        send_recv,
        targets={"tensorflow": 5},
        self_measured=True,
    ),
    "two_towers": Case(
        "two towers on two devices, by one after the other on one; kernels on one core each",
        two_towers(1),
        unit="%",
        at_most=1 / 1.6,
        self_measured=True,
    ),
    "two_towers_shared": Case(
        "the same where every kernel may use both cores: they are busy either way",
        two_towers(2),
        unit="%",
        at_most=1.05,
        self_measured=True,
    ),
}
