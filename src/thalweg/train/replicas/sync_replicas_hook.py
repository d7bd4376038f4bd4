"""The hook of SyncReplicasOptimizer: what a worker or the chief runs in each new session."""

from __future__ import annotations

from typing import Any

from thalweg.train.hooks.session_run_hook import SessionRunHook
from thalweg.train.sessions.session_manager import check_ready


class SyncReplicasHook(SessionRunHook):
    """Sets the local step of a worker. In the chief, also those of the accumulators, the first tokens, the thread.

    A session that is made after a loss gets all of it again.
    """

    def __init__(self, sync_optimizer: Any, is_chief: bool, num_tokens: int) -> None:
        """Takes the optimizer, and the arguments of its `make_session_run_hook`."""
        self._sync_optimizer = sync_optimizer
        self._is_chief = is_chief
        self._num_tokens = num_tokens

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
        self._queue_runner = optimizer.get_chief_queue_runner() if self._is_chief else None

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
        session.run(self._local_init_op)
        if self._init_tokens_op is not None:
            session.run(self._init_tokens_op)
        if self._queue_runner is not None:
            self._queue_runner.create_threads(session, coord=coord, daemon=True, start=True)
