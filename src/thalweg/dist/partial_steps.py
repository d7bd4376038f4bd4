"""Partial runs between a client and a master in another process: each feed and each fetch is a call."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from thalweg import errors
from thalweg.dist.messages import messages
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.messages.tensor_proto import make_tensor_proto, read_only_array

_MOST_OF_SESSION = 1000


class RemotePartialStep:
    """The client's side of a running step, with the methods of the core's PartialStep."""

    def __init__(self, call: Callable[..., Any], session: str, step: int) -> None:
        """Starts a step that the master has installed, by its number."""
        self._call = call
        self._session = session
        self._number = call("start_partial", session=session, number=step).number

    def send(self, name: str, dtype: int, value: Any) -> None:
        """Feeds a value."""
        data = make_tensor_proto(value, as_dtype(dtype)).SerializeToString()
        self._call("feed_partial", session=self._session, number=self._number, name=name, value=data)

    def recv(self, name: str) -> Any:
        """Waits for a fetch."""
        from tensorboard.compat.proto.tensor_pb2 import TensorProto  # Start-up time: protobuf is slow to import.

        piece = self._call("fetch_partial", session=self._session, number=self._number, name=name)
        array = read_only_array(TensorProto.FromString(piece.value)).copy()
        return array if array.ndim else array[()]

    def __del__(self) -> None:
        if not hasattr(self, "_number") or sys.is_finalizing():
            return
        try:
            self._call("end_partial", 5000, session=self._session, number=self._number)
        except errors.OpError:
            pass  # The session is closed, or its master gone, and the step with it.


class PartialSteps:
    """The master's side: the steps of one session that are under way. Thread-safe."""

    def __init__(self) -> None:
        """Begins with none."""
        self._lock = threading.Lock()
        self._last = 0
        self._steps: dict[int, Any] = {}

    def add(self, start: Callable[[], Any]) -> int:
        """Starts a step: its number among those of the session.

        Raises:
            errors.ResourceExhaustedError: If too many are under way.
        """
        with self._lock:
            if len(self._steps) >= _MOST_OF_SESSION:
                raise errors.ResourceExhaustedError(
                    None, None, f"The session has {len(self._steps)} partial runs that have not ended."
                )
            step = start()
            self._last += 1
            self._steps[self._last] = step
            return self._last

    def _find(self, number: int) -> Any:
        with self._lock:
            found = self._steps.get(number)
        if found is None:
            raise errors.AbortedError(None, None, "The partial run has ended.")
        return found

    def feed(self, number: int, name: str, data: bytes) -> None:
        """Gives a step a value, as a serialized TensorProto."""
        # Start-up time: protobuf is slow to import.
        from google.protobuf.message import DecodeError
        from tensorboard.compat.proto.tensor_pb2 import TensorProto

        try:
            proto = TensorProto.FromString(data)
            array = read_only_array(proto)
        except (DecodeError, ValueError, TypeError) as e:
            raise errors.InvalidArgumentError(None, None, f"The feed {name} cannot be read: {e}") from None
        self._find(number).send(name, proto.dtype, array)

    def fetch(self, number: int, name: str) -> Any:
        """Waits for a value: a Piece."""
        return messages()["Piece"](value=make_tensor_proto(self._find(number).recv(name)).SerializeToString())

    def end(self, number: int) -> None:
        """Forgets a step, and ends it if it still runs."""
        with self._lock:
            step = self._steps.pop(number, None)
        del step  # Without the lock: this waits for the step's end.

    def close(self) -> None:
        """Ends all steps."""
        with self._lock:
            steps = list(self._steps.values())
            self._steps.clear()
        del steps
