"""ProgressHook: shows loss, speed and time left; one line that moves on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import IO, Any

import numpy as np

from thalweg.graph.definitions.op_registry import export
from thalweg.platform.notebook import in_notebook
from thalweg.train.hooks.basic_hooks import as_graph_element, require_global_step
from thalweg.train.hooks.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues

# Seconds between updates: often on a terminal, where they replace each other; in a log file soon at first, then rarely.
_TERMINAL_SECS = 0.2
_FIRST_PLAIN_SECS = 1.0
_PLAIN_SECS = 10.0
_BAR_WIDTH = 24


@export("train.ProgressHook")
class ProgressHook(SessionRunHook):
    """Shows how the training goes: `step 1200/5000 [=====>     ]  loss 0.231  842 steps/s  0:04 left`."""

    def __init__(
        self, loss: Any = None, last_step: int | None = None, every_secs: float | None = None, stream: Any = None
    ) -> None:
        """Takes the tensors to show.

        Args:
            loss: A tensor to show (its mean, if it is no scalar), or its name; or a dictionary of several, by label.
            last_step: The global step at which the training ends, if that is known.
            every_secs: Seconds between updates; by default 0.2 on a terminal or in a notebook. Elsewhere the first
                comes after a second, the next after twice that time, up to 10 seconds.
            stream: Where to write; the standard error stream if None.
        """
        if loss is None:
            self._values: dict[str, Any] = {}
        else:
            self._values = dict(loss) if isinstance(loss, dict) else {"loss": loss}
        self._last_step = last_step
        self._every_secs = every_secs
        self._stream = stream

    def begin(self) -> None:
        """Finds the global step."""
        self._global_step = require_global_step(self)
        self._out: IO[str] = self._stream or sys.stderr
        self._is_terminal = bool(getattr(self._out, "isatty", lambda: False)()) or (
            self._stream is None and in_notebook()
        )
        if self._every_secs is not None:
            self._interval = self._longest = self._every_secs
        elif self._is_terminal:
            self._interval = self._longest = _TERMINAL_SECS
        else:
            self._interval, self._longest = _FIRST_PLAIN_SECS, _PLAIN_SECS
        self._width = 0
        self._last_values: dict[str, Any] = {}
        elements = {label: as_graph_element(value) for label, value in self._values.items()}
        self._fetches = SessionRunArgs(elements) if elements else None

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Notes the first step and the time."""
        self._first_step = int(session.run(self._global_step))
        self._start = time.monotonic()
        self._next = self._start + self._interval
        self._recent = (self._start, self._first_step)
        self._speed: float | None = None

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Fetches the shown tensors: any step may be the last, whose values the last line shows."""
        return self._fetches

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Shows the line if an update is due."""
        self._last_values = run_values.results or {}
        if time.monotonic() >= self._next:
            self._show(int(run_context.session.run(self._global_step)), self._last_values)
            self._interval = min(2 * self._interval, self._longest)
            self._next = time.monotonic() + self._interval

    def end(self, session: Any) -> None:
        """Shows the last line, with the speed of the whole training."""
        step = int(session.run(self._global_step))
        seconds = time.monotonic() - self._start
        speed = (step - self._first_step) / seconds if seconds > 0 else 0.0
        self._write(f"{self._text(step, self._last_values, speed)}  {_clock(seconds)} in all")
        if self._is_terminal:
            self._out.write("\n")
            self._out.flush()

    def _show(self, step: int, values: dict[str, Any]) -> None:
        now = time.monotonic()
        then, before = self._recent
        if now > then:
            current = (step - before) / (now - then)
            # Smoothed: one slow step should not make the time left jump.
            self._speed = current if self._speed is None else 0.7 * self._speed + 0.3 * current
        self._recent = (now, step)
        text = self._text(step, values, self._speed or 0.0)
        if self._last_step is not None and self._speed:
            text += f"  {_clock((self._last_step - step) / self._speed)} left"
        self._write(text)

    def _text(self, step: int, values: dict[str, Any], speed: float) -> str:
        parts = [f"step {step}"]
        if self._last_step is not None:
            share = min(1.0, step / max(1, self._last_step))
            filled = int(share * _BAR_WIDTH)
            bar = ("=" * filled + ">" * (filled < _BAR_WIDTH)).ljust(_BAR_WIDTH)
            parts = [f"step {step}/{self._last_step}"] + ([f"[{bar}]"] if self._is_terminal else [f"{share:.0%}"])
        parts += [f"{label} {float(np.mean(value)):.4g}" for label, value in values.items()]
        parts.append(f"{speed:.3g} steps/s" if speed < 100 else f"{speed:.0f} steps/s")
        return "  ".join(parts)

    def _write(self, text: str) -> None:
        if self._is_terminal:
            # Blanks overwrite the rest of a longer line before.
            self._out.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            self._out.write(text + "\n")
        self._out.flush()


def _clock(seconds: float) -> str:
    whole = max(0, int(seconds + 0.5))
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
