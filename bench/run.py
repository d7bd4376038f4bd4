"""Compares Thalweg with TensorFlow, PyTorch and JAX, side by side in one run: `make bench`.

Every framework has one long-lived worker process. A case is built and warmed up in all of them, their results are
compared, and then short rounds are measured in turn (Thalweg, TensorFlow, PyTorch, JAX, Thalweg, …), so that other load
of the machine meets all alike. Printed are medians over all samples of all rounds, and how many times better
Thalweg is. All samples are kept as JSON in bench/results/.
"""

import argparse
import contextlib
import json
import os
import platform
import select
import statistics
import subprocess
import sys
import time
from pathlib import Path

import peers
from cases import all_cases
from installed_size import installed_sizes
from table import Line, print_header, print_line

HERE = Path(__file__).resolve().parent
FRAMEWORKS = ("thalweg", "before", *peers.PEERS)
# The cases whose best sample, of any framework, is the machine's measured peak of a kind of work.
PEAKS = {"peak": "flops", "bandwidth": "bytes_moved"}


class Worker:
    """A worker process and the line of JSON to and from it.

    Attributes:
        timeout: Seconds to wait for an answer; for any time if None. A worker that takes longer is killed.
    """

    def __init__(self, framework, options, package="cases", timeout=None):
        self.framework = framework
        self.timeout = None  # Importing a framework may take long.
        command = [options.pythons[framework], str(HERE / "worker.py"), framework, str(options.threads)]
        self.log = open(HERE / "results" / f"{framework}.log", "w")  # noqa: SIM115 (closed by close)
        self.process = subprocess.Popen(
            [*command, "quick" if options.quick else "full", package],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=peers.environment_of(framework, options.threads, getattr(options, "before", None)),
            preexec_fn=lambda: os.sched_setaffinity(0, options.cores),
        )
        self.version = self.receive().get("version", "?")
        self.timeout = timeout

    def receive(self):
        """The next answer; raises RuntimeError if the worker reports an error, has died, or is too slow."""
        # There is one line for each order, so nothing waits in the stream's buffer.
        if self.timeout is not None and not select.select([self.process.stdout], [], [], self.timeout)[0]:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"no answer after {self.timeout:g} s")
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"error": f"worker ended with code {self.process.wait()}"}
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def ask(self, **order):
        """Sends an order and waits for its answer."""
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return self.receive()

    def close(self):
        """Ends the worker."""
        with contextlib.suppress(BrokenPipeError):  # It has died.
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()


def run_in_workers(name, case, workers, options):
    """Prepares a case in every worker, then measures rounds in turn; returns samples, failures and the step's work."""
    ready, checks, failures, work = [], {}, {}, {}
    for framework, worker in workers.items():
        if not case.takes_part(framework):
            continue
        try:
            answer = worker.ask(do="prepare", case=name)
            checks[framework], work = answer["check"], work or answer.get("work", {})
            ready.append(framework)
        except (RuntimeError, BrokenPipeError) as error:
            failures[framework] = str(error)
    known = [value for value in checks.values() if value is not None]
    if known and max(known) - min(known) > 1e-3 * max(1e-6, *map(abs, known)):
        failures["results"] = f"the frameworks disagree: {checks}"
    samples = {framework: [] for framework in ready}
    for _ in range(min(options.rounds, 5) if case.self_measured else options.rounds):
        for framework in ready:
            if framework in failures:
                continue
            try:
                samples[framework] += workers[framework].ask(do="round", seconds=options.seconds)["samples"]
            except (RuntimeError, BrokenPipeError) as error:
                failures[framework] = str(error)
            time.sleep(0.02)  # Threads that spin after their work come to rest.
    if case.ends_workers:
        for framework in tuple(workers):
            workers[framework].close()
            workers[framework] = Worker(framework, options)
    return samples, failures, work


def run_in_new_processes(name, case, options):
    """Measures a case once per process and round, in turn; the first round only warms the page cache."""
    samples, failures = {}, {}
    for round_number in range(options.rounds + 1):
        for framework in options.frameworks:
            if framework in failures or not case.takes_part(framework):
                continue
            try:
                value = run_program(framework, case, options) if case.programs else run_once(framework, name, options)
            except RuntimeError as error:
                failures[framework] = str(error)
                continue
            if round_number:
                samples.setdefault(framework, []).append(value)
    return samples, failures


def run_program(framework, case, options):
    """The seconds that a statement takes in a new process."""
    program = case.program(framework)
    code = f"import time; t = time.perf_counter(); {program}; print('\\n', time.perf_counter() - t)"
    environment = peers.environment_of(framework, options.threads, options.before)
    # An installed package has its bytecode; a checkout must be allowed to keep it, too.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run([options.pythons[framework], "-c", code], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return float(done.stdout.split()[-1])


def run_once(framework, name, options):
    """One round of a case in a worker of its own."""
    worker = Worker(framework, options)
    try:
        worker.ask(do="prepare", case=name)
        return worker.ask(do="round", seconds=0)["samples"][0]
    finally:
        worker.close()


def start_workers(options):
    """Starts one worker per framework; those that do not start are reported and left out."""
    workers = {}
    for framework in options.frameworks:
        try:
            workers[framework] = Worker(framework, options)
        except RuntimeError as error:
            print(f"{framework} takes no part: {str(error).strip().splitlines()[-1]}")
    options.frameworks = tuple(workers)
    print("  ".join(f"{framework} {worker.version}" for framework, worker in workers.items()))
    return workers


def parse_options():
    """The command line, and the settings derived from it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="CASE", help=f"of: {', '.join(all_cases())}")
    parser.add_argument("--against", nargs="*", choices=list(peers.PEERS), default=list(peers.PEERS))
    parser.add_argument("--before", type=Path, help="also against another built tree of Thalweg", metavar="FOLDER")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds, a smaller large graph")
    parser.add_argument("--size", action="store_true", help="also measure the installed size (builds the wheel)")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--peers", type=Path, default=os.environ.get("THALWEG_PEERS"), help="folder of environments")
    parser.add_argument("--pip", nargs="*", default=[], help="arguments for pip, to install the peers", metavar="ARG")
    options = parser.parse_args()
    options.rounds, options.seconds = (3, 0.1) if options.quick else (9, 0.4)
    options.cores = sorted(os.sched_getaffinity(0))[: options.threads]
    options.frameworks = tuple(
        f for f in FRAMEWORKS if f == "thalweg" or f in options.against or (f == "before" and options.before)
    )
    unknown = set(options.only or ()) - set(all_cases())
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(all_cases())}")
    options.pythons = {}
    for framework in options.frameworks:
        try:
            folder = Path(options.peers) if options.peers else None
            options.pythons[framework] = peers.python_of(framework, folder, options.pip)
        except RuntimeError as error:
            print(f"{framework} takes no part: {error}")
    options.frameworks = tuple(options.pythons)
    return options


def main():
    """Runs the cases, prints the table, keeps the samples."""
    (HERE / "results").mkdir(exist_ok=True)
    options = parse_options()
    workers = start_workers(options)
    cases = {name: case for name, case in all_cases().items() if not options.only or name in (*PEAKS, *options.only)}
    print(
        f"{options.threads} threads, {options.rounds} rounds in turn, medians; × is how many times better Thalweg is\n"
    )
    print_header(options.frameworks)
    record = {
        "machine": platform.processor() or platform.machine(),
        "threads": options.threads,
        "cases": {},
        "peaks": {},
    }
    missed = False
    for name, case in cases.items():
        if case.programs or case.fresh_process:
            samples, failures, work = *run_in_new_processes(name, case, options), {}
        else:
            samples, failures, work = run_in_workers(name, case, workers, options)
        medians = {f: statistics.median(values) for f, values in samples.items() if values}
        line = Line(name, case, medians, failures, work)
        if work and name in PEAKS and medians:
            kind = PEAKS[name]
            record["peaks"][kind] = work[kind] / min(min(values) for values in samples.values() if values)
        missed |= print_line(line, options.frameworks, record["peaks"])
        record["cases"][name] = {"samples": samples, "failures": failures}
    record["versions"] = {framework: worker.version for framework, worker in workers.items()}
    for worker in workers.values():
        worker.close()
    if options.size:
        record["installed_bytes"] = installed_sizes(options.pythons)
    path = HERE / "results" / time.strftime("%Y%m%d-%H%M%S.json")
    path.write_text(json.dumps(record, indent=1))
    print(f"\nAll samples: {path.relative_to(HERE.parent)}")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
