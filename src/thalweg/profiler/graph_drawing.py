"""Pictures and summaries of graphs: name scopes as boxes, data between them as arrows, as SVG or Graphviz text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph

_WIDTH: Final = 190
_HEIGHT: Final = 40
_GAP: Final = 34
_MOST_BOXES: Final = 400


class Box(NamedTuple):
    """A name scope, or an operation outside of all, in a drawing.

    Attributes:
        name: The scope's name.
        count: How many operations it has.
        about: Their most frequent op types.
        layer: Its row: one below the lowest box that it reads.
        column: Its place in the row.
    """

    name: str
    count: int
    about: str
    layer: int
    column: int


class Drawing(NamedTuple):
    """Boxes by name, and arrows between them with the number of tensors."""

    boxes: dict[str, Box]
    arrows: dict[tuple[str, str], int]


def drawing_of(graph: Graph, depth: int = 1) -> Drawing:
    """Collects operations by the first `depth` parts of their names.

    Raises:
        ValueError: If `depth` is not positive, or there are too many boxes to draw.
    """
    if depth < 1:
        raise ValueError(f"The depth must be at least 1, got {depth}.")
    members: dict[str, list[Any]] = {}
    for op in graph.get_operations():
        members.setdefault(_scope(op.name, depth), []).append(op)
    if len(members) > _MOST_BOXES:
        raise ValueError(f"{len(members)} name scopes are too many to draw; at most {_MOST_BOXES} (depth {depth})")
    arrows: Counter[tuple[str, str]] = Counter()
    for name, operations in members.items():
        for op in operations:
            for tensor in op.inputs:
                source = _scope(tensor.op.name, depth)
                if source != name:
                    arrows[source, name] += 1
    layers = _layers(members, arrows)
    columns: Counter[int] = Counter()
    boxes = {}
    for name, operations in members.items():
        kinds = Counter(op.type for op in operations).most_common(2)
        about = ", ".join(f"{count} {kind}" if count > 1 else kind for kind, count in kinds)
        boxes[name] = Box(name, len(operations), about, layers[name], columns[layers[name]])
        columns[layers[name]] += 1
    return Drawing(boxes, dict(arrows))


def _scope(name: str, depth: int) -> str:
    return "/".join(name.split("/")[:depth])


def _layers(names: Iterable[str], arrows: Iterable[tuple[str, str]]) -> dict[str, int]:
    """A row for each box, below those that it reads; arrows that close a circle of scopes do not count."""
    sources: dict[str, list[str]] = {name: [] for name in names}
    for source, target in arrows:
        sources[target].append(source)
    layers: dict[str, int] = {}
    for start in sources:
        stack, path = [(start, iter(sources[start]))], {start}
        while stack:
            name, rest = stack[-1]
            following = next((each for each in rest if each not in layers and each not in path), None)
            if following is not None:
                path.add(following)
                stack.append((following, iter(sources[following])))
                continue
            stack.pop()
            path.discard(name)
            layers.setdefault(name, 1 + max((layers[each] for each in sources[name] if each in layers), default=-1))
    return layers


def svg(drawing: Drawing, title: str = "") -> str:
    """The drawing as the text of an SVG file."""
    rows = 1 + max((box.layer for box in drawing.boxes.values()), default=0)
    across = 1 + max((box.column for box in drawing.boxes.values()), default=0)
    width, height = across * (_WIDTH + _GAP) + _GAP, rows * (_HEIGHT + _GAP) + _GAP + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        "<style>text{font:12px sans-serif;fill:#222}.small{font-size:10px;fill:#666}"
        "rect{fill:#eef3fa;stroke:#4e79a7}path{fill:none;stroke:#999}</style>",
        '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" style="fill:#999;stroke:none"/></marker></defs>',
        f'<text x="{_GAP}" y="20" style="font-weight:bold">{escape(title)}</text>',
    ]

    def place(box: Box) -> tuple[int, int]:
        return _GAP + box.column * (_WIDTH + _GAP), 20 + _GAP + box.layer * (_HEIGHT + _GAP)

    for (source, target), count in drawing.arrows.items():
        x1, y1 = place(drawing.boxes[source])
        x2, y2 = place(drawing.boxes[target])
        x1, y1, x2 = x1 + _WIDTH // 2, y1 + _HEIGHT, x2 + _WIDTH // 2
        middle = (y1 + y2) // 2
        thick = min(4.0, 0.8 + 0.3 * count)
        parts.append(
            f'<path d="M{x1} {y1}C{x1} {middle} {x2} {middle} {x2} {y2}" style="stroke-width:{thick:.1f}" '
            f'marker-end="url(#end)"><title>{escape(source)} → {escape(target)}: {count} tensors</title></path>'
        )
    for box in drawing.boxes.values():
        x, y = place(box)
        shown = box.name if len(box.name) <= 28 else "…" + box.name[-27:]
        parts.append(
            f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="5">'
            f"<title>{escape(box.name)}: {box.count} operations</title></rect>"
            f'<text x="{x + 8}" y="{y + 17}">{escape(shown)}</text>'
            f'<text class="small" x="{x + 8}" y="{y + 32}">{box.count} · {escape(box.about)}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def dot(drawing: Drawing, title: str = "") -> str:
    """The drawing as Graphviz text."""

    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    lines = [f"digraph {quoted(title or 'graph')} {{", "  node [shape=box, style=rounded];"]
    for box in drawing.boxes.values():
        lines.append(f"  {quoted(box.name)} [tooltip={quoted(f'{box.count} operations: {box.about}')}];")
    for (source, target), count in drawing.arrows.items():
        label = f" [label={count}]" if count > 1 else ""
        lines.append(f"  {quoted(source)} -> {quoted(target)}{label};")
    return "\n".join([*lines, "}"]) + "\n"


def summary(graph: Graph, top: int = 20) -> str:
    """How large a graph is: operations by type, variables, placeholders, functions, devices."""
    operations = graph.get_operations()
    types = Counter(op.type for op in operations)
    variables = [*graph.get_collection("variables"), *graph.get_collection("local_variables")]
    elements = [variable.shape.num_elements() for variable in variables if hasattr(variable, "shape")]
    known = sum(count for count in elements if count is not None)
    lines = [f"{len(operations)} operations of {len(types)} types, {len(graph._functions)} functions"]
    if variables:
        lines.append(f"{len(variables)} variables with {known:,} elements")
    devices = Counter(op.device for op in operations if op.device)
    if devices:
        lines.append("devices: " + ", ".join(f"{name} ({count})" for name, count in devices.most_common()))
    fed = [op for op in operations if op.type in ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault")]
    for op in fed[:top]:
        lines.append(f"input   {op.name}: {op.outputs[0].dtype.name} {op.outputs[0].shape}")
    width = max((len(kind) for kind, _ in types.most_common(top)), default=0)
    lines += [f"{kind:<{width}} {count:>7}" for kind, count in types.most_common(top)]
    if len(types) > top:
        lines.append(f"{len(types) - top} more types")
    return "\n".join(lines) + "\n"
