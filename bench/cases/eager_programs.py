"""A DQN's inner loop at once; the memory of a tape over a deep network; round trips of large tensors without copies.

The loop is that of deep Q-learning: a policy for one state, a step of a small environment, a sample of the replay
memory, and an update with Adam. Its result is the losses. The memory is that of two steps beyond that before them,
after steps on a batch that is tiny, so that what frameworks load on first use does not count.
"""

import importlib
import itertools

import numpy as np

from case import Case
from cases.eager_ops import eagerly
from cases.memory import peak_beyond_present

ORDER = 14
STATE, UNITS, ACTIONS, REPLAYED, TURNS = 4, 64, 2, 32, 20
LAYERS, WIDTH, ROWS = 20, 256, 8192
BIG = 25_000_000


def network():
    random = np.random.default_rng(23)
    sizes = (STATE, UNITS, UNITS, ACTIONS)
    return [
        array
        for a, b in itertools.pairwise(sizes)
        for array in (
            random.standard_normal((a, b)).astype(np.float32) / np.float32(np.sqrt(a)),
            np.zeros(b, np.float32),
        )
    ]


class Memory:
    """The replay memory, and an environment whose state turns and decays."""

    def __init__(self):
        self.random = np.random.default_rng(29)
        self.turn = np.linalg.qr(self.random.standard_normal((STATE, STATE)))[0].astype(np.float32)
        self.state = np.ones(STATE, np.float32)
        states = self.random.standard_normal((1000, STATE)).astype(np.float32)
        self.rows = [states, self.random.integers(0, ACTIONS, 1000), np.tanh(states[:, 0]), states @ self.turn]
        self.place = 0

    def act(self, action):
        """Takes an action in the environment, and remembers it."""
        following = self.turn @ self.state + np.float32(0.1 * action)
        for rows, value in zip(self.rows, (self.state, action, np.tanh(following[0]), following), strict=True):
            rows[self.place] = value
        self.place = (self.place + 1) % len(self.rows[0])
        self.state = following

    def sample(self):
        """States, actions, rewards, and the states that followed."""
        chosen = self.random.integers(0, len(self.rows[0]), REPLAYED)
        return [rows[chosen] for rows in self.rows]


def q_values(matmul, relu, values, x):
    x = relu(matmul(x, values[0]) + values[1])
    x = relu(matmul(x, values[2]) + values[3])
    return matmul(x, values[4]) + values[5]


def dqn(tf, setting):
    with eagerly(tf):
        values = [tf.Variable(array, use_resource=True) for array in network()]
        frozen = [tf.constant(array) for array in network()]
        optimizer = tf.train.AdamOptimizer(0.001)
    memory = Memory()

    def turn():
        state = tf.constant(memory.state[None])
        memory.act(int(tf.argmax(q_values(tf.matmul, tf.nn.relu, values, state), 1)[0]))
        states, actions, rewards, following = (tf.constant(rows) for rows in memory.sample())
        target = rewards + 0.99 * tf.reduce_max(q_values(tf.matmul, tf.nn.relu, frozen, following), 1)
        with tf.GradientTape() as tape:
            q = q_values(tf.matmul, tf.nn.relu, values, states)
            chosen = tf.reduce_sum(q * tf.one_hot(actions, ACTIONS), 1)
            loss = tf.reduce_mean(tf.square(chosen - target))
        optimizer.apply_gradients(zip(tape.gradient(loss, values), values, strict=True))
        return loss.numpy()

    def step():
        with eagerly(tf):
            return np.array([turn() for _ in range(TURNS)])

    return step


def dqn_torch(torch, setting):
    with torch.enable_grad():
        values = [torch.from_numpy(array).requires_grad_() for array in network()]
    frozen = [torch.from_numpy(array) for array in network()]
    optimizer = torch.optim.Adam(values, lr=0.001, fused=True)
    memory = Memory()

    def turn():
        state = torch.from_numpy(memory.state[None])
        memory.act(int(q_values(torch.matmul, torch.relu, values, state).argmax(1)[0]))
        states, actions, rewards, following = (torch.from_numpy(rows) for rows in memory.sample())
        target = rewards + 0.99 * q_values(torch.matmul, torch.relu, frozen, following).max(1)[0]
        with torch.enable_grad():
            q = q_values(torch.matmul, torch.relu, values, states)
            chosen = q.gather(1, actions[:, None])[:, 0]
            loss = torch.nn.functional.mse_loss(chosen, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.detach().numpy()

    return lambda: np.array([turn() for _ in range(TURNS)])


def layers():
    random = np.random.default_rng(31)
    made = [random.standard_normal((WIDTH, WIDTH)).astype(np.float32) / np.float32(16) for _ in range(LAYERS)]
    return [array for weights in made for array in (weights, np.zeros(WIDTH, np.float32))]


def deep(matmul, relu, values, x):
    for weights, bias in zip(values[::2], values[1::2], strict=True):
        x = relu(matmul(x, weights) + bias)
    return x


def measured(work):
    """The memory of two steps of `work(rows)`."""
    for _ in range(4):
        work(8)
    return lambda: peak_beyond_present(lambda: (work(ROWS), work(ROWS)))


def tape_memory(tf, setting):
    with eagerly(tf):
        values = [tf.Variable(array, use_resource=True) for array in layers()]

    def work(rows):
        with eagerly(tf):
            x = tf.ones([rows, WIDTH])
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(deep(tf.matmul, tf.nn.relu, values, x))
            return [grad.numpy() for grad in tape.gradient(loss, values)]

    return measured(work)


def tape_memory_torch(torch, setting):
    with torch.enable_grad():
        values = [torch.from_numpy(array).requires_grad_() for array in layers()]

    def work(rows):
        x = torch.ones([rows, WIDTH])
        with torch.enable_grad():
            loss = deep(torch.matmul, torch.relu, values, x).mean()
            return [grad.numpy() for grad in torch.autograd.grad(loss, values)]

    return measured(work)


def round_trips(tf, setting):
    with eagerly(tf):
        x = tf.ones([BIG])
        if "tensorflow" in tf.__name__:
            dlpack = importlib.import_module("tensorflow").experimental.dlpack

            def again(x):
                return dlpack.from_dlpack(dlpack.to_dlpack(tf.convert_to_tensor(x.numpy())))
        else:

            def again(x):
                return tf.from_dlpack(np.from_dlpack(tf.convert_to_tensor(x.numpy())))

        again(tf.ones([8]))

    def work():
        with eagerly(tf):
            return again(again(x))

    return lambda: peak_beyond_present(work)


def round_trips_torch(torch, setting):
    def again(x):
        return torch.from_dlpack(np.from_dlpack(torch.from_numpy(x.numpy())))

    x = torch.ones([BIG])
    again(torch.ones([8]))
    return lambda: peak_beyond_present(lambda: again(again(x)))


def of_memory(about, graph, torch, **bounds):
    return Case(about, graph, torch, unit="B", self_measured=True, fresh_process=True, **bounds)


CASES = {
    "eager_dqn": Case(
        f"{TURNS} turns of deep Q-learning: policy, environment, replay, update; at once", dqn, dqn_torch,
        targets={"torch": 1, "tensorflow": 3},
    ),
    "eager_tape_memory": of_memory(
        f"memory of two steps with a tape over {LAYERS} layers of {WIDTH} units, {ROWS} rows", tape_memory,
        tape_memory_torch, targets={"torch": 1},
    ),
    "eager_round_trips": of_memory(
        "memory of 100 MB to NumPy, back, to DLPack and back, twice", round_trips, round_trips_torch, at_most=1e6
    ),
}  # fmt: skip
