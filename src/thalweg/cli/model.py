"""`thalweg model`: shows a trained model, freezes it, makes it smaller, and measures how fast it answers.

thalweg model signatures saved_model
thalweg model freeze saved_model --output model.pb
thalweg model optimize saved_model --output model.pb
thalweg model benchmark saved_model --batch 32 --runs 200
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thalweg.cli import show

if TYPE_CHECKING:
    from thalweg.saved_model.frozen_model import FrozenModel

HELP = "show, freeze, optimize and benchmark trained models"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    shown = actions.add_parser("signatures", help="list the inputs and outputs of a model (as `thalweg show` does)")
    show.add_arguments(shown)
    for name, text in (
        ("freeze", "write a model as one GraphDef, its variables as constants"),
        ("optimize", "the same, without what only training needs, and with constants computed beforehand"),
        ("benchmark", "measure how long a model takes to answer"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument(
            "model", help="the folder of a SavedModel, a checkpoint whose .meta is there, or a GraphDef (.pb)"
        )
        action.add_argument("--tags", default="serve", metavar="A,B", help="of a SavedModel's graph (default: serve)")
        action.add_argument(
            "--signature", default="", metavar="NAME", help="of a SavedModel (default: serving_default)"
        )
        action.add_argument(
            "--result", action="append", default=[], metavar="NAME", help="a tensor or operation that is wanted"
        )
        if name == "benchmark":
            action.add_argument(
                "--batch", type=_positive, default=1, metavar="N", help="for unknown sizes (default: 1)"
            )
            action.add_argument("--runs", type=_positive, default=100, metavar="N", help="how many (default: 100)")
        else:
            action.add_argument("--output", required=True, metavar="FILE", help="where to write it (.pb or .pbtxt)")


def run(options: Any) -> int:
    """Runs one action."""
    if options.action == "signatures":
        return show.run(options)
    from thalweg.saved_model.frozen_model import freeze, optimize  # Start-up time: `thalweg --help` reads no models.

    model = freeze(options.model, options.result, options.tags.split(","), options.signature)
    if options.action == "benchmark":
        print(_benchmark(model, options.batch, options.runs))
        return 0
    before = len(model.graph_def.node)
    if options.action == "optimize":
        model = optimize(model)
    _write(model, options.output)
    size = f"{len(model.graph_def.node)} nodes" + (f" of {before}" if options.action == "optimize" else "")
    print(f"{options.output}: {size}, {model.graph_def.ByteSize():,} bytes")
    for title, names in (("feed", model.inputs), ("fetch", model.outputs)):
        for key, name in sorted(names.items()):
            print(f"  {title} {name}" + (f"  ({key})" if key != name else ""))
    return 0


def _write(model: FrozenModel, path: str) -> None:
    from google.protobuf import text_format  # Start-up time: protobuf is slow to import.

    if path.endswith("txt"):
        Path(path).write_text(text_format.MessageToString(model.graph_def), encoding="utf-8")
    else:
        Path(path).write_bytes(model.graph_def.SerializeToString())


def _benchmark(model: FrozenModel, batch: int, runs: int) -> str:
    import numpy as np

    # Start-up time: see `run`.
    from thalweg.graph.default_stack import default_graph_scope
    from thalweg.graph.formats.import_graph_def import import_graph_def
    from thalweg.graph.graph import Graph
    from thalweg.profiler.report import seconds
    from thalweg.runtime.session import Session

    graph = Graph()
    random = np.random.default_rng(0)
    with default_graph_scope(graph), Session(graph=graph) as session:
        import_graph_def(model.graph_def, name="")
        feeds = {}
        for name in model.inputs.values():
            tensor = graph.as_graph_element(name)
            shape = [batch if size is None else size for size in tensor.shape.as_list()] if tensor.shape.rank else []
            if tensor.shape.rank is None:
                raise ValueError(f"the shape of {name} is not known: it cannot be fed with random values")
            dtype = tensor.dtype.base_dtype
            if dtype.name == "string":
                raise ValueError(f"{name} takes strings: a benchmark with random values would say nothing")
            value = random.random(shape) if dtype.is_floating else np.zeros(shape)
            feeds[tensor] = np.asarray(value).astype(dtype.as_numpy_dtype)
        step = session.make_callable(list(model.outputs.values()), list(feeds))
        values = list(feeds.values())
        begin = time.perf_counter()
        step(*values)
        first = time.perf_counter() - begin
        times: list[float] = []
        for _ in range(runs):
            begin = time.perf_counter()
            step(*values)
            times.append(time.perf_counter() - begin)
    median = statistics.median(times)
    return (
        f"{runs} runs with batch {batch}: median {seconds(median)}, 90% within {seconds(_quantile(times, 0.9))}, "
        f"99% within {seconds(_quantile(times, 0.99))}; {batch / median:,.0f} examples/s; the first run, "
        f"which compiles, took {seconds(first)}"
    )


def _quantile(times: Sequence[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value
