"""Do predicted and measured step times rank the same? Convnets and an LSTM language model over several devices.

    PYTHONPATH=src python bench/placement.py [--devices 2] [--rounds 7] [--models inception_v3 lstm_lm] [--sleep]

Costs are measured on one device. Then every strategy, and some deliberately bad placements, place the training step
over all devices; each is simulated with the measured costs, and run. Kernels use one thread, so that a device is
a core. Rounds run in turn, so that noise meets all alike; times are lower quartiles, medians are shown beside them.

With --sleep, the heaviest nodes of the step are replaced by ones that sleep for their estimated time, and the rest is
left out: so partitioning, transfers and executors can be compared with the simulator beside other work. (A step has no
more threads than the machine has cores: beyond that many devices, the measured times stay behind.)
"""

import argparse
import functools
import itertools
import os
import shutil
import statistics
import sys
import tempfile
import time
import zlib

import numpy as np

import thalweg as tf
from networks.convnets import NETWORKS
from networks.graph_net import GraphNet
from thalweg.passes.step_graph import StepGraph
from thalweg.placement.comparison import step_of
from thalweg.placement.costs import CostModel, Observation
from thalweg.placement.machine import Machine
from thalweg.placement.simulator import planned, simulate
from thalweg.placement.tasks import tasks_of

# The rank correlation from which ranks count as the same; below it, the script fails.
SAME_RANKS = 0.9
# Predictions that differ by less than this count as equal: costs are not measured more precisely.
EQUAL = 0.05
STRATEGIES = ("single", "hash", "depth_first", "greedy", "critical_path", "heft", "search")


def by_hash(share, devices):
    """A device function that sends a share of the operations away from the first device."""

    def choose(op):
        number = zlib.crc32(op.name.encode())
        return f"/cpu:{1 + number % (devices - 1)}" if number % 1000 < 1000 * share else "/cpu:0"

    return choose


def in_halves(devices):
    """A device function that gives each device a stretch of the forward network, by the numbers of its variables."""

    def choose(op):
        digits = "".join(c for c in op.name.rpartition("/")[2] if c.isdigit())
        return f"/cpu:{min(int(digits or 0) // 40, devices - 1)}"

    return choose


# Placements by hand: name to device function.
BY_HAND = {
    "hand: 5% away": lambda devices: by_hash(0.05, devices),
    "hand: 20% away": lambda devices: by_hash(0.2, devices),
    "hand: stretches": in_halves,
}


def convnet(name, size, quick):
    """The training step of a network: (fetches, feeds, initialize)."""
    batch = 2 if quick else 4
    random = np.random.default_rng(3)
    x, y = tf.placeholder(tf.float32, [batch, size, size, 3]), tf.placeholder(tf.int64, [batch])
    net = GraphNet(tf, training=True)
    logits = NETWORKS[name][0](net, x)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    step = tf.train.GradientDescentOptimizer(1e-4).minimize(loss, var_list=net.variables)
    other = tf.variables_initializer(net.other_variables())
    images = random.standard_normal((batch, size, size, 3), dtype=np.float32)
    return [loss, step], {x: images, y: random.integers(0, 1000, batch)}, lambda sess: net.initialize(sess, other)


def lstm_lm(quick):
    """Two layers over 20 words, a full softmax over 10,000: (fetches, feeds, initialize)."""
    vocabulary, units, steps, batch = (2000, 128, 10, 16) if quick else (10_000, 256, 20, 32)
    random = np.random.default_rng(3)
    words, following = random.integers(0, vocabulary, (2, steps, batch))
    x, y = (tf.placeholder(tf.int64, [steps, batch]) for _ in range(2))
    with tf.variable_scope("lm", use_resource=True):
        embeddings = tf.get_variable("embeddings", [vocabulary, units])
        cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.BasicLSTMCell(units) for _ in range(2)])
        outputs, _ = tf.nn.static_rnn(cell, tf.unstack(tf.nn.embedding_lookup(embeddings, x)), dtype=tf.float32)
        weights = tf.get_variable("weights", [units, vocabulary])
    losses = [
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y[i], logits=tf.matmul(output, weights))
        for i, output in enumerate(outputs)
    ]
    loss = tf.reduce_mean(tf.stack(losses))
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    start = tf.global_variables_initializer()
    return [loss, step], {x: words, y: following}, lambda sess: sess.run(start)


MODELS = {
    "inception_v3": functools.partial(convnet, "inception_v3", 299),
    "lstm_lm": lstm_lm,
    # This model was not used to choose the constants of the simulator.
    "googlenet": functools.partial(convnet, "googlenet", 224),
}


class Placed:
    """A session with the step placed in one way."""

    def __init__(self, model, quick, devices, strategy, costs, function=None, measured=False):
        self._graph = tf.Graph()
        with self._graph.as_default(), tf.device(function):
            tf.set_random_seed(7)
            self._fetches, self._feeds, initialize = model(quick)
        config = tf.ConfigProto(
            device_count={"CPU": devices},
            intra_op_parallelism_threads=1,
            inter_op_parallelism_threads=devices,
            allow_soft_placement=True,
        )
        tf.placement.configure(config, strategy=strategy, costs=costs)
        if measured:
            config.graph_options.build_cost_model = 1
        self._session = tf.Session(graph=self._graph, config=config)
        initialize(self._session)
        self.loss = self.run()
        self._planned = self._session._planned_step(self._fetches, self._feeds)
        self.placed: StepGraph = self._planned.placed

    def run(self):
        """One step."""
        return self._session.run(self._fetches, self._feeds)[0]

    def predicted(self, machine, costs):
        """The simulated step as it was placed, and the time of the plan that its devices follow."""
        tasks = tasks_of(self.placed, machine, costs)
        where = [unit.feasible[0] for unit in tasks.units]
        schedule = planned(tasks, tasks.where(where))
        expected = self._planned.expected_seconds if schedule.transfers else schedule.makespan
        return schedule, expected

    def close(self):
        """Ends the session, which writes its measurements."""
        self._session.close()


def spearman(a, b):
    """The rank correlation of two lists."""

    def ranks(values):
        order = sorted(values)
        return [statistics.mean(i for i, value in enumerate(order) if value == each) for each in values]

    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def agreement(predicted, measured):
    """Of the pairs whose predicted times differ, how many more are measured in the same order than in the other.

    A number from -1 to 1 (Goodman and Kruskal's gamma), and the number of such pairs.
    """
    same = other = 0
    for i, j in itertools.combinations(range(len(predicted)), 2):
        (a, b), (c, d) = (predicted[i], predicted[j]), (measured[i], measured[j])
        if abs(a - b) > EQUAL * min(a, b):
            same += (a < b) == (c < d)
            other += (a < b) != (c < d)
    return (same - other) / max(1, same + other), same + other


def compare(name, options, folder):
    """Prints predicted and measured times of one model; returns their rank correlation."""
    model, machine = MODELS[name], Machine.of_cpus(options.devices)
    measured_costs = os.path.join(folder, f"{name}.json")
    alone = Placed(model, options.quick, options.devices, "single", measured_costs, measured=True)
    # The machine's speed changes within seconds: the times of nodes are measured for long enough to average it.
    start, steps = time.perf_counter(), 0
    while steps < 12 or time.perf_counter() < start + options.seconds / 4:
        alone.run()
        steps += 1
    alone.close()
    costs = CostModel.load(measured_costs)
    places = {}
    wanted = [(each, each, None) for each in STRATEGIES]
    wanted += [(each, "single", function(options.devices)) for each, function in BY_HAND.items()]
    for label, strategy, function in wanted:
        copy = os.path.join(folder, f"{name}-{len(places)}.json")
        shutil.copy(measured_costs, copy)
        places[label] = Placed(model, options.quick, options.devices, strategy, copy, function)
        places[label].run()
    times = {label: [] for label in places}
    start = time.perf_counter()
    # The machine's own speed changes by a third within a second or so: short steps need many rounds.
    while len(times["single"]) < max(2, options.rounds) or time.perf_counter() < start + options.seconds:
        for label, each in places.items():
            begin = time.perf_counter()
            each.run()
            times[label].append(time.perf_counter() - begin)
    schedules = {label: each.predicted(machine, costs) for label, each in places.items()}
    simulated = {label: schedule.makespan for label, (schedule, _) in schedules.items()}
    expected = {label: seconds for label, (_, seconds) in schedules.items()}
    # Disturbances only make a step longer.
    measured = {label: statistics.quantiles(values, n=4)[0] for label, values in times.items()}
    nodes, rounds = len(places["single"].placed.nodes), len(times["single"])
    print(f"\n{name}: {nodes} nodes on {options.devices} devices, {rounds} rounds")
    print(f"{'':18}{'simulated ms':>14}{'planned ms':>14}{'measured ms':>14}{'(median)':>12}{'transfers':>12}")
    for label in sorted(places, key=expected.get):
        row = (simulated[label], expected[label], measured[label])
        median = statistics.median(times[label]) * 1e3
        print(f"{label:18}" + "".join(f"{each * 1e3:14.1f}" for each in row), end="")
        print(f"{median:12.1f}{schedules[label][0].transfers:12}")
    losses = {float(each.loss) for each in places.values()}
    found = [measured[each] for each in places]
    for kind, times_of in (("simulated", simulated), ("planned", expected)):
        times_found = [times_of[each] for each in places]
        correlation = spearman(times_found, found)
        gamma, pairs = agreement(times_found, found)
        print(f"{kind} and measured times: rank correlation (Spearman) {correlation:.2f}; ", end="")
        print(f"of the {pairs} pairs that differ by {EQUAL:.0%}: {gamma:.2f} (gamma)")
    print(f"losses of the first step: {sorted(losses)}")
    for each in places.values():
        each.close()
    return correlation


def heaviest(model, quick, count=140, total=1.2):
    """The times and edges of the heaviest nodes of a step, scaled to so many seconds; other nodes only connect them."""
    with tf.Graph().as_default() as graph:
        fetches, _, _ = model(quick)
        found = tf.placement.compare(fetches, 1, graph, names=["single"])[0].tasks
    seconds = [times[0] for times in found.seconds]
    order = sorted(sorted(range(len(seconds)), key=lambda node: -seconds[node])[:count])
    number = {node: i for i, node in enumerate(order)}
    nearest = []  # for each node, the heavy ones before it
    for inputs in found.inputs:
        sources = [found.producers[tensor] for tensor in inputs]
        nearest.append(set().union(*({each} if each in number else nearest[each] for each in sources)))
    scale = total / sum(seconds[node] for node in order)
    edges = sorted((number[source], i) for i, node in enumerate(order) for source in nearest[node])
    return [seconds[node] * scale for node in order], edges


def sleeping_step(seconds, edges, where):
    """A graph of nodes that sleep, on these devices: (result, fed placeholder)."""
    start = tf.placeholder(tf.float32, [])
    outputs = []
    for i, time_of_node in enumerate(seconds):

        def sleep(*_, length=time_of_node):
            time.sleep(length)
            return np.float32(0)

        with tf.device(f"/cpu:{where[i]}"):
            inputs = [outputs[a] for a, b in edges if b == i] or [start]
            outputs.append(tf.py_func(sleep, inputs, tf.float32))
            outputs[-1].set_shape([])
    with tf.device("/cpu:0"):
        return tf.add_n(outputs), start


def compare_sleeping(name, options, _):
    """The same as `compare` for nodes that sleep."""
    seconds, edges = heaviest(MODELS[name], options.quick)
    machine, devices = Machine.of_cpus(options.devices), range(options.devices)
    with tf.Graph().as_default() as graph:
        result, _ = sleeping_step(seconds, edges, [0] * len(seconds))
        for op in graph.get_operations():
            op._set_device("")
        costs = CostModel()
        step = step_of(graph, [result])
        sleeps = [node for node in step.nodes.values() if node.op == "PyFunc"]
        costs.record(step, [Observation(n.name, n.op, s, 1, 1) for n, s in zip(sleeps, seconds, strict=True)], "CPU")
        found = tf.placement.compare(result, machine, graph, costs, names=[s for s in STRATEGIES if s != "search"])
    number = {processor.name: i for i, processor in enumerate(machine.processors)}
    places = {each.strategy: [number[each.devices[node.name]] for node in sleeps] for each in found}
    predicted = {each.strategy: each.step_seconds for each in found}
    random = np.random.default_rng(1)
    for share in (0.05, 0.3):
        label, tasks = f"random {share:.0%}", found[0].tasks
        places[label] = [int(random.choice(devices)) if random.random() < share else 0 for _ in sleeps]
        at = {node.name: device for node, device in zip(sleeps, places[label], strict=True)}
        predicted[label] = simulate(tasks, [at.get(node.name, 0) for node in tasks.nodes]).makespan
    times = {label: [] for label in places}
    for label, where in places.items():
        with tf.Graph().as_default():
            result, start = sleeping_step(seconds, edges, where)
            with tf.Session(config=tf.ConfigProto(device_count={"CPU": options.devices})) as sess:
                for _ in range(1 + options.rounds):
                    begin = time.perf_counter()
                    sess.run(result, {start: 0.0})
                    times[label].append(time.perf_counter() - begin)
    measured = {label: statistics.median(values[1:]) for label, values in times.items()}
    print(f"\n{name}: its {len(seconds)} heaviest nodes, sleeping, on {options.devices} devices")
    for label in sorted(places, key=predicted.__getitem__):
        print(f"{label:18}{predicted[label] * 1e3:14.1f}{measured[label] * 1e3:14.1f}")
    correlation = spearman([predicted[each] for each in places], [measured[each] for each in places])
    print(f"rank correlation (Spearman): {correlation:.2f}")
    return correlation


def main():
    """Compares all models."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=120, help="how long to measure each model at least")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--quick", action="store_true", help="smaller models")
    parser.add_argument("--sleep", action="store_true", help="nodes that sleep, on any number of devices")
    options = parser.parse_args()
    judge = compare_sleeping if options.sleep else compare
    with tempfile.TemporaryDirectory() as folder:
        correlations = [judge(name, options, folder) for name in options.models]
    return 0 if min(correlations) >= SAME_RANKS else 1


if __name__ == "__main__":
    sys.exit(main())
