"""tf.profiler.profile and Profiler: parameters, arithmetic, time and memory of a model's nodes, as a tree.

By scope or op type, by the order of the graph, or by lines of the program. Results have the fields of TensorFlow's
GraphNodeProto and MultiGraphNodeProto.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.definitions.op_work import states_work, work_of
from thalweg.profiler.advice import advice
from thalweg.profiler.flops import assumed_shape
from thalweg.profiler.pprof import Sample, write_pprof
from thalweg.profiler.profile_options import TRAINABLE, ProfileOptionBuilder
from thalweg.profiler.report import size
from thalweg.profiler.step_records import Record, is_accelerator, records_of
from thalweg.profiler.tables import UNKNOWN_PLACE, Sources, operation_of
from thalweg.profiler.timeline import trace_events

ROOT: Final = "_TFProfRoot"
# The columns for `select` and `order_by`, and their fields.
_COLUMNS: Final[dict[str, str]] = {
    "micros": "exec_micros", "cpu_micros": "cpu_exec_micros", "accelerator_micros": "accelerator_exec_micros",
    "bytes": "requested_bytes", "peak_bytes": "peak_bytes", "residual_bytes": "residual_bytes",
    "output_bytes": "output_bytes", "params": "parameters", "float_ops": "float_ops", "occurrence": "run_count",
}  # fmt: skip
_SUMMED: Final = tuple(dict.fromkeys(_COLUMNS.values()))


@dataclass
class ProfileNode:
    """A node of the tree: its own costs, and those with all nodes below it (`total_...`)."""

    name: str
    run_count: int = 0
    exec_micros: int = 0
    cpu_exec_micros: int = 0
    accelerator_exec_micros: int = 0
    requested_bytes: int = 0
    peak_bytes: int = 0
    residual_bytes: int = 0
    output_bytes: int = 0
    parameters: int = 0
    float_ops: int = 0
    total_definition_count: int = 0
    total_run_count: int = 0
    total_exec_micros: int = 0
    total_cpu_exec_micros: int = 0
    total_accelerator_exec_micros: int = 0
    total_requested_bytes: int = 0
    total_peak_bytes: int = 0
    total_residual_bytes: int = 0
    total_output_bytes: int = 0
    total_parameters: int = 0
    total_float_ops: int = 0
    devices: list[str] = field(default_factory=list)
    children: list[ProfileNode] = field(default_factory=list)
    graph_nodes: list[ProfileNode] = field(default_factory=list)
    op: str = ""
    uncounted: list[str] = field(default_factory=list)  # of the root: nodes with arithmetic of unknown amount

    def _add_up(self) -> None:
        for name in _SUMMED:
            total = getattr(self, name) + sum(getattr(child, f"total_{name}") for child in self.children)
            setattr(self, f"total_{name}", total)
        self.total_definition_count = bool(self.op) + sum(child.total_definition_count for child in self.children)

    def _merge(self, other: ProfileNode) -> None:
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.graph_nodes.append(other)


class Profiler:
    """Profiles a graph and any number of its traced steps.

    Example:
        >>> with tf.Graph().as_default() as graph:
        ...     _ = tf.get_variable("w", [3, 4])
        >>> options = tf.profiler.ProfileOptionBuilder(
        ...     tf.profiler.ProfileOptionBuilder.trainable_variables_parameter()
        ... ).with_empty_output().build()
        >>> tf.profiler.Profiler(graph).profile_name_scope(options).total_parameters
        12
    """

    def __init__(self, graph: Any = None, op_log: Any = None) -> None:
        """Takes the graph, by default the default graph; `op_log` is accepted for TensorFlow's sake."""
        self.graph = graph if graph is not None else get_default_graph()
        self.steps: dict[int, list[Record]] = {}
        self._uncounted: list[str] = []  # Nodes of the last view whose arithmetic is not known, for want of shapes.
        self._sources = Sources()

    def add_step(self, step: int, run_meta: Any) -> None:
        """Adds the RunMetadata of a step."""
        self.steps.setdefault(step, []).extend(records_of(run_meta.step_stats))

    def profile_operations(self, options: dict[str, Any]) -> ProfileNode:
        """By op type, those that take most first."""
        groups: dict[str, ProfileNode] = {}
        for node in self._nodes(options):
            groups.setdefault(node.op, ProfileNode(node.op, op=node.op))._merge(node)
        for name, group in groups.items():
            group.run_count = max(1, len(group.graph_nodes))
            group.name = name
        return self._finished(groups.values(), options)

    def profile_name_scope(self, options: dict[str, Any]) -> ProfileNode:
        """By the scopes of the nodes' names."""
        return self._by_path(options, lambda node: node.name.split("/"), "/")

    def profile_graph(self, options: dict[str, Any]) -> ProfileNode:
        """One by one, without scopes."""
        return self._finished(self._nodes(options), options)

    def profile_python(self, options: dict[str, Any]) -> ProfileNode:
        """By the lines of the program that made the nodes."""
        lines: dict[str, ProfileNode] = {}
        for node in self._nodes(options):
            place, text = self._sources.place(node.name, self.graph)
            name = f"{place}: {text}" if text else place
            lines.setdefault(name, ProfileNode(name, op="" if place == UNKNOWN_PLACE else "line"))._merge(node)
        kind, _, path = options.get("output", "").partition(":outfile=")
        if kind != "pprof":
            return self._finished(lines.values(), options)
        root = _tree(lines.values(), options)
        self._write_pprof(path, root, options)
        return root

    def advise(self, options: dict[str, Any] | None = None) -> Any:
        """Checks the steps and prints what might make them faster: see `tf.profiler.advise`."""
        return advice(self, options)

    def _by_path(self, options: dict[str, Any], path_of: Callable[[ProfileNode], list[str]], joint: str) -> ProfileNode:
        tops: dict[str, ProfileNode] = {}
        known: dict[str, ProfileNode] = {}
        for node in self._nodes(options):
            parts = path_of(node)
            siblings: ProfileNode | None = None
            for depth in range(1, len(parts) + 1):
                name = joint.join(parts[:depth])
                found = known.get(name)
                if found is None:
                    found = known[name] = ProfileNode(name)
                    if siblings is None:
                        tops[name] = found
                    else:
                        siblings.children.append(found)
                siblings = found
            assert siblings is not None
            siblings._merge(node)
            siblings.op, siblings.devices = node.op, node.devices
            siblings.graph_nodes.clear()
        return self._finished(tops.values(), options)

    def _nodes(self, options: dict[str, Any]) -> list[ProfileNode]:
        """The nodes of the graph that are counted, with the mean over steps."""
        types = [re.compile(pattern) for pattern in options["account_type_regexes"]]
        trainable = _trainable(self.graph)
        self._uncounted = []
        nodes: dict[str, ProfileNode] = {}
        for operation in self.graph.get_operations():
            kinds = (operation.type, operation.device or "", *((TRAINABLE,) if operation.name in trainable else ()))
            if any(pattern.fullmatch(kind) for pattern in types for kind in kinds):
                node = nodes[operation.name] = ProfileNode(operation.name, op=operation.type)
                node.parameters = trainable.get(operation.name, 0)
                if "float_ops" in options["select"]:
                    node.float_ops = self._float_ops(operation, options.get("assumed_batch"))
        wanted = options.get("step", -1)
        steps = [records for step, records in self.steps.items() if wanted in (-1, step)]
        for records in steps:
            for record in records:
                self._count(nodes, record, types, len(steps))
        return list(nodes.values())

    def _float_ops(self, operation: Any, batch: int | None) -> int:
        """The arithmetic of a node by its static shapes; notes it if they are not known well enough."""

        def shape_of(tensor: Any) -> tuple[int, ...] | None:
            return assumed_shape(tensor, batch)

        work = work_of(operation, shape_of, count_default=False)
        if work is not None:
            return int(work.flops)
        if states_work(operation) and any(shape_of(each) is None for each in (*operation.inputs, *operation.outputs)):
            self._uncounted.append(operation.name)
        return 0

    @staticmethod
    def _count(nodes: dict[str, ProfileNode], record: Record, types: list[Any], steps: int) -> None:
        node = nodes.get(record.node)
        if node is None:
            if not any(pattern.fullmatch(record.op) for pattern in types):
                return
            node = nodes[record.node] = ProfileNode(record.node, op=record.op)
        node.run_count += 1
        micros = round(record.own / 1000 / steps)
        node.exec_micros += micros
        if is_accelerator(record.device):
            node.accelerator_exec_micros += micros
        else:
            node.cpu_exec_micros += micros
        node.output_bytes += record.output_bytes // steps
        node.requested_bytes += max(record.taken, record.output_bytes) // steps
        node.peak_bytes += (max(record.taken, record.output_bytes)) // steps
        node.residual_bytes += (max(record.taken, record.output_bytes) - record.temporary) // steps
        if record.device not in node.devices:
            node.devices.append(record.device)

    def _finished(self, children: Iterable[ProfileNode], options: dict[str, Any]) -> ProfileNode:
        if options.get("output", "").startswith("pprof:"):
            raise ValueError('pprof output is for cmd="code" (profile_python): its samples are stacks of the program.')
        root = _tree(children, options)
        self._write(root, options)
        return root

    def _write_pprof(self, path: str, root: ProfileNode, options: dict[str, Any]) -> None:
        columns = list(options["select"])
        samples = []
        for node in (node for line in root.children for node in line.graph_nodes):
            operation = operation_of(node.name, self.graph)
            stack = operation.traceback if operation is not None else []
            values = [getattr(node, _COLUMNS[column]) for column in columns if column in _COLUMNS]
            samples.append(Sample(node.name, node.op, stack, node.run_count, values))
        write_pprof(path, columns, samples)

    def _write(self, root: ProfileNode, options: dict[str, Any]) -> None:
        kind, _, rest = options.get("output", "stdout").partition(":")
        path = rest.partition("outfile=")[2]
        root.uncounted = self._uncounted
        if kind == "stdout":
            sys.stdout.write(_text(root, options))
        elif kind == "file":
            with open(path, "w", encoding="utf-8") as file:
                file.write(_text(root, options))
        elif kind == "timeline":
            import json

            records = [record for step in self.steps.values() for record in step]
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"traceEvents": trace_events(records, show_memory=True)}, file)
        elif kind != "none":
            raise ValueError(f"output must be stdout, none, file, timeline or pprof, got {kind!r}.")


def profile(
    graph: Any = None, run_meta: Any = None, op_log: Any = None, cmd: str = "scope", options: Any = None
) -> ProfileNode:
    """Profiles a model.

    Args:
        graph: The graph; by default the default graph.
        run_meta: The RunMetadata of a step with RunOptions.FULL_TRACE, for times and memory.
        op_log: Accepted for TensorFlow's sake.
        cmd: "scope", "op", "graph" or "code".
        options: The result of `ProfileOptionBuilder.build`; by default everything, by name.

    Returns:
        The root of the tree.

    Raises:
        ValueError: If there is no such `cmd`.
    """
    profiler = Profiler(graph, op_log)
    if run_meta is not None:
        profiler.add_step(0, run_meta)
    views = {
        "scope": profiler.profile_name_scope, "op": profiler.profile_operations, "graph": profiler.profile_graph,
        "code": profiler.profile_python,
    }  # fmt: skip
    if cmd not in views:
        raise ValueError(f"cmd must be one of {', '.join(views)}, got {cmd!r}.")
    return views[cmd](ProfileOptionBuilder(options or None).build())


def _tree(children: Iterable[ProfileNode], options: dict[str, Any]) -> ProfileNode:
    root = ProfileNode(ROOT)
    root.children = list(children)
    _finish(root, options, 0)
    return root


def _trainable(graph: Any) -> dict[str, int]:
    """The numbers of elements of trainable variables, by the names of their handles' operations."""
    found = {}
    for variable in graph.get_collection("trainable_variables"):
        count = variable.shape.num_elements() if hasattr(variable, "shape") else None
        found[variable.op.name] = int(count or 0)
    return found


def _finish(node: ProfileNode, options: dict[str, Any], depth: int) -> None:
    """Adds up, sorts, and drops hidden nodes, from the leaves on."""
    for child in node.children:
        _finish(child, options, depth + 1)
    if options.get("account_displayed_op_only"):
        node.children = _shown(node.children, options)
        node._add_up()
    else:
        node._add_up()
        node.children = _shown(node.children, options)
    if depth >= options["max_depth"]:
        node.children = []
    order = options["order_by"]
    if order in _COLUMNS:
        node.children.sort(key=lambda child: (-getattr(child, f"total_{_COLUMNS[order]}"), child.name))
    else:
        node.children.sort(key=lambda child: child.name)


def _shown(children: list[ProfileNode], options: dict[str, Any]) -> list[ProfileNode]:
    """The children that are shown; a hidden child is replaced by its shown descendants."""
    found: list[ProfileNode] = []
    for child in children:
        if _matches(child.name, options["trim_name_regexes"]):
            child.children = []
        if _is_shown(child, options):
            found.append(child)
        else:
            found.extend(child.children)
    return found


def _is_shown(node: ProfileNode, options: dict[str, Any]) -> bool:
    if not _matches(node.name, options["show_name_regexes"]) or _matches(node.name, options["hide_name_regexes"]):
        return False
    if not _matches(node.name, options["start_name_regexes"]):
        return False
    totals = {
        "min_bytes": node.requested_bytes, "min_micros": node.exec_micros, "min_params": node.parameters,
        "min_float_ops": node.float_ops, "min_occurrence": node.run_count, "min_output_bytes": node.output_bytes,
    }  # fmt: skip
    below = bool(node.children)
    return all(below or value >= options.get(bound, 0) for bound, value in totals.items())


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(re.fullmatch(pattern, name) or re.match(pattern + "$", name) for pattern in patterns)


def _text(root: ProfileNode, options: dict[str, Any]) -> str:
    columns = [column for column in options["select"] if column in _COLUMNS]
    lines = [f"node name | {' | '.join(columns)}"]

    def shown(node: ProfileNode, column: str) -> str:
        own, total = getattr(node, _COLUMNS[column]), getattr(node, f"total_{_COLUMNS[column]}")
        of = size if column.endswith("bytes") else lambda value: f"{value:,} us" if "micros" in column else f"{value:,}"
        return f"{of(own) if node.name != ROOT else '--'}/{of(total)}"

    def write(node: ProfileNode, depth: int) -> None:
        lines.append(f"{'  ' * depth}{node.name} ({', '.join(shown(node, column) for column in columns)})")
        for child in node.children:
            write(child, depth + 1)

    write(root, 0)
    if root.uncounted:
        count, first = len(root.uncounted), ", ".join(root.uncounted[:3])
        hint = "" if options.get("assumed_batch") else "; with_assumed_batch(n) counts unknown sizes as n"
        lines.append(
            f"{count} operation{'s' if count > 1 else ''} with arithmetic left out, because sizes are not known before "
            f"the step runs: {first}{' and others' if count > 3 else ''}{hint}"
        )
    return "\n".join(lines) + "\n"


def advise(graph: Any = None, run_meta: Any = None, options: Any = 0) -> Any:
    """Checks a model and prints what might make it faster.

    Args:
        graph: The graph; by default the default graph.
        run_meta: The RunMetadata of a step with RunOptions.FULL_TRACE. Without it only the graph is checked.
        options: The checkers to run, as the keys of a dictionary: AcceleratorUtilizationChecker, OperationChecker,
            ExpensiveOperationChecker, JobChecker. By default all.

    Returns:
        An AdviceProto: the reports of each checker.

    Raises:
        ValueError: If there is no such checker.

    Example:
        >>> advice = tf.profiler.advise(tf.Graph())
        <BLANKLINE>
        AcceleratorUtilizationChecker:
        <BLANKLINE>
        ExpensiveOperationChecker:
        <BLANKLINE>
        JobChecker:
        <BLANKLINE>
        OperationChecker:
    """
    profiler = Profiler(graph)
    if run_meta is not None:
        profiler.add_step(0, run_meta)
    return profiler.advise(None if options == 0 else options)  # TensorFlow's default.
