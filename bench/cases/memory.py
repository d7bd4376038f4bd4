"""Peak memory, beyond that before the step: of a long chain of large tensors, and of VGG-A's training step.

The chain is h = tanh(h) * x + h, 100 times over 16 MB: keeping every intermediate result would take 4.8 GB; the few
that are alive at one time take 64 MB. VGG-A is measured over its first two steps: what the first makes may stay.
"""

import numpy as np

from case import Case, session
from cases.convnets import graph_training, torch_training

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


def of_step(builder):
    """A builder of the same step that measures its memory, the first step's included: some of it stays afterwards."""

    def build(module, setting):
        step = builder(module, setting)
        return lambda: peak_beyond_present(lambda: (step(), step()))

    return build


CASES = {
    "memory": Case(
        "peak memory of 100 x (tanh(h)*x + h) over 16 MB",
        memory,
        memory_torch,
        at_most=6 * TENSOR_BYTES,
        unit="B",
        self_measured=True,
        fresh_process=True,
    ),
    "vgg_a_memory": Case(
        "peak memory of two training steps of VGG-A, batch 8, beyond the parameters",
        of_step(graph_training("vgg_a", 8)),
        of_step(torch_training("vgg_a", 8)),
        targets={"torch": 1},
        unit="B",
        self_measured=True,
        fresh_process=True,
    ),
}
