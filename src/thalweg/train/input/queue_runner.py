"""Queue runners: threads that keep a queue filled by running its enqueue ops."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any

from thalweg import errors
from thalweg.graph.collections import GraphKeys
from thalweg.graph.default_graph import add_to_collection, get_collection, get_default_graph
from thalweg.graph.default_stack import get_default_session
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.formats.name_scoping import in_name_scope, prepend_name_scope, strip_name_scope
from thalweg.graph.formats.proto_functions import register_proto_function
from thalweg.graph.messages.runtime_messages import make_messages
from thalweg.platform import logging
from thalweg.train.coordinator import Coordinator

_CLOSED_TYPES = (errors.OutOfRangeError,)


@functools.cache
def queue_runner_def() -> Any:
    """The message class QueueRunnerDef, with TensorFlow's field numbers; the tensorboard package does not ship it."""
    fields = (
        ("queue_name", 1, "string"),
        ("enqueue_op_name", 2, "*string"),
        ("close_op_name", 3, "string"),
        ("cancel_op_name", 4, "string"),
        # An enum of error codes: the same bytes.
        ("queue_closed_exception_types", 5, "*int32"),
    )
    return make_messages("thalweg/queue_runner.proto", {"QueueRunnerDef": fields})["QueueRunnerDef"]


@export("train.QueueRunner", "train.queue_runner.QueueRunner")
class QueueRunner:
    """Keeps a list of enqueue ops of a queue running, each on a thread of its own.

    When the input of an enqueue op has ended, its thread ends; the last thread closes the queue. Any other
    exception stops the coordinator, whose `join` raises it.
    """

    # Whether the coordinator's `join` waits for the threads.
    _joins = True

    def __init__(
        self,
        queue: Any = None,
        enqueue_ops: Any = None,
        close_op: Any = None,
        cancel_op: Any = None,
        queue_closed_exception_types: Any = None,
        queue_runner_def: Any = None,
        import_scope: str | None = None,
    ) -> None:
        """Creates a runner.

        Args:
            queue: The queue.
            enqueue_ops: Ops to run, one thread each.
            close_op: Closes the queue; pending enqueues are still served. `queue.close()` if None.
            cancel_op: Closes the queue and cancels pending enqueues; by default its `close` with that argument.
            queue_closed_exception_types: Exceptions that mean that a queue was closed; `(OutOfRangeError,)` if None.
            queue_runner_def: A QueueRunnerDef to restore from, in place of all other arguments.
            import_scope: A name scope that the restored names are under.
        """
        if queue_runner_def is not None:
            if queue or enqueue_ops:
                raise ValueError("queue_runner_def and queue are mutually exclusive.")
            self._init_from_proto(queue_runner_def, import_scope)
        else:
            if queue is None or not enqueue_ops:
                raise ValueError("Must provide queue and enqueue_ops.")
            self._queue = queue
            self._enqueue_ops = list(enqueue_ops)
            self._close_op = queue.close() if close_op is None else close_op
            self._cancel_op = queue.close(cancel_pending_enqueues=True) if cancel_op is None else cancel_op
            types = _CLOSED_TYPES if queue_closed_exception_types is None else queue_closed_exception_types
            if (
                not isinstance(types, tuple)
                or not types
                or not all(isinstance(t, type) and issubclass(t, errors.OpError) for t in types)
            ):
                raise TypeError(
                    "queue_closed_exception_types, when provided, must be a tuple of tf.error types, but saw: "
                    f"{queue_closed_exception_types}"
                )
            self._queue_closed_exception_types: tuple[type[errors.OpError], ...] = types
        self._lock = threading.Lock()
        self._runs_per_session: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._exceptions_raised: list[Exception] = []

    def _init_from_proto(self, proto: Any, import_scope: str | None) -> None:
        def find(name: str) -> Any:
            return get_default_graph().as_graph_element(prepend_name_scope(name, import_scope))

        self._queue = find(proto.queue_name)
        self._enqueue_ops = [find(name) for name in proto.enqueue_op_name]
        self._close_op = find(proto.close_op_name)
        self._cancel_op = find(proto.cancel_op_name)
        codes = list(proto.queue_closed_exception_types)
        types = tuple(errors.exception_type_from_error_code(code) for code in codes)
        self._queue_closed_exception_types = types or _CLOSED_TYPES

    @property
    def queue(self) -> Any:
        """The queue."""
        return self._queue

    @property
    def enqueue_ops(self) -> list[Any]:
        """The ops that the threads run."""
        return self._enqueue_ops

    @property
    def close_op(self) -> Any:
        """The op that closes the queue."""
        return self._close_op

    @property
    def cancel_op(self) -> Any:
        """The op that closes the queue and cancels pending enqueues."""
        return self._cancel_op

    @property
    def queue_closed_exception_types(self) -> tuple[type[errors.OpError], ...]:
        """The exceptions that mean that a queue was closed."""
        return self._queue_closed_exception_types

    @property
    def exceptions_raised(self) -> list[Exception]:
        """Exceptions of the threads that no coordinator took."""
        return self._exceptions_raised

    @property
    def name(self) -> str:
        """The name of the queue."""
        return str(self._queue.name)

    def create_threads(
        self, sess: Any, coord: Coordinator | None = None, daemon: bool = False, start: bool = False
    ) -> list[threading.Thread]:
        """Makes the threads for a session; none if those of an earlier call for this session still run.

        Args:
            sess: The session that runs the ops.
            coord: Gets exceptions; when it stops, the queue is closed and pending enqueues are cancelled.
            daemon: Whether the program may end without waiting for the threads.
            start: Whether to start them.
        """
        with self._lock:
            if self._runs_per_session.get(sess, 0) > 0:
                return []
            self._runs_per_session[sess] = len(self._enqueue_ops)
            self._exceptions_raised = []
        threads = [
            threading.Thread(target=self._run, args=(sess, op, coord), name=f"QueueRunnerThread-{self.name}-{op.name}")
            for op in self._enqueue_ops
        ]
        if coord is not None:
            name = f"QueueRunnerThread-{self.name}-close_on_stop"
            threads.append(threading.Thread(target=self._close_on_stop, args=(sess, coord), name=name))
        for thread in threads:
            if coord is not None and self._joins:
                coord.register_thread(thread)
            thread.daemon = daemon
            if start:
                thread.start()
        return threads

    def _run(self, sess: Any, enqueue_op: Any, coord: Coordinator | None) -> None:
        decremented = False
        try:
            stopped = coord.should_stop if coord is not None else lambda: False
            while not stopped():
                try:
                    _enqueue_until(sess, enqueue_op, stopped)
                except self._queue_closed_exception_types:
                    with self._lock:
                        decremented = True
                        self._runs_per_session[sess] -= 1
                        is_last = self._runs_per_session[sess] == 0
                    if is_last:
                        try:
                            sess.run(self._close_op)
                        except Exception as e:  # The queue may be closed, or the session.
                            logging.vlog(1, "Ignored exception: %s", e)
                    return
        except Exception as e:
            if coord is not None:
                coord.request_stop(e)
            else:
                logging.error("Exception in QueueRunner: %s", e)
                with self._lock:
                    self._exceptions_raised.append(e)
                raise
        finally:
            if not decremented:
                with self._lock:
                    self._runs_per_session[sess] -= 1

    def _close_on_stop(self, sess: Any, coord: Coordinator) -> None:
        coord.wait_for_stop()
        try:
            sess.run(self._cancel_op)
        except Exception as e:  # The session may be closed already, which has the same effect.
            logging.vlog(1, "Ignored exception: %s", e)

    def to_proto(self, export_scope: str | None = None) -> Any:
        """Returns a QueueRunnerDef; None if the queue is outside of `export_scope`."""
        if not in_name_scope(self.name, export_scope):
            return None
        proto = queue_runner_def()(queue_name=strip_name_scope(self.name, export_scope))
        proto.enqueue_op_name.extend(strip_name_scope(op.name, export_scope) for op in self._enqueue_ops)
        proto.close_op_name = strip_name_scope(self._close_op.name, export_scope)
        proto.cancel_op_name = strip_name_scope(self._cancel_op.name, export_scope)
        proto.queue_closed_exception_types.extend(
            errors.error_code_from_exception_type(t) for t in self._queue_closed_exception_types
        )
        return proto

    @staticmethod
    def from_proto(queue_runner_def: Any, import_scope: str | None = None) -> QueueRunner:
        """Returns the runner that a QueueRunnerDef describes."""
        return QueueRunner(queue_runner_def=queue_runner_def, import_scope=import_scope)


def _enqueue_until(sess: Any, enqueue_op: Any, stopped: Callable[[], bool]) -> None:
    """Runs the op until it fails or `stopped` says so; in the core, if the session can."""
    if hasattr(sess, "_run_repeatedly") and not sess._timeout_ms:
        sess._run_repeatedly(enqueue_op, stopped)
        return
    enqueue = sess.make_callable(enqueue_op)
    while not stopped():
        enqueue()


@export("train.add_queue_runner", "train.queue_runner.add_queue_runner")
def add_queue_runner(qr: QueueRunner, collection: str = GraphKeys.QUEUE_RUNNERS) -> None:
    """Adds a runner to a collection of the graph, for `start_queue_runners` to find."""
    add_to_collection(collection, qr)


@export("train.start_queue_runners", "train.queue_runner.start_queue_runners")
def start_queue_runners(
    sess: Any = None,
    coord: Coordinator | None = None,
    daemon: bool = True,
    start: bool = True,
    collection: str = GraphKeys.QUEUE_RUNNERS,
) -> list[threading.Thread]:
    """Starts the threads of all runners of a collection.

    Args:
        sess: The session; the default one if None. For a monitored session, which has started them, nothing is done.
        coord: Gets exceptions, and says when to stop.
        daemon: Whether the program may end without waiting for the threads.
        start: Whether to start the threads, or only to make them.
        collection: The collection.

    Returns:
        The threads.

    Raises:
        ValueError: If there is no session.
    """
    if sess is None:
        sess = get_default_session()
        if sess is None:
            raise ValueError(
                "Cannot start queue runners: No default session is registered. Use `with sess.as_default()` or pass an "
                "explicit session to tf.start_queue_runners(sess=sess)"
            )
    if not hasattr(sess, "make_callable"):
        if type(sess).__name__ in ("MonitoredSession", "SingularMonitoredSession"):
            return []
        raise TypeError(f"sess must be a `tf.Session` object. Given class: {type(sess)}")
    with sess.graph.as_default():
        runners = get_collection(collection)
    return [
        thread for runner in runners for thread in runner.create_threads(sess, coord=coord, daemon=daemon, start=start)
    ]


class _LazyQueueRunnerDef:
    """Makes the message class when a graph with queue runners is imported."""

    __name__ = "QueueRunnerDef"

    @staticmethod
    def FromString(data: bytes) -> Any:
        return queue_runner_def().FromString(data)


register_proto_function(
    GraphKeys.QUEUE_RUNNERS,
    _LazyQueueRunnerDef(),
    lambda runner, export_scope=None: runner.to_proto(export_scope),
    lambda proto, import_scope=None: QueueRunner.from_proto(proto, import_scope),
)
