"""Compiled chains and loops beside `jax.jit`: `python bench/compiled.py --peers FOLDER`, losers first.

The programs of `compiled_programs/` run in one process per framework, in short rounds in turn, and the values of all
results are compared. TensorFlow runs the same graphs with `--against jax tensorflow`. Printed are medians, and their
ratios: below 1 Thalweg is slower.
"""

import argparse
import os
import re
import statistics
from pathlib import Path

import compiled_programs
import peers
from ops import agree
from run import HERE, Worker
from table import quantity

TOLERANCE = 2e-3


def parse_options():
    """The command line, in the form that run.Worker takes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", metavar="REGEX", default="", help="programs whose name, or module, matches")
    parser.add_argument("--against", nargs="*", choices=["jax", "tensorflow", "before"], default=["jax"])
    parser.add_argument("--before", type=Path, help="another built tree of Thalweg")
    parser.add_argument("--peers", type=Path, default=os.environ.get("THALWEG_PEERS"), help="folder of environments")
    parser.add_argument("--pip", nargs="*", default=[], help="arguments for pip, to install the peers", metavar="ARG")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.05, help="of each round")
    options = parser.parse_args()
    options.quick = False
    options.cores = sorted(os.sched_getaffinity(0))[: options.threads]
    options.against += ["before"] if options.before and "before" not in options.against else []
    folder = Path(options.peers) if options.peers else None
    options.pythons = {f: peers.python_of(f, folder, options.pip) for f in ("thalweg", *options.against)}
    return options


def measure(name, workers, options):
    """The median time of a program in each framework, and what went wrong."""
    checks, wrong = {}, {}
    for framework, worker in workers.items():
        try:
            checks[framework] = worker.ask(do="prepare", case=name, warm=2 * options.seconds, sample=0.01)["check"]
        except (RuntimeError, BrokenPipeError) as error:
            wrong[framework] = str(error).strip().splitlines()[-1][:160]
    for framework, check in checks.items():
        if "thalweg" in checks and not agree(checks["thalweg"], check, TOLERANCE):
            wrong[f"{framework} disagrees"] = f"{str(checks['thalweg'])[:90]} and {str(check)[:90]}"
    samples = {framework: [] for framework in checks}
    for _ in range(options.rounds):
        for framework in checks:
            samples[framework] += workers[framework].ask(do="round", seconds=options.seconds)["samples"]
    return {framework: statistics.median(found) for framework, found in samples.items()}, wrong


def main():
    """Measures all programs and prints them, losers first."""
    (HERE / "results").mkdir(exist_ok=True)
    options = parse_options()
    cases = {n: c for n, c in compiled_programs.all_cases().items() if re.search(options.only, f"{c.about}: {n}")}
    workers = {f: Worker(f, options, "compiled_programs") for f in options.pythons}
    rows, problems = [], {}
    for name in cases:
        times, wrong = measure(name, workers, options)
        if wrong:
            problems[name] = wrong
        if "thalweg" in times:
            ratios = {f: times[f] / times["thalweg"] for f in options.against if f in times}
            rows.append((min(ratios.values(), default=0), name, times["thalweg"], ratios))
    for worker in workers.values():
        worker.close()
    for _, name, time, ratios in sorted(rows):
        columns = "  ".join(f"{f} {ratio:6.2f}" for f, ratio in ratios.items())
        print(f"{name:<36}{quantity(time, 's'):>10}  {columns}")
    for framework in options.against:
        found = [ratios[framework] for *_, ratios in rows if framework in ratios]
        if not found:
            continue
        lost = sum(ratio < 1 for ratio in found)
        print(f"{framework}: {len(found) - lost} won, {lost} lost, median {statistics.median(found):.2f}")
    for name, wrong in problems.items():
        print(f"{name}: {wrong}")


if __name__ == "__main__":
    main()
