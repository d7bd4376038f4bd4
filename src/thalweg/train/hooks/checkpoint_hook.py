"""CheckpointSaverHook: saves checkpoints every so many steps or seconds, at the beginning and at the end."""

from __future__ import annotations

import os
import time
from typing import Any, Final

from thalweg import errors
from thalweg.graph.collections import GraphKeys
from thalweg.graph.default_graph import get_collection, get_default_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.formats.write_graph import write_graph
from thalweg.platform import logging
from thalweg.summary.file_writer import FileWriterCache, meta_graph_of
from thalweg.train.hooks.basic_hooks import require_global_step
from thalweg.train.hooks.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from thalweg.train.hooks.timer import SecondOrStepTimer

# Seconds between looks whether a consistent checkpoint could still be made.
_CHECK_SECONDS: Final = 2.0


@export("train.CheckpointSaverListener", "estimator.CheckpointSaverListener")
class CheckpointSaverListener:
    """Called before and after each checkpoint: override the methods that you need."""

    def begin(self) -> None:
        """Called once, before the session is made."""

    def before_save(self, session: Any, global_step_value: int) -> None:
        """Called before a checkpoint is saved."""

    def after_save(self, session: Any, global_step_value: int) -> bool | None:
        """Called when a checkpoint is saved; returning True stops the training."""

    def end(self, session: Any, global_step_value: int) -> None:
        """Called once, at the end."""


@export("train.CheckpointSaverHook", "estimator.CheckpointSaverHook")
class CheckpointSaverHook(SessionRunHook):
    """Saves checkpoints every N steps or seconds.

    If the disk is full, training goes on, and the next checkpoint is tried in its turn; the last one must be saved. If
    a hook requests a stop, the last checkpoint is saved before the step returns: when a task is lost then, training
    resumes from the checkpoint before.
    """

    def __init__(
        self,
        checkpoint_dir: Any,
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: Any = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Any = None,
        listeners: Any = None,
        save_graph_def: bool = True,
    ) -> None:
        """Takes the folder, the interval and the saver.

        Args:
            checkpoint_dir: The folder.
            save_secs: Seconds between checkpoints.
            save_steps: Steps between checkpoints; exactly one of both must be given.
            saver: The Saver.
            checkpoint_basename: How the files' names begin.
            scaffold: A Scaffold to take the saver from.
            listeners: CheckpointSaverListeners.
            save_graph_def: Whether to write the graph along.

        Raises:
            ValueError: If both `saver` and `scaffold` are given.
        """
        if saver is not None and scaffold is not None:
            raise ValueError("You cannot provide both saver and scaffold.")
        self._saver = saver
        self._checkpoint_dir = os.fspath(checkpoint_dir)
        self._save_path = os.path.join(self._checkpoint_dir, checkpoint_basename)
        self._scaffold = scaffold
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._listeners = list(listeners or ())
        self._save_graph_def = save_graph_def
        self._checked = time.monotonic()
        self._saved_step: int | None = None
        self._end_step: int | None = None  # of the checkpoint that `before_end` has saved

    def begin(self) -> None:
        """Opens the event file, and finds the global step."""
        self._global_step = require_global_step(self)
        self._summary_writer = FileWriterCache.get(self._checkpoint_dir)
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Writes the graph and a first checkpoint."""
        self._saved_step = self._end_step = None
        step = int(session.run(self._global_step))
        graph = get_default_graph()
        if self._save_graph_def:
            write_graph(graph.as_graph_def(add_shapes=True), self._checkpoint_dir, "graph.pbtxt")
        self._summary_writer.add_graph(graph)
        self._summary_writer.add_meta_graph(meta_graph_of(graph, self._get_saver()))
        self._save_if_possible(session, step)
        self._timer.update_last_triggered_step(step)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetches the global step."""
        return SessionRunArgs(self._global_step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Saves if it is time. A model that is torn is not trained any further."""
        if time.monotonic() - self._checked > _CHECK_SECONDS:
            self._checked = time.monotonic()
            self._get_saver().check(run_context.session)
        # The fetched value may be from before the step's own update.
        if self._timer.should_trigger_for_step(int(run_values.results) + 1):
            step = int(run_context.session.run(self._global_step))
            if self._timer.should_trigger_for_step(step):
                self._timer.update_last_triggered_step(step)
                if self._save_if_possible(run_context.session, step):
                    run_context.request_stop()

    def before_end(self, session: Any) -> None:
        """Saves the last checkpoint, unless the disk is full: then `end` tries again."""
        try:
            self._end_step = self._save_last(session)
        except errors.ResourceExhaustedError as e:
            logging.error("The last checkpoint was not saved, and will be tried once more: %s", e.message)

    def end(self, session: Any) -> None:
        """Saves a last checkpoint, if there have been steps since the one before."""
        try:
            last_step = self._save_last(session)
        except (errors.AbortedError, errors.UnavailableError) as e:
            if self._end_step is None:
                raise
            logging.info("A task was lost after the last checkpoint had been saved: %s", e)
            last_step = self._end_step
        for listener in self._listeners:
            listener.end(session, last_step)

    def _save_last(self, session: Any) -> int:
        """Saves a checkpoint unless the last one is of the present step; returns that step."""
        step = int(session.run(self._global_step))
        if step != self._saved_step:
            self._save(session, step)
        return step

    def _save_if_possible(self, session: Any, step: int) -> bool:
        """Saves between steps. A full disk does not end the training: it is logged, and tried again next time."""
        try:
            return self._save(session, step)
        except errors.ResourceExhaustedError as e:
            logging.error("The checkpoint of step %d was not saved, training goes on without: %s", step, e.message)
            return False

    def _save(self, session: Any, step: int) -> bool:
        """Saves; returns whether a listener requests a stop."""
        from tensorboard.compat.proto.event_pb2 import SessionLog  # Start-up time: protobuf is slow to import.

        logging.info("Saving checkpoints for %d into %s.", step, self._save_path)
        for listener in self._listeners:
            listener.before_save(session, step)
        self._get_saver().save(session, self._save_path, global_step=step, write_meta_graph=self._save_graph_def)
        self._saved_step = step
        self._summary_writer.add_session_log(
            SessionLog(status=SessionLog.CHECKPOINT, checkpoint_path=self._save_path), step
        )
        should_stop = False
        for listener in self._listeners:
            if listener.after_save(session, step):
                logging.info("A CheckpointSaverListener requested that training be stopped. listener: %s", listener)
                should_stop = True
        return should_stop

    def _get_saver(self) -> Any:
        if self._saver is not None:
            return self._saver
        if self._scaffold is not None:
            return self._scaffold.saver
        savers = get_collection(GraphKeys.SAVERS)
        if not savers:
            raise RuntimeError(
                f"No items in collection {GraphKeys.SAVERS}. Please add a saver to the collection or provide a saver "
                "or scaffold."
            )
        if len(savers) > 1:
            raise RuntimeError(
                f"More than one item in collection {GraphKeys.SAVERS}. Please indicate which one to use by passing it "
                "to the constructor."
            )
        self._saver = savers[0]
        return self._saver
