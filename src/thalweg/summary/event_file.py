"""Event files: how they are named, written in order on a thread of their own, and read.

The caller only puts serialized events into a queue, which blocks when the disk cannot follow. Errors of the thread (a
full disk, a directory that was removed) are raised by the caller's next call.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import threading
import time
import weakref
from collections.abc import Iterator
from typing import IO, Any

from thalweg import errors
from thalweg.graph.definitions.op_registry import export
from thalweg.ops.files.record_format import framed, read_records
from thalweg.platform import gfile
from thalweg.platform.file_paths import local_path, os_errors
from thalweg.platform.remote_files import UploadedFile, is_remote


class EventFile:
    """One event file, written synchronously. It is created with its first event."""

    def __init__(self, logdir: str, suffix: str = "") -> None:
        """Names the folder, and what the file's name ends with."""
        self._logdir = logdir
        self._suffix = suffix
        self._file: IO[bytes] | None = None
        self._upload: UploadedFile | None = None  # of a folder elsewhere, where files cannot grow
        self.path = ""

    def _open(self) -> IO[bytes]:
        import socket

        from tensorboard.compat.proto.event_pb2 import Event  # Start-up time: protobuf is slow to import.

        now = time.time()
        second = int(now)
        while True:
            # Two writers of one second must not write into one file.
            name = f"events.out.tfevents.{second:010d}.{socket.gethostname()}{self._suffix}"
            self.path = os.path.join(self._logdir, name)
            with os_errors(self.path):
                try:
                    file = self._create()
                    break
                except FileExistsError:
                    second += 1
        event = Event(wall_time=now, file_version="brain.Event:2")
        event.source_metadata.writer = "thalweg.summary"
        file.write(framed(event.SerializeToString()))
        self._file = file
        return file

    def _create(self) -> IO[bytes]:
        if not is_remote(self.path):
            return open(local_path(self.path), "xb")
        upload = UploadedFile(self.path)
        if upload.exists():
            os.remove(upload.local)
            raise FileExistsError(self.path)
        self._upload = upload
        return open(upload.local, "wb")

    def write(self, event: bytes) -> None:
        """Appends a serialized Event."""
        file = self._file or self._open()
        with os_errors(self.path):
            file.write(framed(event))

    def flush(self) -> None:
        """Hands all events to the operating system; raises NotFoundError if the file was removed meanwhile."""
        file = self._file or self._open()
        with os_errors(self.path):
            file.flush()
        if self._upload is not None:
            self._upload.upload()
        elif not os.path.exists(local_path(self.path)):
            raise errors.NotFoundError(
                None, None, f"The events file {self.path} has disappeared: what was written since is lost."
            )

    def close(self) -> None:
        """Flushes and closes."""
        if self._file is None:
            return
        try:
            self.flush()
        finally:
            file, self._file = self._file, None
            try:
                with os_errors(self.path):
                    file.close()
            finally:
                # A failed flush leaves the descriptor open.
                with contextlib.suppress(OSError):
                    file.raw.close()  # type: ignore[attr-defined]
                upload, self._upload = self._upload, None
                if upload is not None:
                    upload.close()


class _Flush:
    """A request in the queue to flush the file, then to set `done`."""

    def __init__(self, last: bool = False) -> None:
        self.done = threading.Event()
        self.last = last


class _Worker(threading.Thread):
    """Moves events from the queue into the file."""

    def __init__(self, file: EventFile, max_queue: int, flush_secs: float) -> None:
        super().__init__(name="thalweg-events", daemon=True)
        self.queue: queue.Queue[bytes | _Flush] = queue.Queue(max(1, max_queue))
        self.error: Exception | None = None
        self._file = file
        self._flush_secs = flush_secs

    def run(self) -> None:
        """Works until the last flush. After an error, events are dropped, so that no caller waits for ever."""
        next_flush = time.monotonic() + self._flush_secs
        dirty = False
        while True:
            timeout = max(0.0, next_flush - time.monotonic()) if dirty else None
            try:
                item: bytes | _Flush | None = self.queue.get(timeout=timeout)
            except queue.Empty:
                item = None
            try:
                if self.error is None:
                    if isinstance(item, bytes):
                        self._file.write(item)
                        dirty = True
                    if not isinstance(item, bytes) or time.monotonic() >= next_flush:
                        self._file.flush()
                        dirty = False
            except Exception as e:
                self.error = e
                dirty = False
            if not dirty:
                next_flush = time.monotonic() + self._flush_secs
            if isinstance(item, _Flush):
                if item.last:
                    try:
                        self._file.close()
                    except Exception as e:
                        self.error = self.error or e
                item.done.set()
                if item.last:
                    return


_open_writers: weakref.WeakSet[EventFileWriter] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """A program that ends without closing its writers keeps its last events."""
    for writer in list(_open_writers):
        with contextlib.suppress(Exception):
            writer.close()


class EventFileWriter:
    """Writes events asynchronously to a file in a folder.

    Methods raise the error of the thread since the last call; after that, events are lost until `reopen`.
    """

    def __init__(
        self, logdir: Any, max_queue: int = 10, flush_secs: float = 120, filename_suffix: str | None = None
    ) -> None:
        """Creates the folder if it does not exist, and starts the thread."""
        self._logdir = os.fsdecode(logdir)
        gfile.MakeDirs(self._logdir)
        self._max_queue = 10 if max_queue is None else max_queue
        self._flush_secs = 120 if flush_secs is None else flush_secs
        self._suffix = filename_suffix or ""
        self._lock = threading.Lock()
        self._worker: _Worker | None = None
        self.reopen()

    def get_logdir(self) -> str:
        """Returns the folder."""
        return self._logdir

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._worker is None

    def reopen(self) -> None:
        """Starts a new file after `close`; does nothing before."""
        with self._lock:
            if self._worker is None:
                self._worker = _Worker(EventFile(self._logdir, self._suffix), self._max_queue, self._flush_secs)
                self._worker.start()
                _open_writers.add(self)

    def add_event(self, event: Any) -> None:
        """Queues an Event; waits while the queue is full. After `close`, does nothing."""
        worker = self._worker
        if worker is not None:
            self._raise_error(worker)
            worker.queue.put(event.SerializeToString())

    def flush(self) -> None:
        """Waits until all events are in the file."""
        worker = self._worker
        if worker is not None:
            self._flush_and_wait(worker, _Flush())

    def close(self) -> None:
        """Writes the queued events, closes the file and ends the thread."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            _open_writers.discard(self)
            self._flush_and_wait(worker, _Flush(last=True))
            worker.join()

    def _flush_and_wait(self, worker: _Worker, flush: _Flush) -> None:
        worker.queue.put(flush)
        while not flush.done.wait(1.0):
            if not worker.is_alive():  # Another thread closed the writer meanwhile.
                return
        self._raise_error(worker)

    @staticmethod
    def _raise_error(worker: _Worker) -> None:
        if worker.error is not None:
            raise worker.error

    def __del__(self) -> None:
        worker = getattr(self, "_worker", None)
        if worker is not None:
            worker.queue.put(_Flush(last=True))


@export("train.summary_iterator")
def summary_iterator(path: Any) -> Iterator[Any]:
    """Reads the Event messages of an event file.

    Raises:
        NotFoundError: If there is no such file.
        DataLossError: If it is damaged, or ends within an event.
    """
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.event_pb2 import Event  # Start-up time: protobuf is slow to import.

    for record in read_records(path):
        try:
            event = Event.FromString(record)
        except DecodeError as e:
            raise errors.DataLossError(None, None, f"{os.fsdecode(path)} has a record that is no Event: {e}") from None
        yield event
