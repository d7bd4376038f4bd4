"""Single ops beside TensorFlow and PyTorch: `python bench/ops.py --peers FOLDER`, losers first.

Every op of `op_sweep/` runs at several sizes and types in one process per framework, in short rounds in turn, and the
results of all are compared. `bench/ops.txt` keeps the last ratio of each case under version control: a case that became
slower, relative to the same peer, is listed as worse. `--records` runs the samples of the tests' op cases instead, one
node each, so that every op of the registry that can stand alone is run at least at a small size.
"""

import argparse
import contextlib
import os
import re
import statistics
import sys
import time
from pathlib import Path

import op_sweep
import peers
from op_sweep import records as op_records
from op_sweep.networks import write_pictures
from op_sweep.records import export_records
from run import HERE, Worker
from table import quantity

KEPT = HERE / "ops.txt"
SHORT = {"tensorflow": "tf", "torch": "torch"}


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
                answer = workers[framework].ask(do="round", seconds=options.warm, cpu_time=options.cpu_time)
                samples[framework] += answer["samples"]
    # The lower quartile: other load only ever adds time.
    return {f: statistics.quantiles(s, n=4)[0] if len(s) > 1 else s[0] for f, s in samples.items() if s}, problems


def read_kept():
    """The lines of the last run, by name."""
    kept = {}
    for line in KEPT.read_text().splitlines() if KEPT.exists() else ():
        if line and not line.startswith("#"):
            name, *ratios = (part.strip() for part in line.split("|"))
            kept[name] = {r.split()[0]: float(r.split()[1]) for r in ratios if r}
    return kept


def write_kept(results):
    """Keeps the ratios of this run; cases that it left out keep theirs."""
    kept = read_kept()
    for name, ratios in results.items():
        kept[name] = {SHORT[f]: float(f"{r:.2g}") for f, r in ratios.items()}
    lines = ["# Peer's time / Thalweg's, of the last run of bench/ops.py: below 1 Thalweg is slower."]
    for name in sorted(kept):
        lines.append(" | ".join([f"{name:<60}", *(f"{peer} {ratio:g}" for peer, ratio in kept[name].items())]))
    KEPT.write_text("\n".join(lines) + "\n")


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


def report(results, times, problems, options):
    """Losers first, then what is worse than at the last run, then the counts."""
    before = read_kept()
    flat = sorted((ratio, name, f) for name, ratios in results.items() for f, ratio in ratios.items())
    losers = [row for row in flat if row[0] < 1]
    print(f"\n{len(losers)} of {len(flat)} comparisons lost; peer's time / Thalweg's, Thalweg's time:")
    for ratio, name, framework in flat if options.all else losers:
        print(f"  {ratio:6.2f} {SHORT[framework]:<6}{name:<58}{quantity(times[name]['thalweg'], 's'):>10}")
    worse = []
    for ratio, name, framework in flat:
        last = before.get(name, {}).get(SHORT[framework])
        if last is not None and ratio < last / 1.5:
            worse.append(f"  {name:<58}{SHORT[framework]:<6}{last:.2f} -> {ratio:.2f}")
    print(f"\n{len(worse)} worse than at the last run by more than half:", *worse, sep="\n")
    print(f"\n{len(problems)} cases with problems:")
    for name, what in problems.items():
        print(f"  {name}: {what}")
    for framework in options.against:
        ratios = [r for _, r in ((n, results[n].get(framework)) for n in results) if r]
        if ratios:
            lost = sum(r < 1 for r in ratios)
            print(f"{framework}: {len(ratios) - lost} won, {lost} lost ({sum(r < 0.9 for r in ratios)} below .9), "
                  f"median {statistics.median(ratios):.2f}")  # fmt: skip
    return bool(losers)


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
    workers = {f: Worker(f, options, package) for f in options.frameworks}
    tolerances = op_sweep.tolerances()
    results, times, problems = {}, {}, {}
    started = time.time()
    log = open(HERE / "results" / "ops.log", "w")  # noqa: SIM115 (closed at the end): results so far, for long runs
    for name, case in cases.items():
        try:
            times[name], wrong = run_case(name, case, workers, options, tolerances.get(name.split("/")[0], 2e-3))
        except (RuntimeError, BrokenPipeError) as error:
            times[name], wrong = {}, {"run": str(error).strip().splitlines()[-1]}
        for framework, worker in list(workers.items()):
            if worker.process.poll() is not None:  # It died of the case.
                wrong[f"{framework} died"] = str(worker.process.returncode)
                with contextlib.suppress(BrokenPipeError):
                    worker.close()
                workers[framework] = Worker(framework, options, package)
        if wrong:
            problems[name] = wrong
        if "thalweg" in times[name]:
            results[name] = {f: t / times[name]["thalweg"] for f, t in times[name].items() if f != "thalweg"}
        print(name, results.get(name, {}), wrong or "", file=log, flush=True)
    log.close()
    for worker in workers.values():
        worker.close()
    print(f"{len(cases)} cases in {time.time() - started:.0f} s")
    report(results, times, problems, options)
    if options.keep:
        write_kept(results)


if __name__ == "__main__":
    sys.exit(main())
