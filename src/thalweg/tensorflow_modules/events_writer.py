"""`tensorflow.python.pywrap_tensorflow.EventsWriter`: an event file written event by event."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from thalweg.contrib.public_names import tf


class EventsWriter:
    """Appends Event messages to the file `<prefix>.out.tfevents.<time>.<host>`.

    Args:
        file_prefix: The path up to that part, as str or bytes.
    """

    def __init__(self, file_prefix: Any) -> None:
        """Opens the file when the first event comes."""
        self._prefix = tf.compat.as_str_any(file_prefix)
        self._suffix = ""
        self._name = ""
        self._writer: Any = None

    def InitWithSuffix(self, suffix: Any) -> None:
        """Appends a suffix to the name of the file."""
        self._suffix = tf.compat.as_str_any(suffix)

    def FileName(self) -> bytes:
        """The name of the file, which is opened if it never was."""
        if not self._name:
            self._open()
        return os.fsencode(self._name)

    def _open(self) -> None:
        if self._writer is not None:
            return
        now = time.time()
        self._name = f"{self._prefix}.out.tfevents.{int(now):010d}.{socket.gethostname()}{self._suffix}"
        self._writer = tf.python_io.TFRecordWriter(self._name)
        self.WriteEvent(tf.Event(wall_time=now, file_version="brain.Event:2"))

    def WriteEvent(self, event: Any) -> None:
        """Writes one event."""
        self._open()
        self._writer.write(event.SerializeToString())

    def Flush(self) -> bool:
        """Puts what has been written into the file."""
        if self._writer is not None:
            self._writer.flush()
        return True

    def Close(self) -> bool:
        """Closes the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        return True
