"""The process that the fuzz test runs: calls ops at random until its time is over. Its parent reports a crash.

    python -m tests.fuzz.worker --seed 1 --seconds 10 --log file [--op MatMul] [--calls 1]

Before each call the log says what comes, so that the last line names the call that ended the process. Some ops write
files with odd names to the current folder.
"""

from __future__ import annotations

import argparse
import faulthandler
import time
import warnings

import numpy as np

import thalweg as tf
from tests.fuzz.random_calls import RandomCall, Skip
from tests.fuzz.recorded_calls import RecordedCall
from thalweg._native import core
from thalweg.graph.definitions.op_registry import OpDef, all_ops
from thalweg.runtime.install import register_python_kernels

MEMORY_LIMIT = 1 << 30
# Excluded: parts of a loop or conditional, functions of the program, and ops that write files or print.
NOT_CALLED = ("Enter", "Exit", "NextIteration", "Merge", "Switch", "LoopCond", "PyFunc", "Ref", "Abort", "Print",
              "File", "Placeholder", "Timestamp")  # fmt: skip
# The ways to make a call: methods of RandomCall, and the eager one.
MODES = ("build", "constants", "imported", "odd_values", "eager")


def candidates() -> list[OpDef]:
    return [op for op in all_ops() if core.has_kernel(op.name) and not any(part in op.name for part in NOT_CALLED)]


def _drawn(op: OpDef, seed: int) -> RandomCall:
    """Half of the calls are those of op cases with changes, where the op has cases."""
    if seed % 2:
        try:
            return RecordedCall(op, seed)
        except Skip:
            pass
    return RandomCall(op, seed)


def call(op: OpDef, seed: int, mode: str) -> str:
    """Makes one call; returns how it ended. Only the errors of the API may come out."""
    try:
        random_call = _drawn(op, seed)
    except Skip:
        return "skipped"
    if mode == "eager" and core.is_async(op.name):
        return "skipped"  # It would wait for another call for ever, and a single call has no timeout.
    try:
        if mode == "eager":
            with tf.eager():
                for output in random_call.call_by_name():
                    output.numpy() if hasattr(output, "numpy") else None
        else:
            with tf.Graph().as_default(), tf.Session() as session:
                fetches, feeds = getattr(random_call, mode)()
                # Ops that wait for another step would wait for ever.
                waits = mode == "imported" or core.is_async(op.name)
                session.run(fetches, feeds, options=tf.RunOptions(timeout_in_ms=50) if waits else None)
    except tf.errors.OpError as error:
        assert error.message, "an error without a message"
        assert error.error_code != tf.errors.INTERNAL, f"an internal error: {error}"
        return "failed"
    except (ValueError, TypeError) as error:
        assert str(error), "an error without a message"
        return "refused"
    return "ran"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--log", required=True)
    parser.add_argument("--op")
    parser.add_argument("--calls", type=int)
    parser.add_argument("--mode", choices=MODES)
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
            mode = args.mode or MODES[int(rng.integers(len(MODES)))]
            log.write(f"--op {op.name} --seed {seed} --calls 1 --mode {mode}\n")
            log.flush()
            # A call that hangs ends the process with a stack, and its parent reports it.
            faulthandler.dump_traceback_later(60, exit=True)
            try:
                result = call(op, seed, mode)
            except BaseException:
                print(_drawn(op, seed), flush=True)
                raise
            faulthandler.cancel_dump_traceback_later()
            counts[result] = counts.get(result, 0) + 1
            done += 1
    print(counts)


if __name__ == "__main__":
    main()
