"""Repeated: lets one message of each kind through in a while, so that strangers cannot fill a log."""

from __future__ import annotations

import threading
import time

_MOST_KINDS = 1000


class Repeated:
    """Counts messages by kind. Thread-safe."""

    def __init__(self, seconds: float) -> None:
        """Takes how long messages of a kind are suppressed after one of them."""
        self._seconds = seconds
        self._lock = threading.Lock()
        self._kinds: dict[str, tuple[float, int]] = {}  # when the last one went through, and how many came since

    def suppressed(self, kind: str) -> int | None:
        """How many messages of a kind were suppressed since the last one; None: suppress this one, too."""
        now = time.monotonic()
        with self._lock:
            then, count = self._kinds.get(kind, (-self._seconds, 0))
            if now - then < self._seconds:
                self._kinds[kind] = (then, count + 1)
                return None
            if len(self._kinds) >= _MOST_KINDS:
                self._kinds.clear()
            self._kinds[kind] = (now, 0)
            return count
