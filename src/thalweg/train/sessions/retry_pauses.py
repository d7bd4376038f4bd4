"""Pauses between attempts to reach a task, or a model, that is not there yet."""

from __future__ import annotations

import random
import time
from typing import Final

from thalweg.platform import logging

_SHORTEST: Final = 0.03
# However long the wait has been, whoever comes back is noticed after so many seconds.
_LONGEST: Final = 2.0
_LOG_SECONDS: Final = 10.0


class RetryPauses:
    """Pauses that grow with the time since the first attempt: what has changed is noticed soon, and nobody is flooded.

    A pause is about an eighth of that time, so that a wait ends at most that much later than it could. It varies at
    random: workers that lost the same task do not come back in the same instant.
    """

    def __init__(self, longest: float = _LONGEST, limit: float = float("inf")) -> None:
        """Starts counting.

        Args:
            longest: The longest pause, in seconds, if that is less than two.
            limit: The seconds after which no further attempt is made.
        """
        self._longest = min(longest, _LONGEST)
        self._limit = limit
        self._start = time.monotonic()
        self._said = ("", 0.0)

    def say(self, what: str, reason: object) -> None:
        """Logs what is waited for: when that is new, and then every ten seconds."""
        said, when = self._said
        now = time.monotonic()
        if said != what or now - when > _LOG_SECONDS:
            self._said = (what, now)
            logging.info("%s (for %.0f s): %s", what, now - self._start, reason)

    def sleep(self) -> bool:
        """Sleeps until the next attempt is due. Returns False, at once, if the limit has passed."""
        elapsed = time.monotonic() - self._start
        if elapsed >= self._limit:
            return False
        pause = max(_SHORTEST, elapsed / 8) * (0.75 + random.random() / 2)
        time.sleep(min(self._longest, pause, self._limit - elapsed))
        return True
