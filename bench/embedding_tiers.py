"""Embedding tables beyond memory, and their checkpoints of changes.

    python bench/embedding_tiers.py tiers --rows 1000000 --rocksdb /path/to/python   # an environment with rocksdict
    python bench/embedding_tiers.py deltas --rows 1000000

`tiers`: training with Adagrad on Zipf ids, with all rows in memory, with an eighth of them (with and without fetching
ahead), and with the rows in RocksDB with a cache of the same size. Rounds are interleaved. `deltas`: the bytes of a
checkpoint after 5% of the rows have changed, the speed of training while it is written, and whether it is restored bit
for bit.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

DIM, BATCH, STEPS = 64, 8192, 20
ROW_BYTES = 16 + 2 * 4 * DIM + 6


class Zipf:
    """Ids of a table of so many rows, the k-th of which comes with probability k to the -1.05."""

    def __init__(self, rows: int, seed: int) -> None:
        weights = np.arange(1, rows + 1) ** -1.05
        self._below = np.cumsum(weights) / weights.sum()
        self._random = np.random.default_rng(seed)
        self._ids = np.random.default_rng(0).permutation(rows) * 1_000_003

    def batch(self) -> np.ndarray:
        """Ids of one step."""
        found: np.ndarray = self._ids[np.searchsorted(self._below, self._random.random(BATCH))]
        return found


# --- Systems: from the number of rows to a function that runs STEPS steps ---


def thalweg_training(rows: int, folder: str, share: int, ahead: bool) -> Callable[[], None]:
    """With the rows in memory, or one of `share` of them; fetching the rows of the next batch, or not."""
    import thalweg as tf

    with tf.Graph().as_default():
        budget = rows * ROW_BYTES // share if share > 1 else 0
        options = tf.EmbeddingOptions(ram_bytes=budget, folder=folder if budget else "")
        table = tf.get_embedding_variable("table", DIM, initializer=tf.zeros_initializer(), options=options)
        ids = tf.placeholder(tf.int64, [None])
        step = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(table.lookup(ids)))
        fetch = tf.nn.prefetch_rows(table, ids)
        session = tf.Session()
        session.run(tf.global_variables_initializer())
    for begin in range(0, rows, BATCH):
        session.run(step, {ids: np.arange(begin, min(rows, begin + BATCH)) * 1_000_003})
    source = Zipf(rows, 1)
    coming = [source.batch()]

    def train() -> None:
        for _ in range(STEPS):
            now = coming.pop()
            coming.append(source.batch())
            if ahead:
                session.run(fetch, {ids: coming[0]})
            session.run(step, {ids: now})

    return train


def rocksdb_training(rows: int, folder: str, share: int) -> Callable[[], None]:
    """The same with a row (value and accumulator) for each key of RocksDB, written without its log."""
    from rocksdict import BlockBasedOptions, Cache, Options, Rdict, WriteBatch, WriteOptions

    options, blocks = Options(raw_mode=True), BlockBasedOptions()
    options.create_if_missing(True)
    blocks.set_block_cache(Cache(rows * ROW_BYTES // share))
    options.set_block_based_table_factory(blocks)
    store = Rdict(os.path.join(folder, "rocksdb"), options)
    unlogged = WriteOptions()
    unlogged.disable_wal = True

    def put(keys: list[bytes], values: np.ndarray) -> None:
        changes = WriteBatch(raw_mode=True)
        for key, value in zip(keys, values, strict=True):
            changes.put(key, value.tobytes())
        store.write(changes, unlogged)

    first = np.zeros([BATCH, 2 * DIM], np.float32)
    first[:, DIM:] = 0.1
    for begin in range(0, rows, BATCH):
        keys = [key.tobytes() for key in np.arange(begin, min(rows, begin + BATCH)) * 1_000_003]
        put(keys, first[: len(keys)])
    source = Zipf(rows, 1)

    def train() -> None:
        for _ in range(STEPS):
            distinct, counts = np.unique(source.batch(), return_counts=True)
            keys = [key.tobytes() for key in distinct]
            found = np.frombuffer(b"".join(store[keys]), np.float32).reshape(-1, 2 * DIM).copy()
            gradients = np.repeat(counts.astype(np.float32)[:, None], DIM, 1)
            found[:, DIM:] += gradients * gradients
            found[:, :DIM] -= 0.1 * gradients / np.sqrt(found[:, DIM:])
            put(keys, found)

    return train


def systems(rows: int, folder: str) -> dict[str, Callable[[], Callable[[], None]]]:
    """All of them, by name."""
    return {
        "memory": lambda: thalweg_training(rows, folder, 1, False),
        "tiers": lambda: thalweg_training(rows, folder, 8, False),
        "tiers, fetched ahead": lambda: thalweg_training(rows, folder, 8, True),
        "rocksdb": lambda: rocksdb_training(rows, folder, 8),
    }


def worker(name: str, rows: int, folder: str) -> None:
    """Answers each line with the time of a step in seconds."""
    train = systems(rows, folder)[name]()
    train()
    print(json.dumps(None), flush=True)
    for _ in sys.stdin:
        began = time.perf_counter()
        train()
        print(json.dumps((time.perf_counter() - began) / STEPS), flush=True)


def measure_tiers(rows: int, rounds: int, rocksdb: str | None) -> None:
    """Runs all systems, each in a process of its own, round by round."""
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_FOLDER")) as folder:
        children: dict[str, Any] = {}
        for name in systems(rows, folder):
            python = rocksdb if name == "rocksdb" else sys.executable
            if python is None:
                continue
            own = os.path.join(folder, str(len(children)))
            os.mkdir(own)
            command = [python, __file__, "worker", "--name", name, "--rows", str(rows), "--folder", own]
            children[name] = subprocess.Popen(command, stdin=-1, stdout=-1, text=True)
            children[name].stdout.readline()
        for _ in range(rounds):
            for name, child in children.items():
                child.stdin.write("\n")
                child.stdin.flush()
                times.setdefault(name, []).append(json.loads(child.stdout.readline()))
        for child in children.values():
            child.stdin.close()
            child.wait()
    memory = statistics.median(times["memory"])
    print(
        f"{rows} rows of {DIM} floats and as many of slots, {BATCH} Zipf ids a step, an eighth of the rows in memory:"
    )
    for name, found in times.items():
        step = statistics.median(found)
        print(f"  {name:22} {1e3 * step:8.2f} ms a step, {memory / step:.2f} of the speed in memory")


def measure_deltas(rows: int, rounds: int) -> None:
    """Full and partial checkpoints of a table that is being trained."""
    import thalweg as tf

    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_FOLDER")) as folder, tf.Session() as session:
        table = tf.get_embedding_variable("table", DIM, initializer=tf.zeros_initializer())
        ids = tf.placeholder(tf.int64, [None])
        step = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(table.lookup(ids)))
        saver = tf.train.Saver(max_to_keep=2)
        session.run(tf.global_variables_initializer())
        keys = np.arange(rows) * 1_000_003
        for begin in range(0, rows, BATCH):
            session.run(step, {ids: keys[begin : begin + BATCH]})
        prefix = saver.save(session, folder + "/m", 0, write_meta_graph=False)
        full = new_bytes(prefix)
        rng = np.random.default_rng(0)
        hot = rng.choice(keys, rows // 20, replace=False)

        def train(until: Callable[[], bool]) -> float:
            count, start = 0, time.perf_counter()
            while not until():
                session.run(step, {ids: rng.choice(hot, BATCH)})
                count += 1
            return count / (time.perf_counter() - start)

        slowdowns, sizes = [], []
        for number in range(1, rounds + 1):
            for begin in range(0, len(hot), BATCH):
                session.run(step, {ids: hot[begin : begin + BATCH]})
            done, began = threading.Event(), time.perf_counter()
            found: list[str] = []

            def save(number: int = number, found: list[str] = found, done: threading.Event = done) -> None:
                found.append(saver.save(session, folder + "/m", number, write_meta_graph=False))
                done.set()

            saving = threading.Thread(target=save)
            saving.start()
            during = train(done.is_set)
            took = time.perf_counter() - began
            saving.join()
            end = time.perf_counter() + took
            alone = train(lambda end=end: time.perf_counter() > end)
            slowdowns.append(during / alone)
            sizes.append(new_bytes(found[0]))
        prefix = saver.save(session, folder + "/m", rounds + 1, write_meta_graph=False)
        before = session.run(table.lookup(ids), {ids: keys})
        session.run(tf.global_variables_initializer())
        saver.restore(session, prefix)
        same = np.array_equal(before, session.run(table.lookup(ids), {ids: keys}))
        print(
            f"{rows} rows: full checkpoint {full / 1e6:.1f} MB; after 5% have changed {min(sizes) / 1e6:.1f} MB "
            f"({full / min(sizes):.1f} times less); training meanwhile at {statistics.median(slowdowns):.2f} of its "
            f"speed (median of {rounds}: {', '.join(f'{s:.2f}' for s in slowdowns)}); restored bit for bit: {same}"
        )


def new_bytes(prefix: str) -> int:
    """The size of the last file of rows of a checkpoint."""
    start = os.path.basename(prefix) + ".rows-"
    paths = [os.path.join(os.path.dirname(prefix), name) for name in os.listdir(os.path.dirname(prefix))]
    own = [path for path in paths if os.path.basename(path).startswith(start) and os.stat(path).st_nlink == 1]
    return max(os.path.getsize(path) for path in own)


def main() -> None:
    """Parses the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("tiers", "deltas", "worker"))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rocksdb", help="the Python of an environment with rocksdict and numpy")
    parser.add_argument("--name")
    parser.add_argument("--folder")
    args = parser.parse_args()
    if args.what == "worker":
        worker(args.name, args.rows, args.folder)
    elif args.what == "tiers":
        measure_tiers(args.rows, args.rounds, args.rocksdb)
    else:
        measure_deltas(args.rows, args.rounds)


if __name__ == "__main__":
    main()
