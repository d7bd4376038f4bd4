"""Embedding tables, side by side: look-up and update of 8,192 rows of 64 floats in a table of some million rows.

Each system runs in an environment of its own, as a child process that reads commands and answers with times: rounds are
interleaved. `python bench/embedding_tables.py --peers torch=/path/to/python tensorflow=/path/to/python`
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

DIM, BATCH = 64, 8192
Case = Callable[[np.ndarray], None]
# Which tables are made: a table of ten million rows takes 5 to 8 GB with its slots.
OPTIMIZERS = ["adagrad", "adam"]


def keys_of(rows: int) -> np.ndarray:
    """As many different ids, far apart."""
    return np.arange(rows, dtype=np.int64) * 1_000_003 - 17


def batches(rows: int, count: int, seed: int) -> list[np.ndarray]:
    """Different ids in each batch, drawn evenly."""
    rng = np.random.default_rng(seed)
    return [rng.choice(rows, BATCH, replace=False) for _ in range(count)]


# --- One function for each system: from the number of rows to its cases ---


def thalweg_cases(rows: int) -> dict[str, Case]:
    """Look-up, and look-up with the update by two optimizers, through sessions."""
    import thalweg as tf

    keys = keys_of(rows)
    cases: dict[str, Case] = {}
    for name in OPTIMIZERS:
        optimizer = tf.train.AdagradOptimizer(0.1) if name == "adagrad" else tf.train.AdamOptimizer(0.1)
        with tf.Graph().as_default():
            table = tf.get_embedding_variable("table", DIM, initializer=tf.zeros_initializer())
            ids = tf.placeholder(tf.int64, [None])
            gradient = np.full([BATCH, DIM], 0.01, np.float32)
            rows_of = table.lookup(ids)
            slices = tf.IndexedSlices(tf.constant(gradient), ids)
            with tf.control_dependencies([rows_of]):
                step = optimizer.apply_gradients([(slices, table)])
            session = tf.Session()
            session.run(tf.global_variables_initializer())
            for begin in range(0, rows, BATCH):
                part = keys[begin : begin + BATCH]
                session.run(step, {ids: np.resize(part, BATCH)})
            found = session.run(table.statistics())
            print(
                json.dumps(
                    {
                        "note": f"{name}: bytes a row beyond value and slots",
                        "value": (
                            float(found["bytes"]) / float(found["rows"]) - 4 * DIM * (2 if name == "adagrad" else 3)
                        ),
                    }
                ),
                flush=True,
            )
            run_step = session.make_callable(step.op if hasattr(step, "op") else step, [ids])
            cases[name] = lambda picked, run=run_step: run(keys[picked])
            if name == OPTIMIZERS[0]:
                run_lookup = session.make_callable(rows_of.op, [ids])
                cases["lookup"] = lambda picked, run=run_lookup: run(keys[picked])
    return cases


def torch_cases(rows: int) -> dict[str, Case]:
    """EmbeddingBag(sparse=True) of a known number of rows, with Adagrad and SparseAdam."""
    import torch

    torch.set_num_threads(os.cpu_count() or 1)
    cases: dict[str, Case] = {}
    offsets = torch.arange(BATCH)
    for name in OPTIMIZERS:
        bag = torch.nn.EmbeddingBag(rows, DIM, mode="sum", sparse=True)
        with torch.no_grad():
            bag.weight.zero_()
        if name == "adagrad":
            optimizer: Any = torch.optim.Adagrad(bag.parameters(), 0.1)
        else:
            optimizer = torch.optim.SparseAdam(bag.parameters(), 0.1)
        gradient = torch.full([BATCH, DIM], 0.01)

        def step(picked: np.ndarray, bag: Any = bag, optimizer: Any = optimizer, gradient: Any = gradient) -> None:
            optimizer.zero_grad()
            bag(torch.from_numpy(picked), offsets).backward(gradient)
            optimizer.step()

        cases[name] = step
        if name == OPTIMIZERS[0]:

            def look_up(picked: np.ndarray, bag: Any = bag) -> None:
                with torch.no_grad():
                    bag(torch.from_numpy(picked), offsets)

            cases["lookup"] = look_up
    return cases


def tensorflow_cases(rows: int) -> dict[str, Case]:
    """The look-up of a DenseHashTable: it has no update by an optimizer."""
    import tensorflow as tf

    table = tf.lookup.experimental.DenseHashTable(
        tf.int64, tf.float32, tf.zeros([DIM]), -1, -2, initial_num_buckets=1 << (2 * rows - 1).bit_length()
    )
    keys = keys_of(rows)
    zeros = tf.zeros([BATCH, DIM])
    for begin in range(0, rows, BATCH):
        part = np.resize(keys[begin : begin + BATCH], BATCH)
        table.insert(part, zeros)
    look_up = tf.function(table.lookup).get_concrete_function(tf.TensorSpec([BATCH], tf.int64))
    return {"lookup": lambda picked: look_up(tf.constant(keys[picked]))}


def tfra_cases(rows: int) -> dict[str, Case]:
    """The cuckoo table of tensorflow-recommenders-addons, with its optimizers."""
    os.environ["TF_USE_LEGACY_KERAS"] = "1"  # Its optimizers are those of Keras 2 (the package tf_keras).
    import tensorflow as tf
    import tensorflow_recommenders_addons as tfra

    keys = keys_of(rows)
    cases: dict[str, Case] = {}
    for name in OPTIMIZERS:
        table = tfra.dynamic_embedding.get_variable(
            f"table_{name}", key_dtype=tf.int64, value_dtype=tf.float32, dim=DIM, initializer=0.0, init_size=rows
        )
        base = tf.keras.optimizers.legacy.Adagrad(0.1) if name == "adagrad" else tf.keras.optimizers.legacy.Adam(0.1)
        optimizer = tfra.dynamic_embedding.DynamicEmbeddingOptimizer(base)
        zeros = tf.zeros([BATCH, DIM])
        for begin in range(0, rows, BATCH):
            table.upsert(tf.constant(np.resize(keys[begin : begin + BATCH], BATCH)), zeros)
        gradient = tf.fill([BATCH, DIM], 0.01)

        @tf.function
        def step(ids: Any, table: Any = table, optimizer: Any = optimizer, gradient: Any = gradient) -> None:
            with tf.GradientTape() as tape:
                # Inside of a function, the look-up's shadow variable is found by name.
                found = tfra.dynamic_embedding.embedding_lookup(table, ids, name="looked_up")
                trainable = table.get_trainable_by_name("looked_up")
                loss = tf.reduce_sum(found * gradient)
            optimizer.apply_gradients(zip(tape.gradient(loss, [trainable]), [trainable], strict=True))

        cases[name] = lambda picked, step=step: step(tf.constant(keys[picked]))
        if name == OPTIMIZERS[0]:
            look = tf.function(table.lookup)
            cases["lookup"] = lambda picked, look=look: look(tf.constant(keys[picked]))
    return cases


SYSTEMS = {"thalweg": thalweg_cases, "torch": torch_cases, "tensorflow": tensorflow_cases, "tfra": tfra_cases}


def worker(system: str, rows: int) -> None:
    """Answers each line, the name of a case and a seed, with the median time of a call in seconds."""
    cases = SYSTEMS[system](rows)
    print(json.dumps({"cases": sorted(cases)}), flush=True)
    for line in sys.stdin:
        name, seed = line.split()
        picked = batches(rows, 12, int(seed))
        times = []
        for ids in picked:
            began = time.perf_counter()
            cases[name](ids)
            times.append(time.perf_counter() - began)
        print(json.dumps({"median": statistics.median(times[2:])}), flush=True)


def compare(rows: int, rounds: int, peers: dict[str, str]) -> None:
    """Runs all systems, round by round."""
    children: dict[str, Any] = {}
    cases: dict[str, list[str]] = {}
    for system, python in {"thalweg": sys.executable, **peers}.items():
        command = [python, __file__, "--worker", system, "--rows", str(rows), "--optimizers", *OPTIMIZERS]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        children[system] = child
        while True:
            line = child.stdout.readline()
            if not line:
                print(f"{system} did not start", file=sys.stderr)
                break
            if not line.startswith("{"):
                continue  # Libraries print warnings.
            answer = json.loads(line)
            if "note" in answer:
                print(f"{system} {answer['note']}: {answer['value']:.1f}")
                continue
            cases[system] = answer["cases"]
            break
    times: dict[tuple[str, str], list[float]] = {}
    for number in range(rounds):
        for case in ("lookup", "adagrad", "adam"):
            for system, child in children.items():
                if case in cases.get(system, ()):
                    child.stdin.write(f"{case} {number}\n")
                    child.stdin.flush()
                    times.setdefault((case, system), []).append(json.loads(child.stdout.readline())["median"])
    for child in children.values():
        child.stdin.close()
        child.wait()
    print(f"{rows} rows of {DIM} floats, {BATCH} rows a call, {rounds} rounds; best median of a round, ms:")
    for (case, system), found in sorted(times.items()):
        own = min(times[case, "thalweg"])
        print(f"  {case:8} {system:10} {1e3 * min(found):8.3f}   x{min(found) / own:.2f}")


def main() -> None:
    """Parses the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", nargs="*", default=[], help="system=/path/to/python")
    parser.add_argument("--optimizers", nargs="*", choices=("adagrad", "adam"), default=["adagrad", "adam"])
    args = parser.parse_args()
    OPTIMIZERS[:] = args.optimizers
    if args.worker:
        worker(args.worker, args.rows)
        return
    compare(args.rows, args.rounds, dict(peer.split("=", 1) for peer in args.peers))


if __name__ == "__main__":
    main()
