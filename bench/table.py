"""Prints the benchmark's table: a line per case with each framework's median, the ratios, and the verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from case import Case

NAME, VALUE, RATIO = 19, 15, 8
UNITS = {"flops": "GFLOP/s", "bytes_moved": "GB/s"}
SHORT = {"tensorflow": "tf", "torch_compiled": "torch.c"}


@dataclass(frozen=True)
class Line:
    """A finished case: medians and failures by framework."""

    name: str
    case: Case
    medians: Mapping[str, float]
    failures: Mapping[str, str]
    work: Mapping[str, float] = field(default_factory=dict)  # of one step: flops, bytes_moved

    def ratio(self, framework: str) -> float | None:
        """How many times better Thalweg is than a framework (all units are better when smaller)."""
        if "thalweg" not in self.medians or framework not in self.medians:
            return None
        return self.medians[framework] / max(self.medians["thalweg"], 1e-12)


def quantity(value: float | None, unit: str) -> str:
    """A value with the prefix that suits it."""
    if value is None:
        return "-"
    if unit == "%":
        return f"{value * 100:.1f} %"
    if unit == "B":
        return f"{value / 1e6:.0f} MB"
    for factor, name in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if value * factor >= 1 or name == "µs":
            return f"{value * factor:.3g} {name}" if value * factor < 1000 else f"{value * factor:.0f} {name}"
    raise AssertionError("unreachable")


def verdict(line: Line) -> tuple[str, bool]:
    """The targets and whether each is met; and whether one is missed."""
    words, missed = [], False
    for framework, target in line.case.targets.items():
        if framework not in line.medians:
            words.append(f"not compared ≥{target:g}× {framework}")
            continue
        ratio = line.ratio(framework)
        met = ratio is not None and ratio >= target
        missed |= not met
        words.append(f"{'ok' if met else 'MISSED'} ≥{target:g}× {framework}")
    if line.case.at_most is not None:
        met = line.medians.get("thalweg", float("inf")) <= line.case.at_most
        missed |= not met
        words.append(f"{'ok' if met else 'MISSED'} ≤{quantity(line.case.at_most, line.case.unit)}")
    return ", ".join(words), missed


def print_header(frameworks: Sequence[str]) -> None:
    """The table's first line."""
    values = "".join(f"{framework:>{VALUE}}" for framework in frameworks)
    ratios = "".join(
        f"{'×' + SHORT.get(framework, framework):>{RATIO}}" for framework in frameworks if framework != "thalweg"
    )
    print(f"{'case':<{NAME}}{values}{ratios}  target", flush=True)


def speed(line: Line, peaks: Mapping[str, float]) -> str:
    """Thalweg's GFLOP/s or GB/s, and the fraction of the machine's measured peak."""
    words = ""
    for kind, amount in line.work.items() if "thalweg" in line.medians else ():
        reached = amount / line.medians["thalweg"]
        words += f"{reached / 1e9:.3g} {UNITS[kind]}"
        words += f" ({reached / peaks[kind]:.0%} of the peak)  " if kind in peaks else "  "
    return words


def print_line(line: Line, frameworks: Sequence[str], peaks: Mapping[str, float]) -> bool:
    """Prints a case's line and its failures; returns whether a target is missed."""
    values = "".join(f"{quantity(line.medians.get(f), line.case.unit):>{VALUE}}" for f in frameworks)
    ratios = ""
    for framework in frameworks:
        if framework != "thalweg":
            ratio = line.ratio(framework)
            ratios += f"{'-' if ratio is None else f'{ratio:.3g}':>{RATIO}}"
    words, missed = verdict(line)
    print(f"{line.name:<{NAME}}{values}{ratios}  {speed(line, peaks)}{words}", flush=True)
    for who, what in line.failures.items():
        print(f"{'':<{NAME}}{who}: {what.strip().splitlines()[-1]}", flush=True)
    return missed
