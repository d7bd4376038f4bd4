"""A benchmark worker: one framework in a process of its own, with commands as lines of JSON on stdin.

    {"do": "prepare", "case": "chain"}   builds and warms up   {"check": 1.25, "work": {}} or {"error": "…"}
    {"do": "round", "seconds": 0.3}      measures for a while  {"samples": [2.1e-5, …]} (seconds, or bytes, per step)

With `"cpu_time": true` a round's samples are the processor's time, of all threads: for busy machines.

A fourth argument names another package of cases. A step with `results` is checked by digests of all of them.

Runs under Python environments that do not have Thalweg, so it imports nothing of it and only NumPy besides.
"""

import gc
import importlib
import json
import os
import sys
import time
import traceback
import zlib

import numpy as np

from case import Setting

# Of the elements in turn, in a digest. Their number is prime, so that no axis has the same weights in each row.
WEIGHTS = np.cos(np.arange(4093) * 0.7) + 0.5
SAMPLE_SECONDS = 0.02  # Long enough for the clock, short enough for a median over many.


def load(framework, threads):
    """Imports a framework and sets its threads; returns the module that builders take, and its version."""
    if framework in ("thalweg", "before"):
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


def digest(array):
    """Numbers that tell one array from another: its shape, its sum with fixed weights, its magnitude, how many NaNs."""
    array = np.asarray(array)
    if array.dtype == object or array.dtype.kind in "SU":
        return [*array.shape, zlib.crc32(b"\0".join(bytes(x) for x in array.reshape(-1)))]
    flat = array.reshape(-1).astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    nans = int(np.isnan(flat).sum())
    flat[~np.isfinite(flat)] = 0
    # Rows of as many elements as there are weights, and the rest.
    whole = flat.size // WEIGHTS.size * WEIGHTS.size
    parts = [(flat[:whole].reshape(-1, WEIGHTS.size), WEIGHTS), (flat[whole:], WEIGHTS[: flat.size - whole])]
    total = sum(np.sum(part @ weights) for part, weights in parts)
    size = float(sum(np.sum(np.abs(part) @ np.abs(weights)) for part, weights in parts)) or 1.0
    return [*array.shape, float(np.real(total)) / size, float(np.imag(total)) / size, size, nans]


class Worker:
    """The state between lines: the framework, and the case that is prepared."""

    def __init__(self, framework, setting, package):
        self.framework = framework
        self.setting = setting
        self.module, self.version = load(framework, setting.threads)
        self.cases = importlib.import_module(package).all_cases()
        self.step = None

    def prepare(self, case, warm=0.3, sample=SAMPLE_SECONDS):
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
        while calls < 3 or time.perf_counter() - start < warm:
            self.step()
            calls += 1
        self.calls = max(1, round(sample * calls / (time.perf_counter() - start)))
        work = {kind: getattr(self.step, kind) for kind in ("flops", "bytes_moved") if getattr(self.step, kind, None)}
        if getattr(self.step, "results", None) is not None:
            return {"check": [digest(array) for array in self.step.results()], "work": work}
        return {"check": checksum(result), "work": work}

    def round(self, seconds, cpu_time=False):
        """Measures the step for about so many seconds, at least once."""
        if self.case.self_measured:
            return {"samples": [self.step()]}
        step, samples = self.step, []
        clock = time.process_time if cpu_time else time.perf_counter
        gc.collect()
        gc.disable()
        try:
            end = clock() + seconds
            while not samples or clock() < end:
                start = clock()
                for _ in range(self.calls):
                    step()
                samples.append((clock() - start) / self.calls)
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
        worker = Worker(framework, Setting(threads, quick), sys.argv[4] if len(sys.argv) > 4 else "cases")
    except Exception:
        answer({"error": traceback.format_exc()})
        return
    answer({"version": worker.version})
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if order["do"] == "prepare":
                answer(worker.prepare(**{key: value for key, value in order.items() if key != "do"}))
            else:
                answer(worker.round(order["seconds"], order.get("cpu_time", False)))
        except Exception:
            answer({"error": traceback.format_exc()})
    if hasattr(worker.step, "end"):
        worker.step.end()
    os._exit(0)  # Sessions are not closed: their peers may be gone.


if __name__ == "__main__":
    main()
