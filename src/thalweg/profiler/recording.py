"""Records the steps that sessions run within a block of code, or a whole program, for profiles.

While a recording is open it replaces `Session.run`: without one, steps have no overhead.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from types import TracebackType
from typing import Any, Final, NamedTuple

from thalweg.graph.nest import flatten
from thalweg.profiler.step_records import records_of
from thalweg.profiler.tables import Profile
from thalweg.profiler.timeline import trace_events
from thalweg.runtime import numerics
from thalweg.runtime.run_metadata import fill
from thalweg.runtime.session import BaseSession

_FULL_TRACE: Final = 3  # RunOptions.FULL_TRACE


class TracedStep(NamedTuple):
    """One traced step.

    Attributes:
        graph: Its graph.
        key: Identifies its compiled step.
        name: The fetches, as text.
        step_stats: The serialized StepStats.
        seconds: How long `Session.run` took.
    """

    graph: Any
    key: int
    name: str
    step_stats: bytes
    seconds: float


class Recording:
    """Traces steps of all sessions between entering and leaving it. Any number of threads may run steps meanwhile.

    Example:
        >>> x = tf.placeholder(tf.float32, [2, 2])
        >>> y = tf.matmul(x, x, name="y")
        >>> with tf.profiler.record() as recording, tf.Session() as sess:
        ...     _ = sess.run(y, {x: [[1.0, 2.0], [3.0, 4.0]]})
        >>> sorted(row.key for row in recording.profile().by_op())
        ['MatMul', '_Arg']
    """

    def __init__(self, every: int = 1, steps: int | None = 100) -> None:
        """Takes which steps to trace.

        Args:
            every: Traces every n-th step, beginning with the first.
            steps: Traces so many at most; None: all.
        """
        if every < 1:
            raise ValueError(f"`every` must be at least 1, got {every}.")
        if steps is not None and steps < 1:
            raise ValueError(f"`steps` must be at least 1 or None, got {steps}.")
        self._every, self._most = every, steps
        self._lock = threading.Lock()
        self._compiled: list[Any] = []  # Keeps compiled steps alive, so that their addresses identify them.
        self.traced: list[TracedStep] = []
        self.untraced: Counter[str] = Counter()  # how often steps ran without a trace, by their fetches
        self.count = 0  # steps that ran, traced or not
        self.seconds = 0.0  # that they took
        self.elapsed = 0.0
        self._num_candidates = 0

    def __enter__(self) -> Recording:
        """Begins."""
        self._before = BaseSession.run
        self._began = time.perf_counter()
        recording, before = self, self._before

        def run(
            session: Any, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
        ) -> Any:
            return recording._run(before, session, fetches, feed_dict, options, run_metadata)

        run.__doc__ = before.__doc__
        setattr(BaseSession, "run", run)  # noqa: B010 (mypy will not have a method assigned)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Ends."""
        setattr(BaseSession, "run", self._before)  # noqa: B010
        self.elapsed += time.perf_counter() - self._began

    def _is_due(self) -> bool:
        with self._lock:
            due = self._num_candidates % self._every == 0 and (self._most is None or len(self.traced) < self._most)
            self._num_candidates += 1
            return due

    def _run(self, before: Any, session: Any, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> Any:
        start = time.perf_counter()
        spent = None  # seconds of the step alone, without the work for its trace
        traced = False
        try:
            # A step that its program traces has its trace anyway.
            own = run_metadata is not None and options is not None and options.trace_level > 0
            if own or not self._is_due():
                result = before(session, fetches, feed_dict, options, run_metadata)
                spent = time.perf_counter() - start
                if own:
                    name = _in_words(fetches)
                    self._add(TracedStep(session.graph, hash(name), name, _stats(run_metadata), spent))
                    traced = True
                return result
            if options is not None or run_metadata is not None:
                result, stats, spent = _run_with_trace(before, session, fetches, feed_dict, options, run_metadata)
                name = _in_words(fetches)
                self._add(TracedStep(session.graph, hash(name), name, stats, spent))
                traced = True
                return result
            result, ran, trace = session._run_traced(fetches, feed_dict, session._timeout_ms)
            spent = time.perf_counter() - start
            metadata = _new_metadata()
            fill(metadata, ran.compiled, trace, ran.installed.planned)
            self._compiled.append(ran.compiled)
            self._add(TracedStep(session.graph, id(ran.compiled), _in_words(fetches), _stats(metadata), spent))
            traced = True
            return result
        finally:
            with self._lock:
                self.count += 1
                self.seconds += time.perf_counter() - start if spent is None else spent
                if not traced:
                    self.untraced[_in_words(fetches)] += 1

    def _add(self, step: TracedStep) -> None:
        with self._lock:
            self.traced.append(step)

    def profile(self) -> Profile:
        """The profile of the traced steps. The first run of a step, which compiles it, counts only if it is alone."""
        from tensorboard.compat.proto.step_stats_pb2 import StepStats  # Start-up time: protobuf is slow to import.

        profile = Profile(self.count, self.seconds, self.elapsed, len(self.traced), self.untraced)
        runs: dict[int, int] = {}
        for step in self.traced:
            runs[step.key] = runs.get(step.key, 0) + 1
        met: set[int] = set()
        for step in self.traced:
            warm = step.key in met or runs[step.key] == 1
            met.add(step.key)
            profile.add(
                records_of(StepStats.FromString(step.step_stats)), step.graph, step.key, step.name, step.seconds, warm
            )
        return profile

    def write_trace(self, path: str) -> None:
        """Writes all traced steps as one Chrome trace with arrows and memory."""
        from tensorboard.compat.proto.step_stats_pb2 import StepStats  # Start-up time: protobuf is slow to import.

        stats = StepStats()
        devices: dict[str, Any] = {}
        for step in self.traced:
            for device in StepStats.FromString(step.step_stats).dev_stats:
                if device.device not in devices:
                    devices[device.device] = stats.dev_stats.add(device=device.device)
                devices[device.device].node_stats.extend(device.node_stats)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": trace_events(records_of(stats), show_memory=True)}, file)


def record(every: int = 1, steps: int | None = 100) -> Recording:
    """Traces the steps that sessions run in a `with` block; see `Recording`."""
    return Recording(every, steps)


def _run_with_trace(
    before: Any, session: Any, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any
) -> tuple[Any, bytes, float]:
    """Runs a step with options of its own, such as a numeric check, and traces it beside them.

    Returns:
        The result, the serialized StepStats, and the seconds of the step. The program's RunMetadata has what it would
        have without the trace.
    """
    from tensorboard.compat.proto.config_pb2 import RunOptions  # Start-up time: protobuf is slow to import.

    traced, metadata = RunOptions(trace_level=_FULL_TRACE), _new_metadata()
    if options is not None:
        traced.MergeFrom(options)
        traced.trace_level = _FULL_TRACE
    start = time.perf_counter()
    result = before(session, fetches, feed_dict, traced, metadata)
    spent = time.perf_counter() - start
    stats = _stats(metadata)
    found = numerics.origins(metadata)
    if run_metadata is None:
        if found:  # Without a RunMetadata for its findings, a check raises.
            raise numerics.error(found[0], session.graph)
        return result, stats, spent
    findings = [device for device in metadata.step_stats.dev_stats if numerics.is_findings(device)]
    run_metadata.CopyFrom(metadata)
    run_metadata.ClearField("step_stats")
    if findings:
        run_metadata.step_stats.dev_stats.extend(findings)
    return result, stats, spent


def _new_metadata() -> Any:
    from tensorboard.compat.proto.config_pb2 import RunMetadata  # Start-up time: protobuf is slow to import.

    return RunMetadata()


def _stats(metadata: Any) -> bytes:
    stats: bytes = metadata.step_stats.SerializeToString()
    return stats


def _in_words(fetches: Any) -> str:
    """The fetches as short text."""
    try:
        names = [str(getattr(fetch, "name", fetch)) for fetch in flatten(fetches)]
    except (TypeError, ValueError):
        names = [type(fetches).__name__]
    text = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return text or "nothing"
