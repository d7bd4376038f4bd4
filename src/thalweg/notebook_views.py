"""What a notebook shows for graphs, sessions, datasets, profiles and compared placements: HTML in place of a repr.

Loaded only in notebooks (`install`, called when the package is imported where IPython is): the classes know nothing of
it, and other programs do not pay for it.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from thalweg.data.dataset import Dataset
from thalweg.data.structure import flatten
from thalweg.graph.graph import Graph
from thalweg.placement.comparison import Comparison
from thalweg.placement.gantt import draw
from thalweg.profiler.graph_drawing import drawing_of, summary, svg
from thalweg.profiler.recording import Recording
from thalweg.profiler.report import report
from thalweg.profiler.tables import Profile
from thalweg.runtime.session import BaseSession


def install() -> None:
    """Gives the classes their `_repr_html_`, which notebooks ask for."""
    views: dict[type, Callable[[Any], str]] = {
        Graph: graph_html, BaseSession: session_html, Dataset: dataset_html, Profile: profile_html,
        Recording: lambda recording: profile_html(recording.profile()), Comparison: comparison_html,
    }  # fmt: skip
    for kind, view in views.items():
        setattr(kind, "_repr_html_", view)  # noqa: B010 (mypy will not have a method added)


def graph_html(graph: Graph) -> str:
    """The picture of the name scopes, and the summary to unfold; only the summary if there is too much to draw."""
    about = f"<details><summary>{len(graph.get_operations())} operations</summary>{_text(summary(graph))}</details>"
    if not graph.get_operations():
        return "<p>An empty graph.</p>"
    try:
        picture = svg(drawing_of(graph))
    except ValueError as e:
        return f"<p>{escape(str(e))}</p>{about}"
    return f'<div style="overflow:auto;max-height:600px">{picture}</div>{about}'


def session_html(session: Any) -> str:
    """Where the session runs, on which devices, and its graph."""
    state = "closed" if session._closed else "open"
    rows = [
        ("target", session._target or "this process"), ("state", state),
        ("compiled steps", str(len(session._steps))),
    ]  # fmt: skip
    if not session._closed:
        rows.append(("devices", ", ".join(device.name for device in session.list_devices())))
    rows.append(("graph", f"{len(session.graph.get_operations())} operations"))
    return _table(rows)


def dataset_html(dataset: Dataset) -> str:
    """The components of an element: shapes and types."""
    shapes, types = flatten(dataset.output_shapes), flatten(dataset.output_types)
    rows = [
        (f"component {i}", f"{getattr(dtype, 'name', dtype)} {shape}")
        for i, (shape, dtype) in enumerate(zip(shapes, types, strict=True))
    ]
    return f"<p>{escape(type(dataset).__name__)}</p>{_table(rows)}"


def profile_html(profile: Profile) -> str:
    """The text of the report."""
    return _text(report(profile))


def comparison_html(comparison: Comparison) -> str:
    """The schedule as a Gantt chart."""
    return f'<div style="overflow:auto">{draw(comparison.tasks, comparison.schedule, comparison.strategy)}</div>'


def _text(text: str) -> str:
    return f'<pre style="line-height:1.2">{escape(text)}</pre>'


def _table(rows: list[tuple[str, str]]) -> str:
    cells = "".join(f"<tr><th style='text-align:left'>{escape(a)}</th><td>{escape(b)}</td></tr>" for a, b in rows)
    return f"<table>{cells}</table>"
