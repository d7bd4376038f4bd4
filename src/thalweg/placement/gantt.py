"""Draws a schedule: one row per device, a bar per node in the colour of its op type, the critical path outlined.

Nodes that run as one have the colour of the op type that does most of their work, and are marked "(fused)".

The drawing is an SVG file without scripts, fonts or anything else from outside: browsers show it, and the name, type
and times of a node when the pointer rests on its bar. Bars too short to see are drawn as one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from thalweg.placement.simulator import Schedule
from thalweg.placement.tasks import Tasks

_COLOURS: Final = (
    "#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#ff9da7", "#9c755f", "#86bc86",
    "#d37295", "#a0cbe8",
)  # fmt: skip
_OTHERS: Final = "#bab0ac"
_WIDTH: Final = 1200
_LEFT: Final = 130
_ROW: Final = 46
_BAR: Final = 32
_TOP: Final = 64
_SHORTEST: Final = 0.6  # pixels
_STYLE: Final = (
    "text{font:12px sans-serif;fill:#333}.title{font-size:15px;font-weight:bold}.small{font-size:11px;fill:#666}"
    ".tick{stroke:#ddd}.row{fill:#f6f6f6}.critical{stroke:#111;stroke-width:1.6}"
    ".path{fill:none;stroke:#111;stroke-width:1.2;stroke-dasharray:4 3;opacity:.7}"
)


class _Bar(NamedTuple):
    start: float
    end: float
    op: str  # empty: several
    title: str
    critical: bool


def draw(tasks: Tasks, schedule: Schedule, title: str = "") -> str:
    """Returns the schedule as the text of an SVG file.

    Args:
        tasks: The step.
        schedule: What `simulate` has made of it.
        title: Stands above the drawing.
    """
    processors = tasks.machine.processors
    span = schedule.makespan or 1.0
    scale = (_WIDTH - _LEFT - 30) / span
    labels = _labels(tasks, schedule)
    colours = _colours(labels, schedule)
    legend_rows = math.ceil((len(colours) + 2) / 6)
    bottom = _TOP + _ROW * len(processors)
    height = bottom + 46 + 20 * legend_rows
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        f'<text class="title" x="16" y="26">{escape(title or "Schedule")}</text>',
        f'<text class="small" x="16" y="44">{escape(_summary(tasks, schedule))}</text>',
    ]
    for device, processor in enumerate(processors):
        y = _TOP + device * _ROW
        share = schedule.busy[device] / span
        name = processor.name.rpartition("/device:")[2] or processor.name
        parts.append(f'<rect class="row" x="{_LEFT}" y="{y}" width="{_WIDTH - _LEFT - 30}" height="{_BAR}"/>')
        parts.append(f'<text x="16" y="{y + 14}">{escape(name)}<title>{escape(processor.name)}</title></text>')
        parts.append(f'<text class="small" x="16" y="{y + 28}">busy {share:.0%}</text>')
    parts.extend(_axis(span, scale, bottom))
    for device in range(len(processors)):
        y = _TOP + device * _ROW
        for bar in _bars(labels, schedule, device, _SHORTEST / scale):
            width = max((bar.end - bar.start) * scale, _SHORTEST)
            colour = colours.get(bar.op, _OTHERS)
            outline = ' class="critical"' if bar.critical else ""
            parts.append(
                f'<rect x="{_LEFT + bar.start * scale:.2f}" y="{y}" width="{width:.2f}" height="{_BAR}" '
                f'fill="{colour}"{outline}><title>{escape(bar.title)}</title></rect>'
            )
    parts.append(_path(schedule, scale))
    parts.extend(_legend(colours, bottom + 46))
    parts.append("</svg>")
    return "\n".join(part for part in parts if part) + "\n"


def _summary(tasks: Tasks, schedule: Schedule) -> str:
    return (
        f"{seconds_text(schedule.makespan)} a step, {len(tasks.nodes)} nodes, {schedule.transfers} transfers of "
        f"{bytes_text(schedule.moved)} in all, at most {bytes_text(max(schedule.peak, default=0.0))} on a device"
    )


class _Label(NamedTuple):
    """What stands for a node: the op type that gives its bar the colour, and its description."""

    op: str
    text: str


def _labels(tasks: Tasks, schedule: Schedule) -> list[_Label]:
    """The labels of all nodes. The time of nodes that run as one is the last one's: see `Tasks.fused`."""
    found = [_Label(node.op, f"{node.name}\n{node.op}") for node in tasks.nodes]
    for fusion in tasks.fused:
        here = fusion.together(schedule.where)
        if len(here) < 2:
            continue
        device = schedule.where[here[-1]]
        op = tasks.nodes[max(here, key=lambda node: tasks.shares[node][device])].op
        names = " + ".join(tasks.nodes[node].name for node in here)
        ops = " + ".join(tasks.nodes[node].op for node in here)
        found[here[-1]] = _Label(op, f"{names}\n{ops} (fused)")
    return found


def _colours(labels: Sequence[_Label], schedule: Schedule) -> dict[str, str]:
    """Colours for the op types that take the most time."""
    times: Counter[str] = Counter()
    for i, label in enumerate(labels):
        times[label.op] += schedule.finish[i] - schedule.start[i]  # type: ignore[assignment]
    leading = [op for op, time in times.most_common(len(_COLOURS)) if time > 0]
    return dict(zip(leading, _COLOURS, strict=False))


def _bars(labels: Sequence[_Label], schedule: Schedule, device: int, shortest: float) -> Iterator[_Bar]:
    """The bars of one device in order; runs of short ones that touch become one."""
    critical = set(schedule.critical)
    on_device = [i for i, where in enumerate(schedule.where) if where == device]
    on_device.sort(key=lambda i: (schedule.start[i], schedule.finish[i]))
    crowd: list[int] = []

    def crowded() -> Iterator[_Bar]:
        if not crowd:
            return
        start, end = schedule.start[crowd[0]], schedule.finish[crowd[-1]]
        if end > start:
            if len(crowd) == 1:
                yield _single(labels, schedule, crowd[0], critical)
            else:
                ops = Counter(labels[i].op for i in crowd)
                listed = ", ".join(f"{count} {op}" for op, count in ops.most_common(4))
                title = f"{len(crowd)} short nodes: {listed}\n{seconds_text(start)} + {seconds_text(end - start)}"
                yield _Bar(start, end, "", title, all(i in critical for i in crowd))
        crowd.clear()

    for i in on_device:
        length = schedule.finish[i] - schedule.start[i]
        if length >= shortest:
            yield from crowded()
            yield _single(labels, schedule, i, critical)
            continue
        if crowd and (
            schedule.start[i] - schedule.finish[crowd[-1]] > shortest
            or schedule.finish[i] - schedule.start[crowd[0]] > 6 * shortest
        ):
            yield from crowded()
        crowd.append(i)
    yield from crowded()


def _single(labels: Sequence[_Label], schedule: Schedule, i: int, critical: set[int]) -> _Bar:
    label, start, end = labels[i], schedule.start[i], schedule.finish[i]
    title = f"{label.text}\n{seconds_text(start)} + {seconds_text(end - start)}"
    if i in critical:
        title += "\non the critical path"
    return _Bar(start, end, label.op, title, i in critical)


def _axis(span: float, scale: float, bottom: int) -> Iterator[str]:
    step = 10 ** math.floor(math.log10(span / 5)) if span > 0 else 1.0
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 10)
    for i in range(int(span / step) + 1):
        x = _LEFT + i * step * scale
        yield f'<line class="tick" x1="{x:.1f}" y1="{_TOP - 6}" x2="{x:.1f}" y2="{bottom - 8}"/>'
        yield f'<text class="small" x="{x:.1f}" y="{bottom + 8}" text-anchor="middle">{seconds_text(i * step)}</text>'


def _path(schedule: Schedule, scale: float) -> str:
    """A dashed line from bar to bar where the critical path changes devices."""
    lines = []
    for before, after in zip(schedule.critical, schedule.critical[1:], strict=False):
        if schedule.where[before] != schedule.where[after]:
            x1, x2 = (_LEFT + time * scale for time in (schedule.finish[before], schedule.start[after]))
            y1, y2 = (_TOP + schedule.where[node] * _ROW + _BAR / 2 for node in (before, after))
            lines.append(f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}")
    return f'<path class="path" d="{"".join(lines)}"/>' if lines else ""


def _legend(colours: dict[str, str], top: int) -> Iterator[str]:
    entries = [*colours.items(), ("other or several", _OTHERS), ("critical path", "")]
    for i, (op, colour) in enumerate(entries):
        x, y = 16 + (i % 6) * 195, top + (i // 6) * 20
        outline = "" if colour else ' class="critical"'
        yield f'<rect x="{x}" y="{y - 10}" width="13" height="12" fill="{colour or "#fff"}"{outline}/>'
        yield f'<text class="small" x="{x + 19}" y="{y}">{escape(op)}</text>'


def seconds_text(seconds: float) -> str:
    """A time in a readable unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns" if seconds else "0"


def bytes_text(size: float) -> str:
    """A number of bytes in a readable unit."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:.0f} B"
