"""MonitoredSession: a session with hooks, threads that stop with it, and recovery when a task is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from thalweg import errors
from thalweg.graph.collections import GraphKeys
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.train.coordinator import Coordinator
from thalweg.train.hooks.session_run_hook import SessionRunHook
from thalweg.train.input.queue_runner import start_queue_runners
from thalweg.train.sessions.scaffold import Scaffold
from thalweg.train.sessions.session_creator import ChiefSessionCreator, SessionCreator
from thalweg.train.sessions.wrapped_session import (
    PREEMPTION_ERRORS,
    CoordinatedSession,
    HookedSession,
    RecoverableSession,
    StepContext,
    WrappedSession,
)

# Exceptions that end a `with` block normally: the input has ended, or a step function asked to stop.
_CLEAN_ENDS = (errors.OutOfRangeError, StopIteration)


class _MonitoredSession:
    """The base class of MonitoredSession and SingularMonitoredSession."""

    StepContext = StepContext

    def __init__(
        self,
        session_creator: SessionCreator | None,
        hooks: Iterable[SessionRunHook] | None,
        should_recover: bool,
        stop_grace_period_secs: float = 120,
    ) -> None:
        self._graph_was_finalized = get_default_graph().finalized
        self._hooks = list(hooks or ())
        self._stop_grace_period_secs = stop_grace_period_secs
        self._sess: WrappedSession | None = None
        self._raw_session: Any = None
        self._coord: Coordinator | None = None
        for hook in self._hooks:
            hook.begin()
        self._session_creator = session_creator or ChiefSessionCreator()
        try:
            self._sess = RecoverableSession(self._new_session, self._recover) if should_recover else self._new_session()
        except BaseException:
            self._unfinalize_graph()
            raise

    def _new_session(self) -> WrappedSession:
        """A session with its threads and hooks, at the beginning and after a recovery."""
        self._raw_session = None  # the lost one
        raw = self._session_creator.create_session()
        # No clean stop here: the caller must see the end of the input.
        coord = Coordinator(clean_stop_exception_types=[])
        try:
            if raw.graph.get_collection(GraphKeys.QUEUE_RUNNERS):
                start_queue_runners(sess=raw, coord=coord)
            for hook in self._hooks:
                hook.after_create_session(raw, coord)
        except BaseException:
            coord.request_stop()
            raw.close()
            raise
        self._raw_session, self._coord = raw, coord
        return CoordinatedSession(HookedSession(raw, self._hooks), coord, self._stop_grace_period_secs)

    def _recover(self, error: Exception) -> bool:
        """Lets a hook mend the session; the others get to know that its values have changed."""
        try:
            for hook in self._hooks:
                if hook.recover(self._raw_session, error):
                    for other in self._hooks:
                        if other is not hook:
                            other.after_create_session(self._raw_session, self._coord)
                    return True
        except PREEMPTION_ERRORS:
            pass  # Another task is lost: a new session is needed.
        return False

    @property
    def graph(self) -> Any:
        """The graph that is run; None after `close`."""
        return None if self._raw_session is None else self._raw_session.graph

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Runs a step with the hooks; the arguments are those of `Session.run`.

        Raises:
            RuntimeError: If the session is closed.
        """
        return self._open_session().run(fetches, feed_dict, options, run_metadata)

    def _open_session(self) -> WrappedSession:
        if self._sess is None:
            raise RuntimeError("Attempted to use a closed Session.")
        return self._sess

    def run_step_fn(self, step_fn: Callable[..., Any]) -> Any:
        """Calls `step_fn(step_context)`, which runs steps with or without the hooks.

        After a recovery it is called again, from its beginning.

        Raises:
            TypeError: If `step_fn` is not callable.
            ValueError: If it takes other arguments.
            StopIteration: If it asked to stop.
        """
        import inspect

        if not callable(step_fn):
            raise TypeError("step_fn must be callable.")
        arguments = tuple(inspect.signature(step_fn).parameters)
        if arguments != ("step_context",):
            raise ValueError(
                "`step_fn` may either have one `step_context` argument, or `self` and `step_context` arguments if it's "
                f"an instance method. Got {arguments} instead."
            )
        sess = self._open_session()
        if isinstance(sess, RecoverableSession):
            return sess.run_step_fn(step_fn, lambda: self._raw_session, None)
        return sess.run_step_fn(step_fn, self._raw_session, None)

    def should_stop(self) -> bool:
        """Whether no step should be run any more."""
        return self._sess is None or self._sess.should_stop()

    def close(self) -> None:
        """Calls `end` of the hooks, stops the threads and closes the session."""
        self._close(failed=False)

    def _close(self, failed: bool) -> None:
        try:
            if not failed:
                if self._sess is None:
                    raise RuntimeError("Session is already closed.")
                if self._raw_session is not None:  # None if training has ended while the session was lost.
                    for hook in self._hooks:
                        hook.end(self._raw_session)
        finally:
            sess, self._sess = self._sess, None
            try:
                if sess is not None:
                    sess.close()
            finally:
                self._raw_session = self._coord = None
                self._unfinalize_graph()

    def _unfinalize_graph(self) -> None:
        """Lifts the finalization of the graph, unless the graph was finalized before."""
        if not self._graph_was_finalized:
            get_default_graph()._unsafe_unfinalize()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, exception_type: Any, exception_value: Any, traceback: Any) -> bool:
        clean = exception_type is None or issubclass(exception_type, _CLEAN_ENDS)
        self._close(failed=not clean)
        # True swallows the exception.
        return clean


@export("train.MonitoredSession")
class MonitoredSession(_MonitoredSession):
    """A session that initializes or restores the model, calls hooks around each step, and recovers from lost tasks.

    AbortedError and UnavailableError say that a task or connection was lost: then a new session is made, which restores
    the latest checkpoint, and the step is run again. Any other error ends the session. OutOfRangeError ends a `with`
    block normally: the input has ended.

    Example:
        >>> step = tf.train.get_or_create_global_step()
        >>> train_op = step.assign_add(1)
        >>> with tf.train.MonitoredSession(hooks=[tf.train.StopAtStepHook(last_step=3)]) as session:
        ...     while not session.should_stop():
        ...         last = session.run(train_op)
        >>> print(last)
        3
    """

    def __init__(
        self,
        session_creator: SessionCreator | None = None,
        hooks: Iterable[SessionRunHook] | None = None,
        stop_grace_period_secs: float = 120,
    ) -> None:
        """Makes a session.

        Args:
            session_creator: How to make it; a ChiefSessionCreator if None.
            hooks: The hooks.
            stop_grace_period_secs: How long the session's threads may go on after the end.
        """
        super().__init__(session_creator, hooks, True, stop_grace_period_secs)


@export("train.SingularMonitoredSession")
class SingularMonitoredSession(_MonitoredSession):
    """A MonitoredSession without recovery, whose session can be taken out with `raw_session`, for a Saver."""

    def __init__(
        self,
        hooks: Iterable[SessionRunHook] | None = None,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: Any = None,
        stop_grace_period_secs: float = 120,
        checkpoint_filename_with_path: Any = None,
    ) -> None:
        """Makes a session.

        Args:
            hooks: What to attach to it.
            scaffold: Init ops, saver and so on; with defaults if None.
            master: The target of the session.
            config: Its ConfigProto.
            checkpoint_dir: Where to look for the latest checkpoint.
            stop_grace_period_secs: How long the session's threads may go on after the end.
            checkpoint_filename_with_path: One checkpoint, in place of the latest one of a folder.
        """
        creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir, checkpoint_filename_with_path)
        super().__init__(creator, hooks, False, stop_grace_period_secs)

    def raw_session(self) -> Any:
        """Returns the session below the hooks."""
        return self._raw_session
