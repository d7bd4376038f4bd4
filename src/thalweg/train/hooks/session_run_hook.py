"""SessionRunHook: functions that a monitored session calls around its steps."""

from __future__ import annotations

from typing import Any, NamedTuple

from thalweg.graph.definitions.op_registry import export


@export("train.SessionRunArgs", "estimator.SessionRunArgs")
class SessionRunArgs(NamedTuple):
    """The fetches, feeds and options that a hook adds to a step.

    Attributes:
        fetches: What to fetch, in any form that `Session.run` takes.
        feed_dict: What to feed; a tensor can be fed by one hook only.
        options: RunOptions, merged with those of the caller and of other hooks.
    """

    fetches: Any
    feed_dict: Any = None
    options: Any = None


@export("train.SessionRunValues", "estimator.SessionRunValues")
class SessionRunValues(NamedTuple):
    """The results of a step, for a hook.

    Attributes:
        results: The values of what the hook fetched, in the same form.
        options: The RunOptions of the step.
        run_metadata: Its RunMetadata.
    """

    results: Any
    options: Any
    run_metadata: Any


@export("train.SessionRunContext", "estimator.SessionRunContext")
class SessionRunContext:
    """A step, for a hook: the caller's arguments, and a way to request that it be the last one."""

    def __init__(self, original_args: SessionRunArgs, session: Any) -> None:
        """Keeps both."""
        self._original_args = original_args
        self._session = session
        self._stop_requested = False

    @property
    def original_args(self) -> SessionRunArgs:
        """The arguments of the caller of `run`."""
        return self._original_args

    @property
    def session(self) -> Any:
        """The session that runs the step."""
        return self._session

    @property
    def stop_requested(self) -> bool:
        """Whether a hook asked to stop."""
        return self._stop_requested

    def request_stop(self) -> None:
        """Makes `should_stop` of the monitored session true."""
        self._stop_requested = True


@export("train.SessionRunHook", "estimator.SessionRunHook")
class SessionRunHook:
    """The base class of hooks: override the methods that you need.

    Order of calls: `begin`, `after_create_session`, then for each step `before_run` and `after_run`, and `end` unless
    an exception ended the session. After a recovery, `after_create_session` comes again. `before_end`, which TensorFlow
    does not have, follows the `after_run` of a step in which a hook requested to stop.
    """

    def begin(self) -> None:
        """Called once, before the session is made: the last chance to add to the graph."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Called when a new session is ready: the graph is finalized, the model is initialized or restored."""

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Called before each step; returns the SessionRunArgs to add to it, or None."""
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Called after each step that did not fail."""

    def recover(self, session: Any, error: Exception) -> bool:
        """Called when a step has failed because a task was lost, before the session is given up.

        Not part of TensorFlow's hooks.

        Returns:
            Whether the session can go on with the values that it has now. Then `after_create_session` of all hooks but
            this one is called, and the step is run again unless a hook requests a stop.
        """
        return False

    def before_end(self, session: Any) -> None:
        """Called after the last step. If a task is lost meanwhile, the session is replaced and training goes on."""

    def end(self, session: Any) -> None:
        """Called at the end, unless an exception other than OutOfRangeError or StopIteration is the reason."""
