"""tf.contrib.summary: summaries written by an operation, by way of a Python function, or at once."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export

_INIT: Final = "_SUMMARY_WRITER_INIT"
_OPS: Final = "_SUMMARY_COLLECTION_V2"
_state: Final = threading.local()


def _current() -> Any:
    return getattr(_state, "writer", None)


@export("contrib.summary.SummaryWriter")
class SummaryWriter:
    """A writer of event files; `as_default` makes the summaries of a block go to it."""

    def __init__(self, logdir: str, filename_suffix: str | None = None, flush_secs: float = 120) -> None:
        """Takes the folder."""
        self._logdir, self._suffix, self._flush_secs = logdir, filename_suffix, flush_secs
        self._file: Any = None
        self._lock = threading.Lock()

    def _open(self) -> Any:
        with self._lock:
            if self._file is None:
                self._file = tf.summary.FileWriter(
                    self._logdir, flush_secs=int(self._flush_secs), filename_suffix=self._suffix
                )
            return self._file

    @contextlib.contextmanager
    def as_default(self) -> Iterator[SummaryWriter]:
        """A context in which summaries go to this writer."""
        before = _current()
        _state.writer = self
        try:
            yield self
        finally:
            _state.writer = before

    def set_as_default(self) -> None:
        """Makes summaries of this thread go to this writer."""
        _state.writer = self

    def init(self) -> Any:
        """An operation that opens the file; opens it where ops run at once."""
        return _operation(self._open, "init_summary_writer")

    def flush(self) -> Any:
        """An operation that writes what is waiting; writes it where ops run at once."""
        return _operation(lambda: self._open().flush(), "flush_summary_writer")

    def close(self) -> Any:
        """An operation that closes the file; closes it where ops run at once."""
        return _operation(lambda: self._open().close(), "close_summary_writer")


def _operation(function: Callable[[], Any], name: str) -> Any:
    """An operation that calls a function; None where ops run at once, after the call."""
    if tf.executing_eagerly():
        function()
        return None

    def run() -> Any:
        function()
        return np.int64(0)

    return tf.py_func(run, [], tf.int64, name=name).op


@export("contrib.summary.create_file_writer")
def create_file_writer(
    logdir: str | None, max_queue: Any = None, flush_millis: int | None = None, filename_suffix: str | None = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """A writer of event files in a folder; None writes nothing."""
    if logdir is None:
        return _Nothing()
    writer = SummaryWriter(logdir, filename_suffix, (flush_millis or 120000) / 1000)
    opened = writer.init()
    if opened is not None:
        tf.add_to_collection(_INIT, opened)
    return writer


class _Nothing:
    """A writer that writes nothing."""

    @contextlib.contextmanager
    def as_default(self) -> Iterator[None]:
        before = _current()
        _state.writer = None
        try:
            yield
        finally:
            _state.writer = before

    def set_as_default(self) -> None:
        _state.writer = None


@export("contrib.summary.summary_writer_initializer_op")
def summary_writer_initializer_op() -> list[Any]:
    """The operations that open the files of the graph's writers."""
    return list(tf.get_collection(_INIT))


@export("contrib.summary.initialize")
def initialize(graph: Any = None, session: Any = None) -> None:
    """Opens the files of the graph's writers, and writes a graph."""
    session = session or tf.get_default_session()
    if session is None:
        raise ValueError("session must be not None in graph mode")
    session.run(summary_writer_initializer_op())
    if graph is not None and _current() is not None:
        _current()._open().add_graph(graph)


@export("contrib.summary.all_summary_ops")
def all_summary_ops() -> list[Any]:
    """All operations that write summaries."""
    return list(tf.get_collection(_OPS))


@contextlib.contextmanager
def _recording(condition: Any) -> Iterator[None]:
    before = getattr(_state, "should_record", False)
    _state.should_record = condition
    try:
        yield
    finally:
        _state.should_record = before


@export("contrib.summary.always_record_summaries")
def always_record_summaries() -> Any:
    """A context in which summaries are written at each step."""
    return _recording(True)


@export("contrib.summary.never_record_summaries")
def never_record_summaries() -> Any:
    """A context in which no summaries are written."""
    return _recording(False)


@export("contrib.summary.record_summaries_every_n_global_steps")
def record_summaries_every_n_global_steps(n: int, global_step: Any = None) -> Any:
    """A context in which summaries are written at every n-th step."""
    step = tf.train.get_or_create_global_step() if global_step is None else global_step
    return _recording(lambda: tf.equal(tf.mod(tf.cast(step, tf.int64), n), 0))


@export("contrib.summary.should_record_summaries")
def should_record_summaries() -> Any:
    """Whether summaries are written: a bool, or a tensor."""
    given = getattr(_state, "should_record", False)
    return given() if callable(given) else given


def _write(name: str, tensor: Any, step: Any, family: str | None, make: Any) -> Any:
    """An operation that writes one value, if there is a writer and summaries are recorded.

    Where ops run at once, it is written now, and there is no operation.
    """
    writer, record = _current(), getattr(_state, "should_record", False)
    if writer is None or record is False:
        return tf.no_op()
    tag = f"{family}/{name}" if family else name
    with tf.name_scope(name):
        number = tf.cast(tf.train.get_or_create_global_step() if step is None else step, tf.int64)

        def run(value: Any, at: Any) -> Any:
            writer._open().add_event(tf.Event(wall_time=time.time(), step=int(at), summary=make(tag, value)))
            return np.bool_(True)

        if tf.executing_eagerly():
            if not callable(record) or record():
                run(tf.convert_to_tensor(tensor).numpy(), number.numpy())
            return None

        def write() -> Any:
            return tf.py_func(run, [tensor, number], tf.bool)

        condition = record() if callable(record) else tf.constant(True)
        written = tf.cond(condition, write, lambda: tf.constant(False)).op
    tf.add_to_collection(_OPS, written)
    return written


@export("contrib.summary.scalar")
def scalar(name: str, tensor: Any, family: str | None = None, step: Any = None) -> Any:
    """Writes a number."""

    def make(tag: str, value: Any) -> Any:
        return tf.Summary(value=[tf.Summary.Value(tag=tag, simple_value=float(value))])

    return _write(name, tf.cast(tensor, tf.float64), step, family, make)


def _by_summary(function: Any, name: str, tensor: Any, family: str | None, step: Any, **options: Any) -> Any:
    """Writes what one of the functions of tf.summary makes."""
    if _current() is None or getattr(_state, "should_record", False) is False:
        return tf.no_op()
    serialized = function(name, tensor, collections=[], family=family, **options)

    def make(tag: str, value: Any) -> Any:
        return tf.Summary.FromString(value)

    return _write(name, serialized, step, None, make)


@export("contrib.summary.histogram")
def histogram(name: str, tensor: Any, family: str | None = None, step: Any = None) -> Any:
    """Writes the distribution of numbers."""
    return _by_summary(tf.summary.histogram, name, tensor, family, step)


@export("contrib.summary.image")
def image(
    name: str, tensor: Any, bad_color: Any = None, max_images: int = 3, family: str | None = None, step: Any = None
) -> Any:
    """Writes images."""
    return _by_summary(tf.summary.image, name, tensor, family, step, max_outputs=max_images)


@export("contrib.summary.audio")
def audio(
    name: str, tensor: Any, sample_rate: Any, max_outputs: int, family: str | None = None, step: Any = None
) -> Any:
    """Writes sounds."""
    return _by_summary(tf.summary.audio, name, tensor, family, step, sample_rate=sample_rate, max_outputs=max_outputs)


@export("contrib.summary.flush")
def flush(writer: Any = None, name: str | None = None) -> Any:
    """An operation that writes what is waiting."""
    chosen = writer or _current()
    return tf.no_op() if chosen is None else chosen.flush()
