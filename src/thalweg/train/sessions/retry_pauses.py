"""Pauses between attempts to reach a task, or a model, that is not there yet."""

from __future__ import annotations

import time
from typing import Final

_SHORTEST: Final = 0.05


class RetryPauses:
    """Pauses that grow with the time since the first attempt: what has changed is noticed soon, and nobody is flooded.

    A pause is a quarter of that time, so that a wait ends at most a quarter later than it could.
    """

    def __init__(self, longest: float, limit: float = float("inf")) -> None:
        """Starts counting.

        Args:
            longest: The longest pause, in seconds.
            limit: The seconds after which no further attempt is made.
        """
        self._longest = longest
        self._limit = limit
        self._start = time.monotonic()

    def sleep(self) -> bool:
        """Sleeps until the next attempt is due. Returns False, at once, if the limit has passed."""
        elapsed = time.monotonic() - self._start
        if elapsed >= self._limit:
            return False
        time.sleep(min(self._longest, max(_SHORTEST, elapsed / 4), self._limit - elapsed))
        return True
