"""Session creators: how a monitored session gets a new session, at its beginning and when it recovers."""

from __future__ import annotations

import abc
from typing import Any

from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.train.checkpoints.end_mark import is_of_own_run, read_end_mark
from thalweg.train.sessions.scaffold import Scaffold
from thalweg.train.sessions.session_manager import SessionManager
from thalweg.train.sessions.wrapped_session import TrainingEndedError


@export("train.SessionCreator")
class SessionCreator(metaclass=abc.ABCMeta):
    """Makes sessions."""

    @abc.abstractmethod
    def create_session(self) -> Any:
        """Returns a session whose model is ready."""
        raise NotImplementedError


class _ScaffoldedCreator(SessionCreator):
    """Makes sessions with a SessionManager, by a scaffold."""

    def __init__(self, scaffold: Scaffold | None, master: str, config: Any) -> None:
        self._scaffold = scaffold or Scaffold()
        self._master = master
        self._config = config
        self._session_manager: SessionManager | None = None

    def _get_session_manager(self) -> SessionManager:
        """The manager, made once; the scaffold must be finalized."""
        if self._session_manager is None:
            self._session_manager = SessionManager(
                local_init_op=self._scaffold.local_init_op,
                local_init_feed_dict=self._scaffold.local_init_feed_dict,
                ready_op=self._scaffold.ready_op,
                ready_for_local_init_op=self._scaffold.ready_for_local_init_op,
                graph=get_default_graph(),
            )
        return self._session_manager


@export("train.ChiefSessionCreator")
class ChiefSessionCreator(_ScaffoldedCreator):
    """Makes sessions that initialize the model, or restore it from the latest checkpoint."""

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: Any = None,
        checkpoint_filename_with_path: Any = None,
    ) -> None:
        """Creates the creator.

        Args:
            scaffold: Init ops, saver and so on; with defaults if None.
            master: The target of the sessions.
            config: Their ConfigProto.
            checkpoint_dir: Where to look for the latest checkpoint.
            checkpoint_filename_with_path: One checkpoint, in place of the latest one of a folder.
        """
        super().__init__(scaffold, master, config)
        self._checkpoint_dir = checkpoint_dir
        self._checkpoint_filename_with_path = checkpoint_filename_with_path

    def create_session(self) -> Any:
        """Returns a session whose model is ready."""
        self._scaffold.finalize()
        return self._get_session_manager().prepare_session(
            self._master,
            saver=self._scaffold.saver,
            checkpoint_dir=self._checkpoint_dir,
            checkpoint_filename_with_path=self._checkpoint_filename_with_path,
            config=self._config,
            init_op=self._scaffold.init_op,
            init_feed_dict=self._scaffold.init_feed_dict,
            init_fn=self._scaffold.init_fn,
        )


_worker_folders: set[str] = set()  # of checkpoints, for which this process has made sessions of a worker


@export("train.WorkerSessionCreator")
class WorkerSessionCreator(_ScaffoldedCreator):
    """Makes sessions that wait until the chief has made the model ready."""

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        max_wait_secs: float = 30 * 60,
        checkpoint_dir: Any = None,
    ) -> None:
        """Creates the creator.

        Args:
            scaffold: Init ops, saver and so on; with defaults if None.
            master: The target of the sessions.
            config: Their ConfigProto.
            max_wait_secs: How long to wait for the chief.
            checkpoint_dir: Where the chief leaves a mark when it ends; an addition to TensorFlow's arguments. If the
                model is not ready then, nobody waits for it.
        """
        super().__init__(scaffold, master, config)
        self._max_wait_secs = max_wait_secs
        self._checkpoint_dir = checkpoint_dir
        # One of an earlier run, or of an earlier session of this program: the chief may come later than this worker.
        self._earlier_mark = read_end_mark(checkpoint_dir) if checkpoint_dir else None
        self._had_session = False
        self._is_first = str(checkpoint_dir) not in _worker_folders
        _worker_folders.add(str(checkpoint_dir))

    def create_session(self) -> Any:
        """Returns a session whose model is ready.

        Raises:
            TrainingEndedError: If the model is not ready, and the chief has ended: since an earlier session was made,
                or before this program was started again.
        """
        self._scaffold.finalize()
        made = self._get_session_manager().wait_for_session(
            self._master, self._config, self._max_wait_secs, self._check_end
        )
        self._had_session = True
        return made

    def _check_end(self) -> None:
        mark = read_end_mark(self._checkpoint_dir) if self._checkpoint_dir else None
        if mark is None:
            return
        if (self._had_session and mark != self._earlier_mark) or (self._is_first and is_of_own_run(mark)):
            raise TrainingEndedError(None, None, "The chief has saved the last checkpoint, and has ended.")
