"""Ten million enqueue/dequeue pairs: does the memory grow?

    PYTHONPATH=src python bench/stress_queues.py [--pairs 10000000] [--kind fifo]

Prints the resident memory while they run, and fails if it grows by more than a megabyte after the first tenth.
"""

import argparse
import sys
import time

import thalweg as tf

PER_STEP = 1000
KINDS = {
    "fifo": lambda: tf.FIFOQueue(10, tf.float32, shapes=[[]]),
    "shuffle": lambda: tf.RandomShuffleQueue(10, 0, tf.float32, shapes=[[]]),
    "padding": lambda: tf.PaddingFIFOQueue(10, [tf.float32], [[]]),
    "priority": lambda: tf.PriorityQueue(10, [tf.float32], shapes=[[]]),
}


def resident() -> int:
    """The resident memory of this process, in bytes."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


def chain(kind: str) -> tf.Operation:
    """One step with a chain of pairs."""
    queue = KINDS[kind]()
    last = []
    for i in range(PER_STEP):
        with tf.control_dependencies(last):
            enqueue = queue.enqueue([i, 1.0] if kind == "priority" else 1.0)
        with tf.control_dependencies([enqueue]):
            taken = queue.dequeue()
        last = [taken[0].op if isinstance(taken, list) else taken.op]
    return last[0]


def main() -> None:
    """Runs the pairs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--kind", choices=list(KINDS), default="fifo")
    args = parser.parse_args()
    steps = max(args.pairs // PER_STEP, 10)
    with tf.Session() as session:
        step = chain(args.kind)
        begun, settled = time.process_time(), 0
        for i in range(steps + 1):
            if i % max(steps // 10, 1) == 0:
                now = resident()
                settled = settled or (now if i > 0 else 0)
                print(f"{i * PER_STEP:>12,} pairs  {now / 1e6:8.1f} MB", flush=True)
            session.run(step)
        taken = (time.process_time() - begun) / (steps * PER_STEP)
    print(f"{taken * 1e9:.0f} ns of processor time for a pair")
    if resident() - settled > 1_000_000:
        sys.exit(f"FAILED: the memory grew by {(resident() - settled) / 1e6:.1f} MB")
    print(f"passed: the memory grew by {max(resident() - settled, 0) / 1e6:.1f} MB after the first tenth")


if __name__ == "__main__":
    main()
