"""`tf.logging`: messages of Thalweg and of programs, on the standard library's logger "thalweg".

Lines look as TensorFlow prints them, `I1115 22:17:09.123456 4711 train.py:12] step 100`, on the standard error stream.
A program that sets up logging itself (gives the root logger a handler) gets the messages there, and only there. The
standard library's logging is loaded with the first message, to keep `import thalweg` fast.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import logging as stdlib_logging

DEBUG: Final = 10
INFO: Final = 20
WARN: Final = 30
ERROR: Final = 40
FATAL: Final = 50

_lock: Final = threading.Lock()
_logger: stdlib_logging.Logger | None = None
# How often each call has been made, by file, line and instruction: one line may hold several calls.
_counts: Final[dict[tuple[str, int, int], int]] = {}


def get_logger() -> stdlib_logging.Logger:
    """The standard library's logger behind this module, for a program that wants to add a handler."""
    return _logger or _make_logger()


def _make_logger() -> stdlib_logging.Logger:
    global _logger
    import logging as stdlib_logging
    import time

    class GlogFormatter(stdlib_logging.Formatter):
        """Puts level, time, thread and place before a message, as Google's logging library does."""

        def format(self, record: stdlib_logging.LogRecord) -> str:
            level = "F" if record.levelno >= FATAL else record.levelname[:1]
            day = time.strftime("%m%d %H:%M:%S", time.localtime(record.created))
            micros = int(record.created % 1 * 1e6)
            place = f"{record.filename}:{record.lineno}"
            return f"{level}{day}.{micros:06d} {record.thread} {place}] {super().format(record)}"

    class StderrHandler(stdlib_logging.Handler):
        """Writes to the current sys.stderr, unless the root logger's handlers take care of the message."""

        def emit(self, record: stdlib_logging.LogRecord) -> None:
            if stdlib_logging.getLogger().handlers:
                return
            try:
                sys.stderr.write(self.format(record) + "\n")
                sys.stderr.flush()
            except Exception:
                self.handleError(record)

    with _lock:
        if _logger is None:
            logger = stdlib_logging.getLogger("thalweg")
            if logger.level == stdlib_logging.NOTSET:
                logger.setLevel(WARN)
            handler = StderrHandler()
            handler.setFormatter(GlogFormatter())
            logger.addHandler(handler)
            _logger = logger
        return _logger


# The `stacklevel` of every call makes the line of the message that of the user's call: 2 is the caller of the function
# below in which it is written.


def log(level: int, msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs `msg % args` at a level: DEBUG, INFO, WARN, ERROR or FATAL."""
    get_logger().log(level, msg, *args, stacklevel=2, **kwargs)


def debug(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs `msg % args` at the level DEBUG."""
    get_logger().log(DEBUG, msg, *args, stacklevel=2, **kwargs)


def info(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs `msg % args` at the level INFO."""
    get_logger().log(INFO, msg, *args, stacklevel=2, **kwargs)


def warning(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs `msg % args` at the level WARN."""
    get_logger().log(WARN, msg, *args, stacklevel=2, **kwargs)


warn = warning


def error(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs `msg % args` at the level ERROR."""
    get_logger().log(ERROR, msg, *args, stacklevel=2, **kwargs)


def fatal(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs `msg % args` at the level FATAL. The program goes on."""
    get_logger().log(FATAL, msg, *args, stacklevel=2, **kwargs)


def vlog(level: int, msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs `msg % args` at a level given as a number: the smaller, the more verbose."""
    get_logger().log(level, msg, *args, stacklevel=2, **kwargs)


def log_if(level: int, msg: Any, condition: Any, *args: Any) -> None:
    """Logs `msg % args` at a level if the condition holds."""
    if condition:
        get_logger().log(level, msg, *args, stacklevel=2)


def log_every_n(level: int, msg: Any, n: int, *args: Any) -> None:
    """Logs `msg % args` the first time this call of the program is made, and every `n` times after that."""
    if _count_call() % n == 0:
        get_logger().log(level, msg, *args, stacklevel=2)


def log_first_n(level: int, msg: Any, n: int, *args: Any) -> None:
    """Logs `msg % args` the first `n` times this call of the program is made."""
    if _count_call() < n:
        get_logger().log(level, msg, *args, stacklevel=2)


def _count_call() -> int:
    """How often the call that led to this function's caller had been made before."""
    frame = sys._getframe(2)
    key = (frame.f_code.co_filename, frame.f_lineno, frame.f_lasti)
    with _lock:
        count = _counts.get(key, 0)
        _counts[key] = count + 1
    return count


def TaskLevelStatusMessage(msg: Any) -> None:
    """Logs a message about the state of the whole task, at the level ERROR."""
    get_logger().log(ERROR, msg, stacklevel=2)


def flush() -> None:
    """Flushes the handlers."""
    for handler in get_logger().handlers:
        handler.flush()


def get_verbosity() -> int:
    """The level below which messages are dropped; WARN unless `set_verbosity` changed it."""
    return get_logger().getEffectiveLevel()


def set_verbosity(v: int | str) -> None:
    """Drops messages below a level, given as a number or a name.

    Raises:
        ValueError: If `v` names no level.
        TypeError: If `v` is neither a number nor a name.
    """
    if isinstance(v, str):
        levels = {"DEBUG": DEBUG, "INFO": INFO, "WARN": WARN, "WARNING": WARN, "ERROR": ERROR, "FATAL": FATAL}
        if v.upper() not in levels:
            raise ValueError(f"No logging level is called {v!r}; there are {', '.join(levels)}.")
        v = levels[v.upper()]
    get_logger().setLevel(v)
