"""tf.summary.FileWriter: writes summaries, graphs and run metadata to event files, which TensorBoard reads."""

from __future__ import annotations

import threading
import time
from typing import Any, ClassVar

from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.formats.meta_graph import create_meta_graph_def
from thalweg.graph.graph import Graph
from thalweg.platform import logging
from thalweg.summary.event_file import EventFileWriter


def meta_graph_of(graph: Any, saver: Any = None) -> Any:
    """A MetaGraphDef of a Graph or GraphDef, with the saver's definition but without collections."""
    graph_def = graph.as_graph_def(add_shapes=True) if isinstance(graph, Graph) else graph
    saver_def = None if saver is None else saver.saver_def
    return create_meta_graph_def(None, graph_def, saver_def, [], get_default_graph())


@export("summary.FileWriter", deprecated=("train.SummaryWriter",))
class FileWriter:
    """Writes Summary and Event messages to a file in a folder, on a thread of its own.

    Every method raises an error that the thread met since the last call, such as a full disk.

    Example:
        >>> writer = tf.summary.FileWriter(tf.test.get_temp_dir())
        >>> writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="loss", simple_value=0.5)]), 1)
        >>> writer.close()
    """

    def __init__(
        self,
        logdir: Any,
        graph: Any = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        graph_def: Any = None,
        filename_suffix: str | None = None,
        session: Any = None,
    ) -> None:
        """Opens a new event file.

        Args:
            logdir: The folder; it is created if it does not exist.
            graph: A Graph to write at once.
            max_queue: How many events may wait to be written before `add_*` waits too.
            flush_secs: How often events are handed to the operating system.
            graph_def: The old form of `graph`.
            filename_suffix: The end of the file's name.
            session: Accepted for TensorFlow's sake.
        """
        self._events = EventFileWriter(logdir, max_queue, flush_secs, filename_suffix)
        self._tags_with_metadata: set[str] = set()
        self._run_metadata_tags: set[str] = set()
        self._warned_closed = False
        if graph is not None or graph_def is not None:
            self.add_graph(graph=graph, graph_def=graph_def)
            self.add_meta_graph(meta_graph_of(graph if graph is not None else graph_def))

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def get_logdir(self) -> str:
        """Returns the folder that the file is in."""
        return self._events.get_logdir()

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """Writes a summary.

        Args:
            summary: A Summary, or a serialized one, as running a summary op gives it.
            global_step: The step to show it at.
        """
        from tensorboard.compat.proto.event_pb2 import Event  # Start-up time: protobuf is slow to import.
        from tensorboard.compat.proto.summary_pb2 import Summary

        if not isinstance(summary, Summary):
            summary = Summary.FromString(bytes(summary.numpy() if hasattr(summary, "numpy") else summary))
        event = Event(summary=summary)
        for value in event.summary.value:
            # TensorBoard needs the metadata of a tag once.
            if value.HasField("metadata"):
                if value.tag in self._tags_with_metadata:
                    value.ClearField("metadata")
                else:
                    self._tags_with_metadata.add(value.tag)
        self._add(event, global_step)

    def add_session_log(self, session_log: Any, global_step: Any = None) -> None:
        """Writes a SessionLog: that a session began, ended or saved a checkpoint."""
        from tensorboard.compat.proto.event_pb2 import Event  # Start-up time: protobuf is slow to import.

        self._add(Event(session_log=session_log), global_step)

    def add_graph(self, graph: Any = None, global_step: Any = None, graph_def: Any = None) -> None:
        """Writes a graph, with its static shapes.

        Args:
            graph: A Graph, or, as in old programs, a GraphDef.
            global_step: The step to show it at.
            graph_def: A GraphDef, in place of `graph`.

        Raises:
            ValueError: If both are given.
            TypeError: If neither is.
        """
        from tensorboard.compat.proto.event_pb2 import Event  # Start-up time: protobuf is slow to import.
        from tensorboard.compat.proto.graph_pb2 import GraphDef

        if graph is not None and graph_def is not None:
            raise ValueError("Please pass only graph, or graph_def (deprecated), but not both.")
        given = graph if graph is not None else graph_def
        if isinstance(given, Graph):
            given = given.as_graph_def(add_shapes=True)
        elif isinstance(given, GraphDef):
            if graph is not None:
                logging.warning("Passing a `GraphDef` as graph is deprecated. Pass a `Graph` instead.")
        else:
            raise TypeError(f"The passed graph must be an instance of `Graph` or `GraphDef`, got {given!r}.")
        self._add(Event(graph_def=given.SerializeToString()), global_step)

    def add_meta_graph(self, meta_graph_def: Any, global_step: Any = None) -> None:
        """Writes a MetaGraphDef."""
        from tensorboard.compat.proto.event_pb2 import Event  # Start-up time: protobuf is slow to import.
        from tensorboard.compat.proto.meta_graph_pb2 import MetaGraphDef

        if not isinstance(meta_graph_def, MetaGraphDef):
            raise TypeError(f"meta_graph_def must be type MetaGraphDef, saw type: {type(meta_graph_def)}")
        self._add(Event(meta_graph_def=meta_graph_def.SerializeToString()), global_step)

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: Any = None) -> None:
        """Writes the trace of one step, under a name that TensorBoard's graph page offers.

        Raises:
            ValueError: If this writer has used the tag before.
        """
        from tensorboard.compat.proto.event_pb2 import Event, TaggedRunMetadata  # Start-up time: protobuf.

        if tag in self._run_metadata_tags:
            raise ValueError(f"The provided tag was already used for this event type: {tag!r}")
        self._run_metadata_tags.add(tag)
        tagged = TaggedRunMetadata(tag=tag, run_metadata=run_metadata.SerializeToString())
        self._add(Event(tagged_run_metadata=tagged), global_step)

    def add_event(self, event: Any) -> None:
        """Writes an Event as it is."""
        self._warn_if_closed()
        self._events.add_event(event)

    def _add(self, event: Any, step: Any) -> None:
        event.wall_time = time.time()
        if step is not None:
            event.step = int(step)
        self.add_event(event)

    def flush(self) -> None:
        """Waits until all events are in the file."""
        self._warn_if_closed()
        self._events.flush()

    def close(self) -> None:
        """Writes all events and closes the file."""
        self._events.close()

    def reopen(self) -> None:
        """Goes on in a new file after `close`; does nothing otherwise."""
        self._events.reopen()
        self._warned_closed = False

    def _warn_if_closed(self) -> None:
        if self._events.closed and not self._warned_closed:
            self._warned_closed = True
            logging.warning(
                "Attempting to use a closed FileWriter. The operation will be a noop unless the FileWriter is "
                "explicitly reopened."
            )


@export("summary.FileWriterCache", deprecated=("train.SummaryWriterCache",))
class FileWriterCache:
    """One FileWriter per folder, for all of a program that writes there."""

    _cache: ClassVar[dict[str, FileWriter]] = {}
    _lock: ClassVar[threading.RLock] = threading.RLock()

    @staticmethod
    def clear() -> None:
        """Closes and forgets all of them."""
        with FileWriterCache._lock:
            writers = list(FileWriterCache._cache.values())
            FileWriterCache._cache.clear()
        for writer in writers:
            writer.close()

    @staticmethod
    def get(logdir: str) -> FileWriter:
        """Returns the writer of a folder; makes it if there is none."""
        with FileWriterCache._lock:
            writer = FileWriterCache._cache.get(logdir)
            if writer is None:
                writer = FileWriter(logdir, graph=get_default_graph())
                FileWriterCache._cache[logdir] = writer
            return writer
