"""A benchmark worker: one framework in a process of its own, with commands as lines of JSON on stdin.

    {"do": "prepare", "case": "chain"}   builds and warms up   {"check": 1.25, "work": {}} or {"error": "…"}
    {"do": "round", "seconds": 0.3}      measures for a while  {"samples": [2.1e-5, …]} (seconds, or bytes, per step)

Runs under Python environments that do not have Thalweg, so it imports nothing of it and only NumPy besides.
"""

import gc
import importlib
import json
import os
import sys
import time
import traceback

import numpy as np

from case import Setting
from cases import all_cases

SAMPLE_SECONDS = 0.02  # Long enough for the clock, short enough for a median over many.


def load(framework, threads):
    """Imports a framework and sets its threads; returns the module that builders take, and its version."""
    if framework == "thalweg":
        module = importlib.import_module("thalweg")
        return module, getattr(module, "__version__", "?")
    if framework == "tensorflow":
        module = importlib.import_module("tensorflow.compat.v1")
        module.disable_v2_behavior()
        module.logging.set_verbosity(module.logging.ERROR)
        return module, module.__version__
    module = importlib.import_module(framework.removesuffix("_compiled"))
    if framework.startswith("torch"):
        module.set_num_threads(threads)
        module.set_grad_enabled(False)
    return module, module.__version__


def checksum(result):
    """One number that frameworks have to agree on; None for steps without a result."""
    return None if result is None else float(np.mean(np.asarray(result, np.float64)))


class Worker:
    """The state between lines: the framework, and the case that is prepared."""

    def __init__(self, framework, setting):
        self.framework = framework
        self.setting = setting
        self.module, self.version = load(framework, setting.threads)
        self.cases = all_cases()

    def prepare(self, case):
        """Builds a case's step and runs it until it is warm."""
        self.step = None
        gc.collect()
        self.case = self.cases[case]
        builder = self.case.builder(self.framework)
        if builder is None:
            return {"skip": "no counterpart"}
        self.step = builder(self.module, self.setting)
        if self.case.fresh_process:
            return {"check": None}
        result = self.step()
        if self.case.self_measured:
            return {"check": None}
        start, calls = time.perf_counter(), 0
        while calls < 3 or time.perf_counter() - start < 0.3:
            self.step()
            calls += 1
        self.calls = max(1, round(SAMPLE_SECONDS * calls / (time.perf_counter() - start)))
        work = {kind: getattr(self.step, kind) for kind in ("flops", "bytes_moved") if getattr(self.step, kind, None)}
        return {"check": checksum(result), "work": work}

    def round(self, seconds):
        """Measures the step for about so many seconds, at least once."""
        if self.case.self_measured:
            return {"samples": [self.step()]}
        step, samples = self.step, []
        gc.collect()
        gc.disable()
        try:
            end = time.perf_counter() + seconds
            while not samples or time.perf_counter() < end:
                start = time.perf_counter()
                for _ in range(self.calls):
                    step()
                samples.append((time.perf_counter() - start) / self.calls)
        finally:
            gc.enable()
        return {"samples": samples}


def main():
    """Serves until stdin ends."""
    framework, threads, quick = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "quick"
    # Frameworks print: keep the real stdout for the answers and send theirs to stderr.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(message):
        print(json.dumps(message), file=answers, flush=True)

    try:
        worker = Worker(framework, Setting(threads, quick))
    except Exception:
        answer({"error": traceback.format_exc()})
        return
    answer({"version": worker.version})
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if order["do"] == "prepare":
                answer(worker.prepare(order["case"]))
            else:
                answer(worker.round(order["seconds"]))
        except Exception:
            answer({"error": traceback.format_exc()})


if __name__ == "__main__":
    main()
