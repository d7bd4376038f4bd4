"""SessionManager: gives sessions whose model is ready, initialized or restored from the latest checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from thalweg import errors
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.graph import Graph
from thalweg.platform import logging
from thalweg.train.checkpoints.checkpoint_state import get_checkpoint_state
from thalweg.train.sessions.retry_pauses import RetryPauses


@export("train.SessionManager")
class SessionManager:
    """Creates sessions and makes their models ready.

    The chief calls `prepare_session`, which restores the latest checkpoint or runs the initializers. Other workers call
    `wait_for_session`, which waits until the chief has done so.
    """

    def __init__(
        self,
        local_init_op: Any = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        graph: Graph | None = None,
        recovery_wait_secs: float = 30,
        local_init_run_options: Any = None,
        local_init_feed_dict: Any = None,
    ) -> None:
        """Creates a manager.

        Args:
            local_init_op: Run once in each new session, when the model is restored or initialized.
            ready_op: A tensor with the names of uninitialized variables; the model is ready when it is empty.
            ready_for_local_init_op: The same for `local_init_op`.
            graph: The graph; the default graph if None.
            recovery_wait_secs: The most seconds between checks for a checkpoint or a ready model.
            local_init_run_options: RunOptions of `local_init_op`.
            local_init_feed_dict: Feeds of `local_init_op`.

        Raises:
            ValueError: If there is a `ready_for_local_init_op` but no `local_init_op`.
        """
        self._local_init_op = local_init_op
        self._ready_op = ready_op
        self._ready_for_local_init_op = ready_for_local_init_op
        self._graph = graph or get_default_graph()
        self._recovery_wait_secs = recovery_wait_secs
        self._local_init_run_options = local_init_run_options
        self._local_init_feed_dict = local_init_feed_dict
        if ready_for_local_init_op is not None and local_init_op is None:
            raise ValueError(
                "If you pass a ready_for_local_init_op you must also pass a local_init_op, "
                f"ready_for_local_init_op [{ready_for_local_init_op}]"
            )

    def _new_session(self, master: str, config: Any) -> Any:
        from thalweg.runtime.session import Session  # Start-up time: loads the native core and the passes.

        return Session(master or "", graph=self._graph, config=config)

    def _restore_checkpoint(
        self, master: str, saver: Any, checkpoint_dir: Any, checkpoint_filename_with_path: Any,
        wait_for_checkpoint: bool, max_wait_secs: float, config: Any,
    ) -> tuple[Any, bool]:  # fmt: skip
        """A new session, and whether a checkpoint was restored into it."""
        if checkpoint_dir and checkpoint_filename_with_path:
            raise ValueError("Can not provide both checkpoint_dir and checkpoint_filename_with_path.")
        sess = self._new_session(master, config)
        try:
            if not saver or not (checkpoint_dir or checkpoint_filename_with_path):
                return sess, False
            if checkpoint_filename_with_path:
                saver.restore(sess, checkpoint_filename_with_path)
                return sess, True
            state = self._checkpoint_state(checkpoint_dir, wait_for_checkpoint, max_wait_secs)
            if state is None:
                return sess, False
            saver.restore(sess, state.model_checkpoint_path)
            saver.recover_last_checkpoints(state.all_model_checkpoint_paths)
            return sess, True
        except BaseException:
            sess.close()
            raise

    def _checkpoint_state(self, checkpoint_dir: Any, wait: bool, max_wait_secs: float) -> Any:
        pauses = RetryPauses(self._recovery_wait_secs, max_wait_secs)
        while True:
            state = get_checkpoint_state(checkpoint_dir)
            if state is not None and state.model_checkpoint_path:
                return state
            if not wait:
                return None
            pauses.say("Waiting for checkpoint to be available", checkpoint_dir)
            if not pauses.sleep():
                return None

    def prepare_session(
        self,
        master: str,
        init_op: Any = None,
        saver: Any = None,
        checkpoint_dir: Any = None,
        checkpoint_filename_with_path: Any = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: Any = None,
        init_feed_dict: Any = None,
        init_fn: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Creates a session whose model is ready.

        The latest checkpoint is restored if there is one. Otherwise `init_op` and `init_fn` are run.

        Args:
            master: The target of the session.
            init_op: Initializes the model.
            saver: Restores the model.
            checkpoint_dir: Where the checkpoints are.
            checkpoint_filename_with_path: One checkpoint, in place of the latest one of a folder.
            wait_for_checkpoint: Whether to wait for the first checkpoint.
            max_wait_secs: How long to wait for it.
            config: A ConfigProto of the session.
            init_feed_dict: Feeds of `init_op`.
            init_fn: Called with the session after `init_op`.

        Raises:
            RuntimeError: If the model is not ready after that, or there was neither a checkpoint nor an init op.
            ValueError: If both `checkpoint_dir` and `checkpoint_filename_with_path` are given.
        """
        sess, restored = self._restore_checkpoint(
            master, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint, max_wait_secs, config
        )
        try:
            if not restored:
                if init_op is None and init_fn is None and self._local_init_op is None:
                    raise RuntimeError("Model is not initialized and no init_op or init_fn or local_init_op was given")
                if init_op is not None:
                    sess.run(init_op, feed_dict=init_feed_dict)
                if init_fn is not None:
                    init_fn(sess)
            done, reason = self._try_run_local_init_op(sess)
            if not done:
                raise RuntimeError(
                    f"Init operations did not make model ready for local_init.  Init op: {_name(init_op)}, "
                    f"init fn: {init_fn}, error: {reason}"
                )
            ready, reason = self._model_ready(sess)
            if not ready:
                raise RuntimeError(
                    f"Init operations did not make model ready.  Init op: {_name(init_op)}, init fn: {init_fn}, "
                    f"local_init_op: {_name(self._local_init_op)}, error: {reason}"
                )
        except BaseException:
            sess.close()
            raise
        return sess

    def recover_session(
        self,
        master: str,
        saver: Any = None,
        checkpoint_dir: Any = None,
        checkpoint_filename_with_path: Any = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: Any = None,
    ) -> tuple[Any, bool]:
        """Creates a session and restores a checkpoint into it, if there is one.

        Returns:
            The session, and whether its model is ready.
        """
        sess, restored = self._restore_checkpoint(
            master, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint, max_wait_secs, config
        )
        if not restored:
            return sess, False
        where = checkpoint_dir or checkpoint_filename_with_path
        done, reason = self._try_run_local_init_op(sess)
        if not done:
            logging.info("Restoring model from %s did not make model ready for local init: %s", where, reason)
            return sess, False
        ready, reason = self._model_ready(sess)
        if not ready:
            logging.info("Restoring model from %s did not make model ready: %s", where, reason)
            return sess, False
        logging.info("Restored model from %s", where)
        return sess, True

    def wait_for_session(
        self,
        master: str,
        config: Any = None,
        max_wait_secs: float = float("Inf"),
        check: Callable[[], None] | None = None,
    ) -> Any:
        """Creates sessions until one finds the model ready, which another process initializes.

        Tasks that are not there yet, or are lost meanwhile, are waited for as well. The pauses between attempts are
        short at first and grow to two seconds, or `recovery_wait_secs`.

        Args:
            master: The target of the session.
            config: Its ConfigProto.
            max_wait_secs: How long to wait; for ever if None.
            check: Called while the model is not ready; raises to end the waiting.

        Raises:
            errors.DeadlineExceededError: If that takes longer than `max_wait_secs`; it says what was missing.
        """
        pauses = RetryPauses(self._recovery_wait_secs, float("inf") if max_wait_secs is None else max_wait_secs)
        while True:
            try:
                sess, reason = self._session_if_ready(master, config)
            except (errors.AbortedError, errors.UnavailableError) as e:
                sess, reason = None, str(e)
            if sess is not None:
                return sess
            if check is not None:
                check()
            pauses.say("Waiting for model to be ready", reason)
            if not pauses.sleep():
                raise errors.DeadlineExceededError(
                    None, None, f"Session was not ready after waiting {max_wait_secs} secs. {reason}"
                )

    def _session_if_ready(self, master: str, config: Any) -> tuple[Any, str | None]:
        """A session whose model another process has initialized; or None, and what is missing."""
        sess = self._new_session(master, config)
        ready = False
        try:
            try:
                ready, reason = self._try_run_local_init_op(sess)
            except errors.FailedPreconditionError as e:
                # The chief has yet to initialize some of the state that is in no collection.
                if not is_uninitialized(e):
                    raise
                reason = str(e)
            if ready:
                ready, reason = self._model_ready(sess)
            return (sess, None) if ready else (None, reason)
        finally:
            if not ready:
                with contextlib.suppress(Exception):
                    sess.close()

    def _model_ready(self, sess: Any) -> tuple[bool, str | None]:
        return check_ready(self._ready_op, sess, "Model not ready")

    def _try_run_local_init_op(self, sess: Any) -> tuple[bool, str | None]:
        if self._local_init_op is None:
            return True, None
        ready, reason = check_ready(self._ready_for_local_init_op, sess, "Model not ready for local init")
        if not ready:
            return False, reason
        logging.info("Running local_init_op.")
        sess.run(self._local_init_op, self._local_init_feed_dict, self._local_init_run_options)
        logging.info("Done running local_init_op.")
        return True, None


def _name(op: Any) -> str:
    if isinstance(op, (list, tuple)):
        return ", ".join(_name(each) for each in op)
    return "None" if op is None else str(getattr(op, "name", op))


def is_uninitialized(error: errors.OpError) -> bool:
    """Whether an error says that state was read before it was initialized."""
    text = str(error).lower()
    return "uninitialized" in text or "not initialized" in text


def check_ready(op: Any, sess: Any, message: str) -> tuple[bool, str | None]:
    """Whether a ready op gives no names; else a message with the names."""
    if op is None:
        return True, None
    try:
        names = sess.run(op)
    except errors.FailedPreconditionError as e:
        if not is_uninitialized(e):
            logging.warning("%s : error [%s]", message, e)
            raise
        return False, str(e)
    if names is None or np.size(names) == 0 or np.asarray(names).dtype.kind in "iu":
        return True, None
    texts = [bytes(n).decode("utf-8", "replace") if isinstance(n, bytes) else str(n) for n in np.ravel(names)]
    return False, "Variables not initialized: " + ", ".join(texts)
