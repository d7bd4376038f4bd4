"""A profile as text: tables, memory over time, and the critical path."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

from thalweg.profiler.step_kinds import StepKind
from thalweg.profiler.tables import Peak, Profile, Row, median_run, total_seconds

_BARS: Final = " ▁▂▃▄▅▆▇█"
_COLUMNS: Final = 60
_MINOR_ROWS: Final = 5  # of tables of initialization and saving, beside those of steady steps


def report(profile: Profile, top: int = 20) -> str:
    """Returns the whole profile.

    Args:
        profile: The profile.
        top: How many rows of each table to show.
    """
    if not any(step.runs for step in profile.steps.values()):
        return _summary(profile) if profile.count else "The program ran no step.\n"
    sections = [_summary(profile)]
    kinds = profile.kinds()
    for kind in kinds:
        rows = top if kind is kinds[0] else min(top, _MINOR_ROWS)
        if len(kinds) > 1:
            sections.append(f"== {kind.value} ==\n")
        sections.append(_table("Op type", profile.by_op(kind), rows))
        sections.append(_table("Node", profile.by_node(kind), rows))
        sections.append(_table("Line of the program", profile.by_line(kind), rows, backward=True))
        if kind is kinds[0]:
            sections.append(_critical_path(profile, top))
    sections += [_memory(peak, top) for peak in profile.peaks()]
    return "\n".join(sections)


def _summary(profile: Profile) -> str:
    lines = [f"{profile.count} steps took {seconds(profile.seconds)}"]
    if profile.elapsed:
        lines[0] += f" of the program's {seconds(profile.elapsed)} ({_percent(profile.seconds, profile.elapsed)})"
    lines[0] += "."
    steps = [step for step in profile.steps.values() if step.runs]
    if profile.count:
        lines.append(f"{profile.traced} of {profile.count} steps were traced{_not_traced(profile)}.")
    if steps:
        lines.append("Without the first run of what ran again:")
    order = list(StepKind)
    for step in sorted(steps, key=lambda step: (order.index(step.kind), -sum(step.seconds))):
        runs = f"{len(step.runs)} run{'s' if len(step.runs) > 1 else ''}"
        kind = "" if step.kind is StepKind.STEADY else f"  ({step.kind.value.lower()})"
        lines.append(f"  {seconds(statistics.median(step.seconds)):>9} (median of {runs})  {step.name}{kind}")
    return "\n".join(lines) + "\n"


def _not_traced(profile: Profile) -> str:
    """The fetches of steps without a trace, those that ran most often first."""
    if not profile.untraced:
        return ""
    ordered = sorted(profile.untraced.items(), key=lambda item: -item[1])
    listed = "; ".join(f"{name} ({count} times)" for name, count in ordered[:3])
    more = f"; and {len(ordered) - 3} others" if len(ordered) > 3 else ""
    return f", not these: {listed}{more}"


def _table(title: str, rows: Sequence[Row], top: int, backward: bool = False) -> str:
    total = total_seconds(rows)
    shown = [row for row in rows[:top] if row.seconds or row.waited]
    width = min(72, max([len(title), *(len(row.key) for row in shown)], default=0))
    backward = backward and any(row.backward for row in rows)
    halves = f" {'forward':>9} {'backward':>9}" if backward else ""
    lines = [f"{title:<{width}} {'time':>9} {'share':>6}{halves} {'calls':>7} {'bytes':>9} {'GFLOP/s':>8}"]
    for row in shown:
        key = row.key if len(row.key) <= width else "…" + row.key[len(row.key) - width + 1 :]
        speed = f"{row.flops / row.seconds / 1e9:.1f}" if row.flops and row.seconds else ""
        waited = f"  waited {seconds(row.waited)}" if row.waited else ""
        fused = "" if not row.fused or backward else "(fused)" if row.fused == row.calls else "(partly fused)"
        about = "".join(f"  {text}" for text in (row.about, fused) if text)
        if backward:
            halves = f" {seconds(row.seconds - row.backward):>9} {seconds(row.backward):>9}"
        lines.append(
            f"{key:<{width}} {seconds(row.seconds):>9} {_percent(row.seconds, total):>6}{halves} {row.calls:>7} "
            f"{size(row.bytes):>9} {speed:>8}{about}{waited}".rstrip()
        )
    if len(rows) > len(shown):
        rest = total - sum(row.seconds for row in shown)
        lines.append(f"{f'{len(rows) - len(shown)} more':<{width}} {seconds(rest):>9} {_percent(rest, total):>6}")
    return "\n".join(lines) + "\n"


def _critical_path(profile: Profile, top: int) -> str:
    step = profile.longest_step()
    chain = profile.critical_path(step)
    if step is None or not chain:
        return ""
    records = median_run(step)
    whole = (max(record.end for record in records) - min(record.start for record in records)) / 1e9
    length = sum(link.seconds for link in chain)
    lines = [
        f"Critical path of {step.name}: {len(chain)} of {len(records)} runs of nodes, {seconds(length)}, "
        f"{_percent(length, whole)} of the step's {seconds(whole)}"
    ]
    longest = sorted(chain, key=lambda link: -link.seconds)[:top]
    shown = {id(link) for link in longest}
    devices = len({record.device for record in records}) > 1
    left = 0
    for link in chain:
        if id(link) not in shown:
            left += 1
            continue
        if left:
            lines.append(f"  {'':>9} {'':>6} … {left} shorter")
            left = 0
        where = f"  on {link.record.device.rpartition('/')[2]}" if devices else ""
        lines.append(
            f"  {seconds(link.seconds):>9} {_percent(link.seconds, length):>6} {link.record.node}  "
            f"{link.record.op}{where}"
        )
    if left:
        lines.append(f"  {'':>9} {'':>6} … {left} shorter")
    return "\n".join(lines) + "\n"


def _memory(peak: Peak, top: int) -> str:
    lines = [
        f"Memory of {peak.device.rpartition('/')[2]} in {peak.step}: at most {size(peak.bytes)}, "
        f"{seconds(peak.seconds)} after its start",
        f"  {graph_line(peak.over_time)}",
    ]
    for alive in peak.alive[:top]:
        lines.append(f"  {size(alive.bytes):>9} {alive.node}" + (f":{alive.slot}" if alive.slot else ""))
    rest = sum(alive.bytes for alive in peak.alive[top:])
    if rest:
        lines.append(f"  {size(rest):>9} in {len(peak.alive) - top} smaller tensors")
    other = peak.bytes - sum(alive.bytes for alive in peak.alive)
    if other > 0:
        lines.append(f"  {size(other):>9} in variables, feeds and what else no node of the step made")
    return "\n".join(lines) + "\n"


def graph_line(track: Sequence[tuple[float, int]], columns: int = _COLUMNS) -> str:
    """Values over time as a line of bars: the largest of each part of the time; gaps keep what was before."""
    if not track:
        return ""
    begin, end = track[0][0], track[-1][0]
    span = (end - begin) or 1.0
    cells: list[int | None] = [None] * columns
    for time, value in track:
        at = min(columns - 1, int((time - begin) / span * columns))
        cells[at] = max(value, cells[at] or 0)
    most = max(value for _, value in track) or 1
    text, last = "", 0
    for cell in cells:
        last = last if cell is None else cell
        text += _BARS[round(last / most * (len(_BARS) - 1))]
    return text


def seconds(value: float) -> str:
    """A time with a fitting unit.

    Example:
        >>> seconds(0.00123)
        '1.23 ms'
    """
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if abs(value) * factor >= 1 or unit == "us":
            return f"{value * factor:.3g} {unit}" if abs(value) * factor < 1000 else f"{value * factor:.0f} {unit}"
    return ""


def size(value: float) -> str:
    """Bytes with a fitting unit.

    Example:
        >>> size(1536)
        '1.54 kB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 1000 or unit == "GB":
            return f"{value:.3g} {unit}"
        value /= 1000
    return ""


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f}%" if whole > 0 else ""
