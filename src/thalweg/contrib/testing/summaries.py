"""Summaries in tests: a writer that keeps what it is given, and the events of a folder."""

from __future__ import annotations

import collections
import os
from collections.abc import Iterable
from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


@export("contrib.testing.assert_summary")
def assert_summary(expected_tags: Any, expected_simple_values: Any, summary_proto: Any) -> None:
    """Checks which tags, and which numbers, a Summary has.

    Raises:
        AssertionError: If it has others.
    """
    values = {value.tag: value.simple_value for value in summary_proto.value}
    tags = {value.tag for value in summary_proto.value}
    if set(expected_tags or ()) - tags:
        raise AssertionError(f"Summaries lack {sorted(set(expected_tags) - tags)}; they are {sorted(tags)}")
    for tag, expected in (expected_simple_values or {}).items():
        if tag not in values or abs(values[tag] - expected) > 1e-6 * max(1.0, abs(expected)):
            raise AssertionError(f"Summary '{tag}' is {values.get(tag)}, but expects {expected}")


@export("contrib.testing.latest_event_file")
def latest_event_file(base_dir: str) -> str | None:
    """The newest file of events in a folder; None if there is none."""
    files = tf.gfile.Glob(os.path.join(base_dir, "events.*"))
    return max(files, key=lambda path: (tf.gfile.Stat(path).mtime_nsec, path), default=None)


@export("contrib.testing.latest_events")
def latest_events(base_dir: str) -> list[Any]:
    """The events of that file."""
    path = latest_event_file(base_dir)
    return [] if path is None else list(tf.train.summary_iterator(path))


@export("contrib.testing.latest_summaries")
def latest_summaries(base_dir: str) -> list[Any]:
    """Those events of it that are summaries."""
    return [event for event in latest_events(base_dir) if event.HasField("summary")]


@export("contrib.testing.simple_values_from_events")
def simple_values_from_events(events: Iterable[Any], tags: Any) -> dict[Any, Any]:
    """The last number of each tag, by step and tag."""
    found: dict[Any, Any] = {}
    for event in events:
        if event.HasField("summary"):
            for value in event.summary.value:
                if value.tag in tags:
                    found[value.tag] = value.simple_value
    return found


@export("contrib.testing.FakeSummaryWriter")
class FakeSummaryWriter:
    """A FileWriter that keeps summaries and writes nothing; `install` lets hooks and sessions get it from the cache."""

    _installed: Any = None

    @classmethod
    def install(cls) -> None:
        """Takes the place of `tf.summary.FileWriterCache.get`'s writers.

        Raises:
            ValueError: If it has it already.
        """
        if cls._installed is not None:
            raise ValueError("FakeSummaryWriter already installed.")
        cls._installed = tf.summary.FileWriterCache.get
        writers: dict[str, FakeSummaryWriter] = {}
        cache: Any = tf.summary.FileWriterCache
        cache.get = staticmethod(lambda logdir: writers.setdefault(logdir, cls(logdir)))

    @classmethod
    def uninstall(cls) -> None:
        """Gives the place back.

        Raises:
            ValueError: If it does not have it.
        """
        if cls._installed is None:
            raise ValueError("FakeSummaryWriter not installed.")
        cache: Any = tf.summary.FileWriterCache
        cache.get = cls._installed
        cls._installed = None

    def __init__(self, logdir: str, graph: Any = None) -> None:
        """Takes the folder that a real one would write to."""
        self._logdir = logdir
        self._graph = graph
        self._summaries: dict[int, list[Any]] = collections.defaultdict(list)
        self._added_graphs: list[Any] = [] if graph is None else [graph]
        self._added_meta_graphs: list[Any] = []
        self._added_session_logs: list[Any] = []
        self._added_run_metadata: dict[str, Any] = {}

    @property
    def summaries(self) -> dict[int, list[Any]]:
        """The summaries by step."""
        return self._summaries

    def assert_summaries(
        self, test_case: Any, expected_logdir: Any = None, expected_graph: Any = None, expected_summaries: Any = None,
        expected_added_graphs: Any = None, expected_added_meta_graphs: Any = None, expected_session_logs: Any = None,
    ) -> None:  # fmt: skip
        """Checks what was added, by a test's own assertions."""
        if expected_logdir is not None:
            test_case.assertEqual(expected_logdir, self._logdir)
        if expected_graph is not None:
            test_case.assertTrue(expected_graph is self._graph)
        for step, tags in (expected_summaries or {}).items():
            test_case.assertIn(step, self._summaries)
            values = {value.tag: value.simple_value for each in self._summaries[step] for value in each.value}
            for tag, expected in tags.items():
                test_case.assertIn(tag, values)
                test_case.assertAlmostEqual(expected, values[tag], 4)
        if expected_added_graphs is not None:
            test_case.assertEqual(expected_added_graphs, self._added_graphs)
        if expected_added_meta_graphs is not None:
            test_case.assertEqual(expected_added_meta_graphs, self._added_meta_graphs)
        if expected_session_logs is not None:
            test_case.assertEqual(expected_session_logs, self._added_session_logs)

    def add_summary(self, summary: Any, current_global_step: int | None = None) -> None:
        """Keeps a Summary, parsed from bytes if need be."""
        if isinstance(summary, bytes):
            summary = tf.Summary.FromString(summary)
        self._summaries[int(current_global_step or 0)].append(summary)

    def add_graph(self, graph: Any, global_step: Any = None, graph_def: Any = None) -> None:
        """Keeps a graph.

        Raises:
            ValueError: If a step or a GraphDef is given, as in TensorFlow.
        """
        if global_step is not None or graph_def is not None:
            raise ValueError("a FakeSummaryWriter keeps graphs only, without a step or a GraphDef")
        self._added_graphs.append(graph)

    def add_meta_graph(self, meta_graph_def: Any, global_step: Any = None) -> None:
        """Keeps a MetaGraphDef.

        Raises:
            ValueError: If a step is given.
        """
        if global_step is not None:
            raise ValueError("a FakeSummaryWriter keeps MetaGraphDefs without a step")
        self._added_meta_graphs.append(meta_graph_def)

    def add_session_log(self, session_log: Any, global_step: Any = None) -> None:
        """Keeps a SessionLog."""
        self._added_session_logs.append(session_log)

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: Any = None) -> None:
        """Keeps RunMetadata by its tag.

        Raises:
            ValueError: If no tag is given, or it is known.
        """
        if not tag or tag in self._added_run_metadata:
            raise ValueError(f"RunMetadata needs a new tag, got {tag!r}")
        self._added_run_metadata[tag] = run_metadata

    def flush(self) -> None:
        """Does nothing: there is no file."""

    def reopen(self) -> None:
        """Does nothing: there is no file."""

    def close(self) -> None:
        """Does nothing: there is no file."""
