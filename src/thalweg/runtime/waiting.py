"""Steps that take long: a warning that says what they wait for, and a list of all that are under way.

A step that waits for a queue which nobody fills would otherwise hang without a word. The core calls `_warn` once for
each step that takes longer than some seconds, on the thread that waits for it.
"""

from __future__ import annotations

import re
import signal
import sys
import threading
import traceback
import weakref
from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING, Any, Final

from thalweg._native import core
from thalweg.errors import creation_line
from thalweg.platform import logging
from thalweg.runtime.trace import TracedNode

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph
    from thalweg.graph.operation import Operation

_AFTER_SECONDS: Final = 10.0
# Op types that wait for something outside of their step.
_TAKES: Final = re.compile(r"QueueDequeue|QueueTake|BarrierTakeMany|AccumulatorTakeGradient|ReaderRead")
_WAITS: Final = re.compile(
    r"QueueEnqueue|BarrierInsert|MutexLock|^_?(Host)?Recv$|Unstage|StagePeek|MapPeek|^Stage$|^(Ordered)?MapStage$|"
    r"IteratorGetNext|^Collective|PyFunc|EagerPyFunc"
)
_sessions: weakref.WeakSet[Any] = weakref.WeakSet()
_seconds = _AFTER_SECONDS
_warned: set[frozenset[str]] = set()  # the waiting nodes of steps that were warned of
_lock = threading.Lock()


def watch(session: Any) -> None:
    """Makes a session known: the graphs of sessions say what the nodes of a step are."""
    _sessions.add(session)
    core.set_long_step_hook(_seconds, _warn)


def warn_of_waiting_steps(seconds: float = _AFTER_SECONDS) -> None:
    """Sets after how many seconds a step that waits for a queue, a lock or a peer is warned of; 0: never.

    The warning names the operations that may be waiting, who should fill their queue, and whether a queue runner was
    started. It appears once for each kind of step.
    """
    global _seconds
    if not seconds >= 0:
        raise ValueError(f"`seconds` must not be negative, got {seconds}.")
    _seconds = float(seconds)
    core.set_long_step_hook(_seconds, _warn)


def _warn(seconds: float, nodes: Sequence[Any]) -> None:
    try:
        traced = [TracedNode(*node) for node in nodes]
        waiting = _waiting(traced)
        key = frozenset(node.name for node in waiting)
        with _lock:
            if not waiting or key in _warned:
                return
            _warned.add(key)
        lines = _described(waiting, _graph_of(traced))
        logging.warning("A step has not ended for %.0f seconds. It may be waiting for:\n%s", seconds, "\n".join(lines))
    except Exception:  # The step goes on, whatever is wrong with the warning.
        logging.error("A step that takes long could not be described:\n%s", traceback.format_exc())


def _waiting(nodes: Iterable[TracedNode]) -> list[TracedNode]:
    return [node for node in nodes if _TAKES.search(node.op) or _WAITS.search(node.op)]


def _graph_of(nodes: Sequence[TracedNode]) -> Graph | None:
    """The graph of a session that has most of the nodes."""
    names = [node.name for node in nodes]

    def known(graph: Any) -> int:
        return sum(name in graph._operations_by_name for name in names)

    graphs = [session.graph for session in list(_sessions)]
    return max(graphs, key=known, default=None)


def _described(waiting: Sequence[TracedNode], graph: Graph | None) -> list[str]:
    lines = []
    for node in waiting:
        op = graph._operations_by_name.get(node.name) if graph is not None else None
        where = creation_line(op) if op is not None else None
        lines.append(f"  {node.name} ({node.op})" + (f", created at {where}" if where else ""))
        if op is not None and op.inputs and _TAKES.search(node.op):
            lines.extend(f"    {line}" for line in _fillers(op))
    return lines


def _fillers(taker: Operation) -> list[str]:
    """Who should fill the queue that an operation takes from."""
    queue = taker.inputs[0]
    fill = [op for op in queue.consumers() if "Enqueue" in op.type or "Insert" in op.type or "Apply" in op.type]
    runners = [
        runner for runner in queue.graph.get_collection("queue_runners")
        if any(op in fill for op in getattr(runner, "enqueue_ops", ()))
    ]  # fmt: skip
    if not fill:
        return [f"Nothing in the graph fills '{queue.op.name}'."]
    names = ", ".join(op.name for op in fill[:3]) + (f" and {len(fill) - 3} more" if len(fill) > 3 else "")
    found = [f"'{queue.op.name}' is filled by {names}."]
    if not runners:
        found.append("There is no tf.train.QueueRunner for it: some thread of the program has to run that.")
    elif not any(runner._runs_per_session for runner in runners):
        found.append(
            "Its queue runner was not started: call tf.train.start_queue_runners(session), or use a "
            "tf.train.MonitoredSession."
        )
    else:
        found.append("Its queue runner was started.")
    return found


def dump_steps(file: IO[str] | None = None) -> None:
    r"""Writes where every step stands that has not ended at once: for how long, for whom, and what may be waiting.

    Args:
        file: Where to write; the standard error stream if None.

    Example:
        >>> import io
        >>> out = io.StringIO()
        >>> tf.debugging.dump_steps(out)
        >>> out.getvalue()
        'No step is under way, or none for long.\n'
    """
    out = sys.stderr if file is None else file
    steps = core.long_steps()
    if not steps:
        out.write("No step is under way, or none for long.\n")
    frames = sys._current_frames()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for seconds, thread, nodes in steps:
        traced = [TracedNode(*node) for node in nodes]
        waiting = _waiting(traced)
        out.write(f"A step of {len(traced)} nodes, for {seconds:.1f} s, in thread {names.get(thread, thread)}.\n")
        for line in _described(waiting, _graph_of(traced)):
            out.write(line + "\n")
        if not waiting:
            out.write("  It waits for nothing outside: it computes.\n")
        if thread in frames:
            out.write("".join(traceback.format_stack(frames[thread])))
    out.flush()


def dump_steps_on_signal(signal_number: int = signal.SIGUSR1) -> None:
    """From now on `kill -USR1` makes this process write `tf.debugging.dump_steps()`; call it on the main thread."""
    signal.signal(signal_number, lambda *_: dump_steps())
