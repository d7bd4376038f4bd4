"""Results of bench/ops.py: those of the run that is under way, line by line, and the ratios kept in bench/ops.txt."""

import datetime
import json
import os
import platform
import statistics
from pathlib import Path

from table import quantity

HERE = Path(__file__).resolve().parent
KEPT = HERE / "ops.txt"
SHORT = {"tensorflow": "tf", "torch": "torch"}


class Journal:
    """The results of a run, written down after each case, so that an interrupted run can go on.

    Attributes:
        times: By case, the seconds of each framework.
        problems: By case, what went wrong.
    """

    def __init__(self, path, resume):
        """Reads what an earlier run has written, or begins a new file."""
        self.times, self.problems = {}, {}
        self.path = path
        if resume and path.exists():
            for line in path.read_text().splitlines():
                entry = json.loads(line)
                self._take(entry["case"], entry["times"], entry["problems"])
        elif path.exists():
            path.unlink()

    def _take(self, name, times, problems):
        self.times[name] = times
        if problems:
            self.problems[name] = problems

    def add(self, name, times, problems):
        """Writes the results of a case down."""
        self._take(name, times, problems)
        with self.path.open("a") as file:
            file.write(json.dumps({"case": name, "times": times, "problems": problems}) + "\n")

    def ratios(self):
        """By case, the times of the other frameworks divided by Thalweg's."""
        return {
            name: {f: t / times["thalweg"] for f, t in times.items() if f != "thalweg"}
            for name, times in self.times.items()
            if "thalweg" in times
        }


def read_kept():
    """The ratios of earlier runs, by name and peer."""
    kept = {}
    for line in KEPT.read_text().splitlines() if KEPT.exists() else ():
        if line and not line.startswith("#"):
            name, *ratios = (part.strip() for part in line.split("|"))
            kept[name] = {r.split()[0]: float(r.split()[1]) for r in ratios if r}
    return kept


def processor():
    """The processor's name."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def write_kept(ratios, about):
    """Keeps the ratios of a run, losers first; cases that it left out keep theirs.

    Args:
        ratios: By case and framework.
        about: A line about the run: threads, clock, versions, load.
    """
    kept = read_kept()
    for name, found in ratios.items():
        kept[name] = {SHORT[f]: float(f"{r:.2g}") for f, r in found.items()}
    kept = {name: found for name, found in kept.items() if found}
    lines = [
        "# Peer's time / Thalweg's, of the last run of bench/ops.py: below 1 Thalweg is slower. Losers first.",
        f"# {datetime.date.today()}: {processor()}, {os.cpu_count()} cores. {about}",
    ]
    for peer in SHORT.values():
        found = [ratios[peer] for ratios in kept.values() if peer in ratios]
        if found:
            lines.append(f"# {peer}: {summary(found)}")
    for name in sorted(kept, key=lambda name: (min(kept[name].values()), name)):
        lines.append(" | ".join([f"{name:<60}", *(f"{peer} {ratio:g}" for peer, ratio in kept[name].items())]))
    KEPT.write_text("\n".join(lines) + "\n")


def summary(ratios):
    """How many comparisons were won and lost."""
    lost = sum(r < 1 for r in ratios)
    return (
        f"{len(ratios) - lost} won, {lost} lost ({sum(r < 0.9 for r in ratios)} below .9, "
        f"{sum(r < 0.5 for r in ratios)} below .5), median {statistics.median(ratios):.2f}"
    )


def report(journal, options):
    """Losers first, then what is worse than at the last run, then problems and counts."""
    before, results = read_kept(), journal.ratios()
    flat = sorted((ratio, name, f) for name, ratios in results.items() for f, ratio in ratios.items())
    losers = [row for row in flat if row[0] < 1]
    print(f"\n{len(losers)} of {len(flat)} comparisons lost; peer's time / Thalweg's, Thalweg's time:")
    for ratio, name, framework in flat if options.all else losers:
        print(f"  {ratio:6.2f} {SHORT[framework]:<6}{name:<58}{quantity(journal.times[name]['thalweg'], 's'):>10}")
    worse = []
    for ratio, name, framework in flat:
        last = before.get(name, {}).get(SHORT[framework])
        if last is not None and ratio < last / 1.5:
            worse.append(f"  {name:<58}{SHORT[framework]:<6}{last:.2f} -> {ratio:.2f}")
    print(f"\n{len(worse)} worse than at the last run by more than half:", *worse, sep="\n")
    print(f"\n{len(journal.problems)} cases with problems:")
    for name, what in journal.problems.items():
        print(f"  {name}: {what}")
    for framework in options.against:
        ratios = [found[framework] for found in results.values() if framework in found]
        if ratios:
            print(f"{framework}: {summary(ratios)}")
    return bool(losers)
