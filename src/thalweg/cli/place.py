"""`thalweg place`: compares ways to place a graph on devices, and draws the schedule that the best one gives.

thalweg place model.py --devices 4 --draw schedule.svg
thalweg place graph.pbtxt --fetch train_op --machine machine.json --costs costs.json
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from thalweg.graph.default_graph import get_default_graph, own_default_graphs
from thalweg.graph.formats.import_graph_def import import_graph_def
from thalweg.graph.formats.import_meta_graph import import_scoped_meta_graph
from thalweg.graph.graph import Graph
from thalweg.platform.programs import print_failure, run_program

if TYPE_CHECKING:
    from thalweg.placement.comparison import Comparison

HELP = "compare placements of a graph on several devices, and draw the schedule"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument(
        "graph",
        help="a GraphDef (.pb, .pbtxt), a MetaGraphDef (.meta), or a Python script: it builds the graph when it is "
        "imported, in its function build(), or before its first step",
    )
    parser.add_argument(
        "--script-arguments", default="", metavar="TEXT", help="the arguments of the script, as one text"
    )
    parser.add_argument(
        "--fetch", action="append", default=[], metavar="NAME",
        help="an operation or tensor that the step computes; by default the training operations, else all results",
    )  # fmt: skip
    parser.add_argument("--devices", type=int, metavar="N", help="so many equal CPU devices (default: 2)")
    parser.add_argument("--machine", metavar="FILE", help="a JSON description of devices and links (docs/placement.md)")
    parser.add_argument("--costs", metavar="FILE", help="measured costs, as sessions write them")
    parser.add_argument("--strategies", metavar="A,B", help="which to compare (default: all)")
    parser.add_argument("--draw", metavar="FILE", help="where to write the schedule of the fastest (.svg)")
    parser.add_argument(
        "--plan", metavar="FILE",
        help="where to write the planned step of the fastest, as text: each device's nodes, transfers and priorities",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Prints a line for each strategy."""
    # Start-up time: `thalweg --help` needs neither the native core nor the simulator.
    from thalweg.placement.comparison import compare
    from thalweg.placement.costs import CostModel
    from thalweg.placement.machine import Machine
    from thalweg.placement.program import program_targets

    if options.machine and options.devices is not None:
        raise ValueError("--devices and --machine are two ways to say the same; give one of them")
    machine = Machine.load(options.machine) if options.machine else Machine.of_cpus(
        2 if options.devices is None else options.devices
    )  # fmt: skip
    costs = CostModel.load(options.costs) if options.costs else CostModel()
    names = options.strategies.split(",") if options.strategies else None
    if options.draw and not options.draw.endswith(".svg"):
        raise ValueError(f"--draw writes an SVG file, which browsers show: name it *.svg, not {options.draw!r}")
    try:
        graph = read_graph(options.graph, shlex.split(options.script_arguments))
    except ProgramError:
        return 1
    fetches = options.fetch or program_targets(graph)
    if not fetches:
        raise ValueError(f"{options.graph} has no operations whose results could be fetched")
    with _Progress(len(names) if names else 0) as progress:
        found = compare(fetches, machine, graph, costs, names, progress=progress)
    best = min(found, key=lambda each: (not each.fits, each.step_seconds))
    print(_table(found, best))
    print(_basis(fetches, options))
    if options.draw:
        from thalweg.placement.gantt import draw  # Start-up time: see above.

        title = f"{os.path.basename(options.graph)} on {len(machine.processors)} devices, placed by {best.strategy}"
        Path(options.draw).write_text(draw(best.tasks, best.schedule, title), encoding="utf-8")
        print(f"The schedule of {best.strategy} is in {options.draw}.")
    if options.plan:
        # Start-up time: see above.
        from thalweg.planning.compared_plan import plan_compared
        from thalweg.planning.planned_step_bytes import describe
        from thalweg.runtime.install import evaluate, local_kernels, supports

        planned = plan_compared(best, graph, fetches, costs, evaluate, local_kernels, supports)
        Path(options.plan).write_text(describe(planned), encoding="utf-8")
        print(f"The planned step of {best.strategy} is in {options.plan}.")
    return 0


def _basis(fetches: Sequence[Any], options: argparse.Namespace) -> str:
    """What was placed, and where the times come from."""
    shown = [str(getattr(fetch, "name", fetch)) for fetch in fetches]
    listed = ", ".join(shown[:5]) + (f" and {len(shown) - 5} more" if len(shown) > 5 else "")
    chosen = "" if options.fetch else " (choose others with --fetch)"
    origin = f"by the costs in {options.costs}; what was not measured is estimated" if options.costs else (
        "estimates: give measured ones with --costs"
    )  # fmt: skip
    return f"Placed: the step that fetches {listed}{chosen}. Times are {origin}."


def _table(found: Sequence[Comparison], best: Comparison) -> str:
    from thalweg.placement.gantt import bytes_text, seconds_text  # Start-up time: see `run`.

    alone = next((each.step_seconds for each in found if each.strategy == "single"), None)
    rows = [["", "strategy", "step", "speed-up", "transfers", "bytes", "peak memory", "time to place"]]
    for each in found:
        faster = f"{alone / each.step_seconds:.2f}" if alone and each.step_seconds else "-"
        peak = bytes_text(max(each.peak_bytes.values())) + ("" if each.fits else " (too much)")
        rows.append(
            ["*" if each is best else "", each.strategy, seconds_text(each.step_seconds), faster, str(each.transfers),
             bytes_text(each.transferred_bytes), peak, seconds_text(each.place_seconds)]
        )  # fmt: skip
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell.ljust(widths[i]) if i < 2 else cell.rjust(widths[i]) for i, cell in enumerate(row)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


class _Progress:
    """A line on a terminal with the strategy that is at work; prints nothing if there is no terminal."""

    def __init__(self, count: int) -> None:
        from thalweg.placement.planner import STRATEGIES  # Start-up time: see `run`.

        self._count = count or len(STRATEGIES)
        self._done = 0
        self._shown = sys.stderr.isatty()

    def __enter__(self) -> Callable[[str], None]:
        return self._next

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _next(self, name: str) -> None:
        if self._shown:
            filled = 20 * self._done // self._count
            sys.stderr.write(f"\r\x1b[K[{'=' * filled}{' ' * (20 - filled)}] {name}")
            sys.stderr.flush()
        self._done += 1


def read_graph(path: str, arguments: Sequence[str] = ()) -> Graph:
    """The graph that a file holds, or that a script builds, given its arguments.

    Raises:
        ValueError: If the file holds no graph.
        OSError: If it cannot be read.
        errors.OpError: If an op of the graph is not known.
    """
    if path.endswith(".py"):
        graph = _built_by(path, arguments)
    else:
        graph = Graph()
        with graph.as_default():
            _import(path)
    if not graph.get_operations():
        raise ValueError(
            f"{path} holds no operations: a script builds its graph when it is imported, in a function build(), or "
            "before its first step"
        )
    return graph


class ProgramError(Exception):
    """A script has failed; its error has been printed."""


class _FirstStep(BaseException):
    """A script has come to its first step; no Exception, so that no handler of the script takes it for an error."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


def _graph_of_first_step(path: str, arguments: Sequence[str]) -> Graph | None:
    """Runs a script as a program until it runs a step: the graph of that step; None if it ran none."""
    from thalweg.runtime.session import BaseSession  # Start-up time: `thalweg --help` needs no session.

    graphs: list[Graph] = []

    def stop(session: Any, *_: Any, **__: Any) -> NoReturn:
        graphs.append(session.graph)
        raise _FirstStep(session.graph)

    before = BaseSession.run
    setattr(BaseSession, "run", stop)  # noqa: B010 (mypy will not have a method assigned)
    try:
        run_program(path, arguments)
    except _FirstStep:
        pass  # The usual end.
    except (SystemExit, Exception):
        if not graphs:  # Else it has failed on its way out, because its session did not run.
            raise
    finally:
        setattr(BaseSession, "run", before)  # noqa: B010
    return graphs[0] if graphs else None


def _built_by(path: str, arguments: Sequence[str]) -> Graph:
    """The graph that a script builds: its default graph, or if that is empty the one that it holds or returns.

    If there is none after it was imported, it runs as a program, up to its first step.
    """
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no program '{path}'")
    with own_default_graphs():
        try:
            names = run_program(path, arguments, name="__place__")
            returned = names["build"]() if callable(names.get("build")) else None
            found = [get_default_graph(), getattr(returned, "graph", returned), *names.values()]
            graphs = [each for each in found if isinstance(each, Graph)]
            built = next((graph for graph in graphs if graph.get_operations()), None)
            return built or _graph_of_first_step(path, arguments) or get_default_graph()
        except SystemExit as e:
            raise ValueError(
                f"{path} ended itself with exit code {e.code!r} before its graph could be placed"
            ) from None
        except Exception as e:
            print_failure(e, path)
            raise ProgramError from None


def _import(path: str) -> None:
    from google.protobuf import text_format  # Start-up time: protobuf is slow to import.
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.graph_pb2 import GraphDef  # Start-up time: protobuf is slow to import.
    from tensorboard.compat.proto.meta_graph_pb2 import MetaGraphDef

    data = Path(path).read_bytes()
    message: Any = MetaGraphDef() if ".meta" in os.path.basename(path) else GraphDef()
    try:
        if path.endswith(("txt", ".meta.text")):
            text_format.Parse(data.decode("utf-8"), message)
        else:
            message.ParseFromString(data)
    except (DecodeError, text_format.ParseError, UnicodeDecodeError) as e:
        raise ValueError(f"{path} is no {type(message).__name__}: {e}") from None
    if isinstance(message, GraphDef):
        import_graph_def(message, name="")
    else:
        import_scoped_meta_graph(message)
