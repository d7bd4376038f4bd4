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
import tempfile
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
                found, trainable = tfra.dynamic_embedding.embedding_lookup(table, ids, return_trainable=True)
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


# --- Thalweg alone: checkpoints of changes, and rows beyond the budget of memory ---


def zipf(rows: int, rng: np.random.Generator) -> np.ndarray:
    """Ids with a power law (exponent 1.05), spread over all rows."""
    return (rng.zipf(1.05, BATCH) - 1) % rows * 1_000_003


def measure_deltas(rows: int) -> None:
    """The size of a checkpoint after 5% of the rows have changed, and how much training slows down meanwhile."""
    import threading

    import thalweg as tf

    with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default(), tf.Session() as session:
        table = tf.get_embedding_variable("table", DIM, initializer=tf.zeros_initializer())
        ids = tf.placeholder(tf.int64, [None])
        step = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(table.lookup(ids)))
        saver = tf.train.Saver(max_to_keep=2)
        session.run(tf.global_variables_initializer())
        keys = keys_of(rows)
        for begin in range(0, rows, BATCH):
            session.run(step, {ids: keys[begin : begin + BATCH]})
        began = time.perf_counter()
        saver.save(session, folder + "/m", 0, write_meta_graph=False)
        full = time.perf_counter() - began
        rng = np.random.default_rng(0)
        for begin in range(0, rows // 20, BATCH):
            session.run(step, {ids: keys[begin : begin + BATCH]})
        sizes = {}

        def train(until: Callable[[], bool]) -> float:
            count, start = 0, time.perf_counter()
            while not until():
                session.run(step, {ids: keys[rng.integers(0, rows // 20, BATCH)]})
                count += 1
            return count / (time.perf_counter() - start)

        end = time.perf_counter() + 5
        alone = train(lambda: time.perf_counter() > end)
        done = threading.Event()

        def save() -> None:
            saver.save(session, folder + "/m", 1, write_meta_graph=False)
            done.set()

        began = time.perf_counter()
        saving = threading.Thread(target=save)
        saving.start()
        during = train(done.is_set)
        delta = time.perf_counter() - began
        saving.join()
        for name in os.listdir(folder):
            if ".rows-" in name:
                sizes[name.rsplit("-", 1)[1]] = os.path.getsize(os.path.join(folder, name))
        print(
            f"full checkpoint: {max(sizes.values()) / 1e6:.1f} MB in {full:.2f} s; after 5% changed: "
            f"{min(sizes.values()) / 1e6:.1f} MB in {delta:.2f} s while training ({during / alone:.2f} of its speed)"
        )


def measure_tiers(rows: int) -> None:
    """Training on Zipf ids with everything in memory, and with an eighth of it, with and without fetching ahead."""
    import thalweg as tf

    speeds = {}
    row_bytes = 16 + 2 * 4 * DIM + 6
    for name, budget, ahead in (("memory", 0, False), ("tiers", rows * row_bytes // 8, False),
                                ("tiers, fetched ahead", rows * row_bytes // 8, True)):  # fmt: skip
        with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default(), tf.Session() as session:
            options = tf.EmbeddingOptions(ram_bytes=budget, folder=folder if budget else "")
            table = tf.get_embedding_variable("table", DIM, initializer=tf.zeros_initializer(), options=options)
            ids = tf.placeholder(tf.int64, [None])
            step = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(table.lookup(ids)))
            fetch = tf.nn.prefetch_rows(table, ids)
            session.run(tf.global_variables_initializer())
            for begin in range(0, rows, BATCH):
                session.run(step, {ids: np.arange(begin, min(rows, begin + BATCH)) * 1_000_003})
            rng = np.random.default_rng(1)
            coming = [zipf(rows, rng) for _ in range(220)]
            for i in range(20):
                session.run(step, {ids: coming[i]})
            began = time.perf_counter()
            for i in range(20, 219):
                if ahead:
                    session.run(fetch, {ids: coming[i + 1]})
                session.run(step, {ids: coming[i]})
            speeds[name] = 199 / (time.perf_counter() - began)
            found = session.run(table.statistics())
            print(
                f"{name}: {speeds[name]:.1f} steps/s ({speeds[name] / speeds['memory']:.2f}), {found['rows']} rows, "
                f"{found['disk_rows']} of them on disk"
            )


def main() -> None:
    """Parses the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", nargs="*", default=[], help="system=/path/to/python")
    parser.add_argument("--optimizers", nargs="*", choices=("adagrad", "adam"), default=["adagrad", "adam"])
    parser.add_argument("--only", choices=("compare", "deltas", "tiers"))
    args = parser.parse_args()
    OPTIMIZERS[:] = args.optimizers
    if args.worker:
        worker(args.worker, args.rows)
        return
    if args.only in (None, "compare"):
        compare(args.rows, args.rounds, dict(peer.split("=", 1) for peer in args.peers))
    if args.only in (None, "deltas"):
        measure_deltas(args.rows)
    if args.only in (None, "tiers"):
        measure_tiers(args.rows)


if __name__ == "__main__":
    main()
