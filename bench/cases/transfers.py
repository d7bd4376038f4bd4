"""Several devices in one process: what a transfer between two of them costs, and what a second device gains."""

import statistics
import time

import numpy as np

from case import Case

ORDER = 22
LINKS = 200
FED = (np.float32(1.5), np.float32(0.999), np.float32(0.001))


def as_written(tf, setting, devices, threads=None):
    """A session over several CPU devices that runs the graph as it was written: nothing is fused or folded."""
    threads = threads or setting.threads
    config = tf.ConfigProto(
        device_count={"CPU": devices},
        intra_op_parallelism_threads=threads,
        inter_op_parallelism_threads=setting.threads,
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
    sess = tf.Session(graph=graph, config=as_written(tf, setting, 2))
    feeds = dict(zip((x, a, b), FED, strict=True))
    return lambda: sess.run(h, feeds)


def interleaved(setting, steps, calls):
    """The median time of each step, measured in turn."""
    taken = [[] for _ in steps]
    for _ in range(20 if setting.quick else 60):
        for step, times in zip(steps, taken, strict=True):
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


CASES = {
    "send_recv": Case(
        f"a Send/Recv pair between two devices (chain of {LINKS} scalar ops)",
        send_recv,
        targets={"tensorflow": 5},
        self_measured=True,
    ),
}
