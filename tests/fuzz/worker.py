"""The process that the fuzz test runs: calls ops at random until its time is over. Its parent reports a crash.

    python -m tests.fuzz.worker --seed 1 --seconds 10 --log file [--op MatMul] [--calls 1]

Before each call the log says what comes, so that the last line names the call that ended the process.
"""

from __future__ import annotations

import argparse
import faulthandler
import time
import warnings

import numpy as np

import thalweg as tf
from tests.fuzz.random_calls import RandomCall, Skip
from thalweg._native import core
from thalweg.graph.definitions.op_registry import OpDef, all_ops
from thalweg.runtime.install import register_python_kernels

MEMORY_LIMIT = 1 << 30
# Excluded: parts of a loop or conditional, functions of the program, and ops that write files or print.
NOT_CALLED = ("Enter", "Exit", "NextIteration", "Merge", "Switch", "LoopCond", "PyFunc", "Ref", "Abort", "Print",
              "File", "Placeholder", "Timestamp")  # fmt: skip


def candidates() -> list[OpDef]:
    return [op for op in all_ops() if core.has_kernel(op.name) and not any(part in op.name for part in NOT_CALLED)]


def call(op: OpDef, seed: int) -> str:
    """Makes one call; returns how it ended. Only the errors of the API may come out."""
    try:
        random_call = RandomCall(op, seed)
    except Skip:
        return "skipped"
    with tf.Graph().as_default(), tf.Session() as session:
        try:
            outputs, feeds = random_call.build()
        except (ValueError, TypeError):
            return "refused"
        except tf.errors.OpError:
            return "refused"
        try:
            # Ops that wait for another step would wait for ever.
            options = tf.RunOptions(timeout_in_ms=50) if core.is_async(op.name) else None
            session.run(outputs, feeds, options=options)
        except tf.errors.OpError as error:
            assert error.message, "an error without a message"
            assert error.error_code != tf.errors.INTERNAL, f"an internal error: {error}"
            return "failed"
        except ValueError as error:
            assert "feed" in str(error), error
            return "refused"
    return "ran"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--log", required=True)
    parser.add_argument("--op")
    parser.add_argument("--calls", type=int)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    core.set_memory_limit(MEMORY_LIMIT)
    register_python_kernels()
    ops = [op for op in candidates() if args.op in (None, op.name)]
    rng = np.random.default_rng(args.seed)
    end = time.monotonic() + args.seconds
    counts: dict[str, int] = {}
    done = 0
    with open(args.log, "w") as log:
        while time.monotonic() < end and done != args.calls:
            op = ops[int(rng.integers(len(ops)))]
            seed = args.seed if args.calls == 1 else int(rng.integers(2**31))
            log.write(f"--op {op.name} --seed {seed} --calls 1\n")
            log.flush()
            # A call that hangs ends the process with a stack, and its parent reports it.
            faulthandler.dump_traceback_later(60, exit=True)
            try:
                result = call(op, seed)
            except BaseException:
                print(RandomCall(op, seed), flush=True)
                raise
            faulthandler.cancel_dump_traceback_later()
            counts[result] = counts.get(result, 0) + 1
            done += 1
    print(counts)


if __name__ == "__main__":
    main()
