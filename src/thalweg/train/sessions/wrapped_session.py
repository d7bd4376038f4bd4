"""The layers of a monitored session, one concern each: hooks, the coordinator, recovery.

A monitored session runs a step through: recovery (makes a new session when a task was lost) → coordinator (threads
of the session, their exceptions) → hooks → the session itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg import errors
from thalweg.platform import logging
from thalweg.train.coordinator import Coordinator
from thalweg.train.hooks.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from thalweg.train.sessions.retry_pauses import RetryPauses

# Errors of a lost task or connection, not of the program: the model is restored and the training goes on.
PREEMPTION_ERRORS = (errors.AbortedError, errors.UnavailableError)


class TrainingEndedError(errors.OutOfRangeError):
    """No session can be made any more, because the chief has ended: ends a `with` block normally."""


class StepContext:
    """The argument of a step function: the session, and a way to run a step with the hooks."""

    def __init__(self, session: Any, run_with_hooks_fn: Callable[..., Any]) -> None:
        """Keeps both."""
        self._session = session
        self._run_with_hooks_fn = run_with_hooks_fn

    @property
    def session(self) -> Any:
        """The session itself: steps that are run with it do not go through the hooks."""
        return self._session

    def run_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        """Like `MonitoredSession.run`."""
        return self._run_with_hooks_fn(*args, **kwargs)

    def request_stop(self) -> None:
        """Ends the step function and the loop around it, by raising StopIteration."""
        raise StopIteration("step_fn has requested the iterations to stop.")


class WrappedSession:
    """A layer around a session, or around another layer."""

    def __init__(self, sess: Any) -> None:
        """Takes the session to wrap."""
        self._sess = sess

    @property
    def graph(self) -> Any:
        """The graph that is run."""
        return self._sess.graph

    @property
    def sess_str(self) -> Any:
        """The target that the session connects to."""
        return self._sess.sess_str

    def should_stop(self) -> bool:
        """Whether no step should be run any more."""
        if self._check_stop():
            return True
        if self._sess is None:
            return True
        return bool(self._sess.should_stop()) if isinstance(self._sess, WrappedSession) else False

    def _check_stop(self) -> bool:
        """Whether this layer requests a stop."""
        return False

    def close(self) -> None:
        """Closes the wrapped session."""
        sess, self._sess = self._sess, None
        if sess is not None:
            try:
                sess.close()
            except PREEMPTION_ERRORS as e:
                logging.error("An error occurred when attempting to close the session: %s", e)

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Runs a step."""
        return self._sess.run(fetches, feed_dict, options, run_metadata)

    def run_step_fn(self, step_fn: Any, raw_session: Any, run_with_hooks: Callable[..., Any] | None) -> Any:
        """Calls a step function."""
        return step_fn(StepContext(raw_session, run_with_hooks or self.run))


class RecoverableSession(WrappedSession):
    """Makes a new session when the old one is lost, and runs the step again in that."""

    def __init__(
        self, create_session: Callable[[], WrappedSession], recover: Callable[[Exception], bool] = lambda error: False
    ) -> None:
        """Makes the first session.

        Args:
            create_session: Makes a session.
            recover: Tells whether the present session can go on in spite of an error.
        """
        self._create = create_session
        self._recover = recover
        self._has_ended = False  # Training has ended while no session could be made.
        try:
            super().__init__(self._new_session())
        except TrainingEndedError as e:
            # A worker that was started again too late.
            logging.info("%s", e.message)
            super().__init__(None)
            self._has_ended = True

    def _new_session(self) -> WrappedSession:
        pauses = RetryPauses()
        while True:
            try:
                return self._create()
            except PREEMPTION_ERRORS as e:
                _log_recovery("creating a session", e)
                pauses.sleep()

    def should_stop(self) -> bool:
        """Whether no step should be run any more; a loss that a thread has reported is recovered from."""
        try:
            return bool(self._sess.should_stop()) if self._sess is not None else self._has_ended
        except PREEMPTION_ERRORS as e:
            _log_recovery("considering whether the session has completed", e)
        self.close()
        try:
            self._sess = self._new_session()
        except TrainingEndedError as e:
            logging.info("%s", e.message)
            self._has_ended = True
        return self._has_ended

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Runs a step, again in a new session if the session is lost."""
        return self._call_with_recovery(lambda: self._sess.run(fetches, feed_dict, options, run_metadata))

    def run_step_fn(self, step_fn: Any, raw_session: Any, run_with_hooks: Callable[..., Any] | None) -> Any:
        """Calls a step function, again from its beginning after a recovery.

        `raw_session` is a function here: another session may be the current one each time.
        """
        return self._call_with_recovery(lambda: self._sess.run_step_fn(step_fn, raw_session(), self._sess.run))

    def _call_with_recovery(self, call: Callable[[], Any]) -> Any:
        recovers = False
        while True:
            try:
                if self._sess is None:
                    self._sess = self._new_session()
                if recovers and self._sess.should_stop():
                    # The other replicas have ended: a further synchronous step would wait for them without end.
                    raise errors.OutOfRangeError(None, None, "Training has ended while this session was lost.")
                return call()
            except PREEMPTION_ERRORS as e:
                recovers = True
                if self._sess is not None and self._recover(e):
                    continue
                _log_recovery("running a step", e)
                self.close()
            except TrainingEndedError:
                self._has_ended = True
                raise


def _log_recovery(doing: str, error: Exception) -> None:
    logging.info(
        "An error was raised while %s. This may be due to a preemption in a connected worker or parameter server. A "
        "new session will be created. Error: %s",
        doing,
        error,
    )


class CoordinatedSession(WrappedSession):
    """Stops when a thread of the session fails, and raises its exception."""

    def __init__(self, sess: Any, coord: Coordinator, stop_grace_period_secs: float = 120) -> None:
        """Takes the coordinator of the session's threads."""
        super().__init__(sess)
        self._coord = coord
        self._stop_grace_period_secs = stop_grace_period_secs

    def _check_stop(self) -> bool:
        self._coord.raise_requested_exception()
        return self._coord.should_stop()

    def close(self) -> None:
        """Stops the threads, waits for them, and closes the session."""
        self._coord.request_stop()
        try:
            self._coord.join(stop_grace_period_secs=self._stop_grace_period_secs, ignore_live_threads=True)
        finally:
            super().close()

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Runs a step. If it fails because a thread did, the thread's exception is raised."""
        try:
            return self._sess.run(fetches, feed_dict, options, run_metadata)
        except PREEMPTION_ERRORS:
            raise
        except Exception as original:
            # A failure may be the consequence of a lost task that a thread has noticed: then this layer's caller
            # must see that, to recover.
            try:
                self._coord.raise_requested_exception()
            except PREEMPTION_ERRORS:
                raise
            except Exception:
                raise original from None
            raise


class HookedSession(WrappedSession):
    """Calls the hooks around each step."""

    def __init__(self, sess: Any, hooks: list[SessionRunHook]) -> None:
        """Takes the hooks, in the order of their calls."""
        super().__init__(sess)
        self._hooks = hooks
        self._should_stop = False

    def _check_stop(self) -> bool:
        return self._should_stop

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Runs a step with the fetches, feeds and options of the hooks."""
        if self._should_stop:
            raise RuntimeError("Run called even after should_stop requested.")
        context = SessionRunContext(SessionRunArgs(fetches, feed_dict, options), self._sess)
        if not self._hooks:
            return self._sess.run(fetches, feed_dict, options, run_metadata)
        all_fetches, hook_positions, feeds, merged = self._before_run(context, fetches, feed_dict, options)
        # Options and metadata take the session's slower path: passed only if the caller or a hook asks for them.
        if run_metadata is None and merged is not None:
            run_metadata = _run_metadata()
        results = self._sess.run(all_fetches, feeds, merged, run_metadata)
        options = merged if merged is not None else _run_options()
        metadata = run_metadata if run_metadata is not None else _run_metadata()
        fetched = dict(zip(hook_positions, results[1:], strict=True))
        for position, hook in enumerate(self._hooks):
            hook.after_run(context, SessionRunValues(fetched.get(position), options, metadata))
        if context.stop_requested:
            for hook in self._hooks:
                hook.before_end(self._sess)
            self._should_stop = True
        return results[0]

    def _before_run(
        self, context: SessionRunContext, fetches: Any, feed_dict: Any, options: Any
    ) -> tuple[list[Any], list[int], Any, Any]:
        """All fetches, the positions of the hooks that fetch, all feeds, and the merged options or None."""
        all_fetches, hook_positions = [fetches], []
        hook_feeds: dict[Any, Any] = {}
        merged = options
        for position, hook in enumerate(self._hooks):
            request = hook.before_run(context)
            if request is None:
                continue
            if request.fetches is not None:
                all_fetches.append(request.fetches)
                hook_positions.append(position)
            if request.feed_dict:
                _raise_if_feeds_intersect(hook_feeds, request.feed_dict, "Same tensor is fed by two hooks.")
                hook_feeds.update(request.feed_dict)
            if request.options is not None:
                merged = request.options if merged is None else _merged_options(merged, request.options)
        if not hook_feeds:
            return all_fetches, hook_positions, feed_dict, merged
        if feed_dict:
            _raise_if_feeds_intersect(feed_dict, hook_feeds, "Same tensor is fed by a SessionRunHook and user.")
            hook_feeds.update(feed_dict)
        return all_fetches, hook_positions, hook_feeds, merged


def _raise_if_feeds_intersect(first: Any, second: Any, message: str) -> None:
    both = set(first) & set(second)
    if both:
        raise RuntimeError(f"{message} Conflict(s): {sorted(str(key) for key in both)}")


def _merged_options(first: Any, incoming: Any) -> Any:
    """New RunOptions that combine both."""
    options = _run_options()
    options.CopyFrom(first)
    options.trace_level = max(options.trace_level, incoming.trace_level)
    options.timeout_in_ms = max(options.timeout_in_ms, incoming.timeout_in_ms)
    options.inter_op_thread_pool = max(options.inter_op_thread_pool, incoming.inter_op_thread_pool)
    options.output_partition_graphs = max(options.output_partition_graphs, incoming.output_partition_graphs)
    options.debug_options.debug_tensor_watch_opts.extend(incoming.debug_options.debug_tensor_watch_opts)
    return options


def _run_options() -> Any:
    from tensorboard.compat.proto.config_pb2 import RunOptions  # Start-up time: protobuf is slow to import.

    return RunOptions()


def _run_metadata() -> Any:
    from tensorboard.compat.proto.config_pb2 import RunMetadata  # Start-up time: protobuf is slow to import.

    return RunMetadata()
