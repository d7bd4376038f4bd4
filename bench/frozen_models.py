"""Loading frozen models beside TensorFlow: `python bench/frozen_models.py --peers FOLDER`.

Freezes nets of tf.contrib.slim with random weights (the largest, VGG-16, is a file of 553 MB), and loads each in new
processes of both frameworks, in turn: the time until the graph is imported and has a session, the time of the first run
of one image, the memory after it beyond what the import of the framework held, its peak, and the largest difference of
outputs. `--cpu-time` takes the processor's time, while others use the machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from peers import ROOT, python_of

# Name: the net, the size of its images, and whether it has batch normalization.
NETS = {
    "alexnet_v2": ("alexnet.alexnet_v2", 224, {}),
    "vgg_a": ("vgg.vgg_a", 224, {}),
    "vgg_16": ("vgg.vgg_16", 224, {}),
    "overfeat": ("overfeat.overfeat", 231, {}),
    "inception_v1": ("inception.inception_v1", 224, {}),
    "inception_v2": ("inception.inception_v2", 224, {}),
    "inception_v3": ("inception.inception_v3", 299, {}),
    "resnet_v1_50": ("resnet_v1.resnet_v1_50", 224, {"num_classes": 1000}),
    "resnet_v1_101": ("resnet_v1.resnet_v1_101", 224, {"num_classes": 1000}),
    "resnet_v2_50": ("resnet_v2.resnet_v2_50", 224, {"num_classes": 1000}),
}

# What a process of each framework runs.
LOADING = """
import importlib, json, resource, sys, time
module, path, size, clock, output = sys.argv[1:6]
now = time.process_time if clock == "cpu" else time.perf_counter
import numpy as np
tf = importlib.import_module(module)
tf = getattr(tf.compat, "v1", tf) if module == "tensorflow" else tf
image = np.random.RandomState(0).rand(1, int(size), int(size), 3).astype("float32")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = now()
graph_def = tf.GraphDef()
with open(path, "rb") as file:
    graph_def.ParseFromString(file.read())
with tf.Graph().as_default() as graph:
    tf.import_graph_def(graph_def, name="")
session = tf.Session(graph=graph)
del graph_def
loaded = now()
result = session.run("output:0", {"input:0": image})
ran = now()
later = []
for _ in range(3):
    begin = now()
    session.run("output:0", {"input:0": image})
    later.append(now() - begin)
np.save(output, result)
kb = dict(line.split(":") for line in open("/proc/self/status") if line.startswith("Vm"))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
held = int(kb["VmRSS"].split()[0]) - before
print(json.dumps({"load": loaded - start, "first": ran - loaded, "later": min(later), "peak": peak / 1e3,
                  "held": held / 1e3}))
"""


def freeze(name: str, path: Path) -> None:
    """Writes a net with random weights as a frozen graph, from `input` to `output`."""
    import thalweg as tf

    net, size, options = NETS[name]
    file, _, function = net.partition(".")
    with tf.Graph().as_default() as graph, tf.Session() as session:
        image = tf.placeholder(tf.float32, [None, size, size, 3], name="input")
        module = getattr(tf.contrib.slim.nets, file)
        logits, _ = getattr(module, function)(image, is_training=False, **options)
        tf.identity(tf.layers.flatten(logits), name="output")
        session.run(tf.global_variables_initializer())
        frozen = tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["output"])
    path.write_bytes(frozen.SerializeToString())


def measure(framework: str, python: str, path: Path, size: int, clock: str, output: Path) -> dict[str, float]:
    """Loads and runs a frozen graph in a new process."""
    command = [python, "-c", LOADING, framework, str(path), str(size), clock, str(output)]
    found = subprocess.run(command, capture_output=True, text=True, env=_environment(framework))
    if found.returncode:
        raise RuntimeError(f"{framework} could not load {path.name}: {found.stderr[-2000:]}")
    measured: dict[str, float] = json.loads(found.stdout.splitlines()[-1])
    return measured


def _environment(framework: str) -> dict[str, str]:
    import os

    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if framework == "thalweg":
        variables["PYTHONPATH"] = str(ROOT / "src")
    return {**variables, "TF_CPP_MIN_LOG_LEVEL": "3"}


def compare(name: str, pythons: dict[str, str], repeat: int, clock: str, folder: Path) -> None:
    """Measures one net with both frameworks and prints a line: how many times better Thalweg is."""
    import numpy as np

    path = folder / f"{name}.pb"
    freeze_command = [sys.executable, __file__, "--freeze", name, str(path)]
    subprocess.run(freeze_command, check=True, env=_environment("thalweg"))
    runs: dict[str, list[dict[str, float]]] = {framework: [] for framework in pythons}
    for _ in range(repeat):
        for framework, python in pythons.items():
            output = folder / f"{framework}.npy"
            runs[framework].append(measure(framework, python, path, NETS[name][1], clock, output))
    medians = {
        framework: {key: statistics.median(run[key] for run in each) for key in each[0]}
        for framework, each in runs.items()
    }
    ours, theirs = medians["thalweg"], medians["tensorflow"]
    one, other = (np.load(folder / f"{framework}.npy") for framework in ("thalweg", "tensorflow"))
    difference = np.abs(one - other).max() / max(np.abs(other).max(), 1e-30)
    columns = "".join(
        f"{ours[key]:9.2f}{theirs[key]:9.2f}{theirs[key] / max(ours[key], 1e-9):6.1f}"
        for key in ("load", "first", "later")
    )
    memory = "".join(
        f"{ours[key]:8.0f}{theirs[key]:8.0f}{theirs[key] / max(ours[key], 1):6.1f}" for key in ("held", "peak")
    )
    print(f"{name:14}{path.stat().st_size / 1e6:5.0f}{columns}{memory}  {difference:.1e}", flush=True)
    path.unlink()


def main() -> None:
    """Freezes, loads and compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=Path, help="a folder with the virtual environment tf")
    parser.add_argument("--only", nargs="*", default=list(NETS), choices=list(NETS), help="some nets")
    parser.add_argument("--repeat", type=int, default=3, help="processes of each framework for each net")
    parser.add_argument("--cpu-time", action="store_true", help="the processor's time instead of the wall clock's")
    parser.add_argument("--freeze", nargs=2, metavar=("NET", "FILE"), help="only write a net's frozen graph")
    options = parser.parse_args()
    if options.freeze:
        freeze(options.freeze[0], Path(options.freeze[1]))
        return
    pythons = {each: python_of(each, options.peers, []) for each in ("thalweg", "tensorflow")}
    clock = "cpu" if options.cpu_time else "wall"
    titles = "".join(f"{title + ' s':>9}{'tf':>9}{'x':>6}" for title in ("load", "first", "later"))
    print(
        f"{'net':14}{'MB':>5}{titles}" + "".join(f"{t:>8}{'tf':>8}{'x':>6}" for t in ("held MB", "peak MB")) + "  diff"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only:
            compare(name, pythons, options.repeat, clock, Path(folder))


if __name__ == "__main__":
    main()
