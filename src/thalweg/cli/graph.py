"""`thalweg graph`: how large a graph is, and a picture of it.

thalweg graph summary model.meta
thalweg graph draw train.py --output graph.svg --depth 2
"""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path
from typing import Any

from thalweg.cli.place import ProgramError, read_graph

HELP = "summarize and draw a graph"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    for name, text in (
        ("summary", "operations by type, variables, inputs, devices"),
        ("draw", "the name scopes and the data between them, as a picture"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("graph", help="a GraphDef (.pb, .pbtxt), a MetaGraphDef (.meta), or a Python script")
        action.add_argument("--script-arguments", default="", metavar="TEXT", help="the arguments of the script")
        if name == "draw":
            action.add_argument(
                "--output", required=True, metavar="FILE", help="a picture (.svg) or Graphviz text (.dot)"
            )
            action.add_argument("--depth", type=int, default=1, metavar="N", help="parts of names to tell (default: 1)")
        else:
            action.add_argument("--top", type=int, default=20, metavar="N", help="op types to list (default: 20)")


def run(options: Any) -> int:
    """Prints the summary or writes the picture."""
    from thalweg.profiler import graph_drawing  # Start-up time: `thalweg --help` draws nothing.

    if options.action == "draw" and not options.output.endswith((".svg", ".dot", ".gv")):
        raise ValueError(f"--output writes SVG or Graphviz text: name it *.svg or *.dot, not {options.output!r}")
    try:
        graph = read_graph(options.graph, shlex.split(options.script_arguments))
    except ProgramError:
        return 1
    if options.action == "summary":
        print(graph_drawing.summary(graph, options.top), end="")
        return 0
    drawing = graph_drawing.drawing_of(graph, options.depth)
    draw = graph_drawing.svg if options.output.endswith(".svg") else graph_drawing.dot
    Path(options.output).write_text(draw(drawing, os.path.basename(options.graph)), encoding="utf-8")
    print(f"{len(drawing.boxes)} scopes and {len(drawing.arrows)} arrows are in {options.output}.")
    return 0
