"""Single ops beside TensorFlow and PyTorch: `python bench/ops.py --peers FOLDER`, losers first.

Every op of `op_sweep/` runs at several sizes and types in one process per framework, in short rounds in turn, and the
results of all are compared. `bench/ops.txt` keeps the last ratio of each case under version control: a case that became
slower, relative to the same peer, is listed as worse. A case that takes too long ends its worker and is listed; results
are written down after each case, so that `--resume` goes on with an interrupted run. `--records` runs the samples of
the tests' op cases instead, one node each, so that every op of the registry that can stand alone is run at least at a
small size.
"""

import argparse
import os
import re
import statistics
import sys
import time
from pathlib import Path

import op_sweep
import peers
from op_results import SHORT, Journal, report, write_kept
from op_sweep import records as op_records
from op_sweep.networks import write_pictures
from op_sweep.records import export_records
from run import HERE, Worker


def is_numeric(digest):
    """Whether a digest is that of numbers."""
    return len(digest) >= 4 and isinstance(digest[-2], float)


def agree(one, other, tolerance):
    """Whether two digests of results are those of the same arrays."""
    if len(one) != len(other) or any(len(a) != len(b) for a, b in zip(one, other, strict=True)):
        return False
    for a, b in zip(one, other, strict=True):
        # Strings have a checksum behind the shape; numbers have sums, and how many of them are no numbers.
        *shape, real, imaginary, size, nans = a if is_numeric(a) else [*a, 0.0, 0.0, 1.0, 0]
        *shape2, real2, imaginary2, size2, nans2 = b if is_numeric(b) else [*b, 0.0, 0.0, 1.0, 0]
        if shape != shape2 or nans != nans2 or abs(size - size2) > tolerance * max(size, size2):
            return False
        if max(abs(real - real2), abs(imaginary - imaginary2)) > tolerance:
            return False
    return True


def run_case(name, case, workers, options, tolerance):
    """The time of a case in each framework, and what went wrong."""
    checks, problems, samples = {}, {}, {}
    for framework, worker in workers.items():
        if case.builder(framework) is None:
            continue
        try:
            checks[framework] = worker.ask(do="prepare", case=name, warm=options.warm, sample=options.warm / 6)["check"]
            samples[framework] = []
        except (RuntimeError, BrokenPipeError) as error:
            problems[framework] = str(error).strip().splitlines()[-1][:160]
    ours = checks.get("thalweg")
    for framework, check in checks.items():
        if framework != "thalweg" and ours is not None and check is not None and not agree(ours, check, tolerance):
            problems[f"{framework} disagrees"] = f"{str(ours)[:90]} and {str(check)[:90]}"
    if len(samples) > 1 and "thalweg" in samples:
        for _ in range(options.rounds):
            for framework in samples:
                if framework in problems:
                    continue
                try:
                    answer = workers[framework].ask(do="round", seconds=options.warm, cpu_time=options.cpu_time)
                    samples[framework] += answer["samples"]
                except (RuntimeError, BrokenPipeError) as error:
                    problems[framework] = str(error).strip().splitlines()[-1][:160]
    # The lower quartile: other load only ever adds time.
    return {f: statistics.quantiles(s, n=4)[0] if len(s) > 1 else s[0] for f, s in samples.items() if s}, problems


def parse_options():
    """The command line, in the form that run.Worker takes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", metavar="REGEX", default="", help="cases whose name, or module, matches")
    parser.add_argument("--against", nargs="*", choices=list(SHORT), default=list(SHORT))
    parser.add_argument("--peers", type=Path, default=os.environ.get("THALWEG_PEERS"), help="folder of environments")
    parser.add_argument("--pip", nargs="*", default=[], help="arguments for pip, to install the peers", metavar="ARG")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--warm", type=float, default=0.03, help="seconds of warming up, and of each round")
    parser.add_argument("--cpu-time", action="store_true", help="the processor's time: busy machines, one thread")
    parser.add_argument("--records", action="store_true", help="the samples of the op cases instead")
    parser.add_argument("--timeout", type=float, default=30, help="seconds for one order to a worker")
    parser.add_argument("--budget", type=float, help="seconds for the whole run; the rest is left for --resume")
    parser.add_argument("--resume", action="store_true", help="go on with the last run: skip the cases that it has")
    parser.add_argument("--keep", action="store_true", help="write bench/ops.txt")
    parser.add_argument("--all", action="store_true", help="print the winners as well")
    options = parser.parse_args()
    options.quick = False
    cores = sorted(os.sched_getaffinity(0))
    options.cores = cores if options.cpu_time else cores[: options.threads]
    options.frameworks = ("thalweg", *options.against)
    folder = Path(options.peers) if options.peers else None
    options.pythons = {f: peers.python_of(f, folder, options.pip) for f in options.frameworks}
    return options


class Progress:
    """A bar with the number of cases and the time left, on a terminal; elsewhere a line now and then."""

    def __init__(self, total):
        """Starts the clock."""
        self.total, self.started, self.printed = total, time.monotonic(), 0.0

    def show(self, done, name):
        """Cases before this one are done."""
        now = time.monotonic()
        is_terminal = sys.stderr.isatty()
        if now - self.printed < (0.2 if is_terminal else 30):
            return
        self.printed = now
        left = (now - self.started) / max(1, done) * (self.total - done)
        bar = "#" * (30 * done // max(1, self.total))
        text = f"[{bar:<30}] {done}/{self.total} {left / 60:.0f} min left, {name}"
        print(
            f"\r{text[:118]:<118}" if is_terminal else text,
            end="" if is_terminal else "\n",
            file=sys.stderr,
            flush=True,
        )


class Workers:
    """A worker for each framework, which are replaced when they die, and after so many cases."""

    CASES = 150  # Memory that frameworks keep of earlier graphs stays bounded.

    def __init__(self, options, package):
        """Starts all of them."""
        self.options, self.package = options, package
        self.running, self.cases = {}, 0
        for framework in options.frameworks:
            self._start(framework)

    def _start(self, framework):
        self.running[framework] = Worker(framework, self.options, self.package, self.options.timeout)

    def replace_dead(self):
        """Starts those again that have ended; returns their frameworks, with the code of each."""
        codes = {f: worker.process.poll() for f, worker in self.running.items() if worker.process.poll() is not None}
        self.cases += 1
        for framework in list(self.running) if self.cases % self.CASES == 0 else codes:
            self.running[framework].close()
            self._start(framework)
        return codes

    def versions(self):
        """The frameworks and their versions."""
        return ", ".join(f"{f} {worker.version}" for f, worker in self.running.items())

    def close(self):
        """Ends them."""
        for worker in self.running.values():
            worker.close()


def main():
    """Runs the sweep."""
    (HERE / "results").mkdir(exist_ok=True)
    options = parse_options()
    write_pictures()
    package = "op_sweep.records" if options.records else "op_sweep"
    if options.records:
        export_records()
    found = (op_records if options.records else op_sweep).all_cases()
    cases = {n: c for n, c in found.items() if re.search(options.only, f"{c.about}: {n}")}
    journal = Journal(HERE / "results" / ("op_records.jsonl" if options.records else "ops.jsonl"), options.resume)
    todo = {name: case for name, case in cases.items() if name not in journal.times}
    workers = Workers(options, package)
    tolerances = op_sweep.tolerances()
    started, loads = time.monotonic(), [os.getloadavg()[0]]
    progress = Progress(len(todo))
    for done, (name, case) in enumerate(todo.items()):
        if options.budget is not None and time.monotonic() - started > options.budget:
            print(f"\nout of time: {len(todo) - done} cases are left for --resume")
            break
        progress.show(done, name)
        tolerance = tolerances.get(name.split("/")[0], 2e-3)
        times, wrong = run_case(name, case, workers.running, options, tolerance)
        wrong |= {f"{f} ended": str(code) for f, code in workers.replace_dead().items()}
        journal.add(name, times, wrong)
        loads.append(os.getloadavg()[0])
    versions = workers.versions()
    workers.close()
    clock = "the processor's time" if options.cpu_time else "elapsed time"
    about = (
        f"{options.threads} thread{'s' * (options.threads > 1)}, {clock}, load of the machine {min(loads):.1f} to "
        f"{max(loads):.1f}; {versions}."
    )
    print(f"\n{len(todo)} cases in {time.monotonic() - started:.0f} s. {about}")
    report(journal, options)
    if options.keep:
        write_kept(journal.ratios(), about)


if __name__ == "__main__":
    sys.exit(main())
