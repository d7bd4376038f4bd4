"""The hook of SyncReplicasOptimizer: what a worker or the chief runs in each new session."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Final

from thalweg import errors
from thalweg.platform import logging
from thalweg.train.hooks.session_run_hook import SessionRunHook
from thalweg.train.sessions.retry_pauses import RetryPauses
from thalweg.train.sessions.session_manager import check_ready, is_uninitialized

_LOG_SECONDS: Final = 10.0
_END_SECONDS: Final = 300.0


class SyncReplicasHook(SessionRunHook):
    """Sets the local step of a worker. In the chief, also those of the accumulators, the first tokens, the thread.

    A session that is made after a loss gets all of it again. Replicas log every ten seconds whom a step waits for.
    """

    def __init__(self, sync_optimizer: Any, is_chief: bool, num_tokens: int) -> None:
        """Takes the optimizer, and the arguments of its `make_session_run_hook`."""
        self._sync_optimizer = sync_optimizer
        self._is_chief = is_chief
        self._num_tokens = num_tokens
        self._patience = 2 * _LOG_SECONDS  # before tokens are given again

    def begin(self) -> None:
        """Adds the operations that are missing.

        Raises:
            ValueError: If the optimizer has no gradients yet.
        """
        optimizer = self._sync_optimizer
        if not optimizer._gradients_applied:
            raise ValueError("SyncReplicasOptimizer.apply_gradient should be called before using the hook.")
        self._ready_for_local_init_op = optimizer.ready_for_local_init_op
        self._local_init_op = optimizer.chief_init_op if self._is_chief else optimizer.local_step_init_op
        self._init_tokens_op = optimizer.get_init_tokens_op(self._num_tokens) if self._is_chief else None
        self._clear_op = optimizer._make_clear_op() if self._is_chief else None
        self._replace_op = optimizer._make_replace_op() if self._is_chief else None
        self._queue_runner = optimizer.get_chief_queue_runner() if self._is_chief else None
        self._progress = optimizer._make_progress()
        self._give_again_op = optimizer._make_give_again_op() if self._is_chief else None
        self._end_op, self._end = optimizer._make_end()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Initializes this replica's part.

        Raises:
            RuntimeError: If the model is not initialized.
        """
        is_ready, reason = check_ready(
            self._ready_for_local_init_op, session, "Model is not ready for SyncReplicasOptimizer local init."
        )
        if not is_ready:
            raise RuntimeError(
                f"Init operations did not make model ready for SyncReplicasOptimizer local_init. Init op: "
                f"{self._local_init_op.name}, error: {reason}"
            )
        dropped = self._clear_op is not None and session.run(self._clear_op)
        self._run_local_init(session)
        if dropped:
            session.run(self._replace_op)
        if self._init_tokens_op is not None:
            session.run(self._init_tokens_op)
        if self._queue_runner is not None:
            self._queue_runner.create_threads(session, coord=coord, daemon=True, start=True)
        if self._progress is not None:
            watch = threading.Thread(target=self._watch, args=(session, coord), daemon=True)
            coord.register_thread(watch)
            watch.start()

    def before_end(self, session: Any) -> None:
        """Lets a worker wait until the chief has ended: if the last checkpoint fails, steps are done again.

        Five minutes at most: the chief of this program may not use the hook.

        Raises:
            errors.AbortedError: If the model has been restored at an earlier step.
        """
        if self._is_chief:
            return
        last, ended = session.run(self._end)
        pauses = RetryPauses(0.25, _END_SECONDS)
        while not ended:
            pauses.say("Waiting for the chief to save the last checkpoint", f"of step {last}")
            if not pauses.sleep():
                return
            step, ended = session.run(self._end)
            if step < last:
                raise errors.AbortedError(None, None, f"The chief has gone back from step {last} to step {step}.")

    def end(self, session: Any) -> None:
        """Lets workers end, if this is the chief. Nobody is left to wait for if a task was lost since the last save."""
        if self._is_chief:
            with contextlib.suppress(errors.AbortedError, errors.UnavailableError):
                session.run(self._end_op)

    def _run_local_init(self, session: Any) -> None:
        """Initializes this replica; a worker waits until the chief has begun a round."""
        pauses = RetryPauses(0.25)
        while True:
            try:
                session.run(self._local_init_op)
                return
            except errors.FailedPreconditionError as e:
                if self._is_chief or not is_uninitialized(e):
                    raise
                pauses.say("Waiting for the chief to begin synchronous training", e.message)
                pauses.sleep()

    def _watch(self, session: Any, coord: Any) -> None:
        """Logs who is late when the step stays the same for ten seconds. The chief helps after a while.

        A session that was cut off may have taken a token with it, and its replica would wait for ever: tokens are given
        again. A second one costs a replica a step that does not count, so that the patience is several times the
        longest step so far. If nobody is late, means were lost with a session of the chief: it begins anew.
        """
        before, waited = None, 0.0
        while not coord.wait_for_stop(_LOG_SECONDS):
            try:
                step, seen = session.run(self._progress)
                if step != before:
                    self._patience = max(self._patience, 4 * waited)
                    before, waited = step, 0.0
                    continue
                waited += _LOG_SECONDS
                late = [f"worker {worker} ({f'last: {last}' if last >= 0 else 'none yet'})"
                        for worker, last in enumerate(seen) if last < step]  # fmt: skip
                for_whom = f"gradients of {', '.join(late)}" if late else "the chief to apply the gradients"
                logging.info("Step %d still waits for %s.", step, for_whom)
                if waited < self._patience or self._give_again_op is None:
                    continue
                self._patience *= 2
                if late:
                    session.run(self._give_again_op)
                    continue
            except (errors.OpError, RuntimeError):
                return  # The session has ended; whoever uses it is told.
            coord.request_stop(errors.AbortedError(None, None, f"The gradients of step {step} were not applied."))
            session.close()  # Ends the steps that wait.
