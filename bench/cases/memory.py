"""Peak memory of a long chain of large tensors: h = tanh(h) * x + h, 100 times over 16 MB, beyond what was held before.

Keeping every intermediate result would take 4.8 GB; the few that are alive at one time take 64 MB.
"""

import numpy as np

from case import Case, session

ORDER = 6
LINKS = 100
SIZE = 4_000_000
TENSOR_BYTES = 4 * SIZE


def resident(field):
    """A field of this process's memory status, in bytes: VmRSS is the present value, VmHWM the peak."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field))


def peak_beyond_present(work):
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # Resets the peak.
    before = resident("VmRSS")
    work()
    return resident("VmHWM") - before


def data():
    return np.full(SIZE, 0.01, np.float32)


def memory(tf, setting):
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [None])
        h = x
        for _ in range(LINKS):
            h = tf.tanh(h) * x + h
    sess = session(tf, setting, graph)
    sess.run(h, {x: np.zeros(4, np.float32)})
    fed = data()
    return lambda: peak_beyond_present(lambda: sess.run(h, {x: fed}))


def memory_torch(torch, setting):
    def work(fed):
        x = h = torch.from_numpy(fed)
        for _ in range(LINKS):
            h = torch.tanh(h) * x + h
        return h.numpy()

    work(np.zeros(4, np.float32))
    fed = data()
    return lambda: peak_beyond_present(lambda: work(fed))


CASES = {
    "memory": Case(
        "peak memory of 100 x (tanh(h)*x + h) over 16 MB",
        memory,
        memory_torch,
        at_most=6 * TENSOR_BYTES,
        unit="B",
        self_measured=True,
        fresh_process=True,
    )
}
