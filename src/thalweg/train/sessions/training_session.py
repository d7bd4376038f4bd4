"""MonitoredTrainingSession: a monitored session that saves checkpoints and summaries, and resumes by itself."""

from __future__ import annotations

from typing import Any, Final

from thalweg.graph.definitions.op_registry import export
from thalweg.train.checkpoints.end_mark import remove_end_mark, write_end_mark
from thalweg.train.hooks.checkpoint_hook import CheckpointSaverHook
from thalweg.train.hooks.session_run_hook import SessionRunHook
from thalweg.train.hooks.summary_hooks import StepCounterHook, SummarySaverHook
from thalweg.train.hooks.task_status import task_status_hooks
from thalweg.train.sessions.monitored_session import MonitoredSession
from thalweg.train.sessions.scaffold import Scaffold
from thalweg.train.sessions.session_creator import ChiefSessionCreator, SessionCreator, WorkerSessionCreator

USE_DEFAULT: Final = object()


class _EndMarkHook(SessionRunHook):
    """Tells workers that the chief has ended; the last hook, so that everything has been saved."""

    def __init__(self, checkpoint_dir: Any) -> None:
        self._checkpoint_dir = checkpoint_dir

    def after_create_session(self, session: Any, coord: Any) -> None:
        remove_end_mark(self._checkpoint_dir)

    def end(self, session: Any) -> None:
        write_end_mark(self._checkpoint_dir)


@export("train.MonitoredTrainingSession")
def MonitoredTrainingSession(
    master: str = "",
    is_chief: bool = True,
    checkpoint_dir: Any = None,
    scaffold: Scaffold | None = None,
    hooks: Any = None,
    chief_only_hooks: Any = None,
    save_checkpoint_secs: Any = USE_DEFAULT,
    save_summaries_steps: Any = USE_DEFAULT,
    save_summaries_secs: Any = USE_DEFAULT,
    config: Any = None,
    stop_grace_period_secs: float = 120,
    log_step_count_steps: int | None = 100,
    max_wait_secs: float = 7200,
    save_checkpoint_steps: Any = USE_DEFAULT,
    summary_dir: Any = None,
    save_graph_def: bool = True,
) -> MonitoredSession:
    """Creates a MonitoredSession for training.

    With a `checkpoint_dir`, checkpoints and summaries are written there, and a program that is started again goes on
    from the latest checkpoint.

    Args:
        master: The target of the session.
        is_chief: Whether this process initializes and saves the model; other workers wait for it.
        checkpoint_dir: The folder for checkpoints.
        scaffold: Init ops, saver and so on; with defaults if None.
        hooks: The hooks of the session.
        chief_only_hooks: The same, for the chief only.
        save_checkpoint_secs: Seconds between checkpoints: 600, unless `save_checkpoint_steps` is given.
        save_summaries_steps: Steps between summaries: 100, unless `save_summaries_secs` is given.
        save_summaries_secs: Seconds between summaries.
        config: A ConfigProto.
        stop_grace_period_secs: How long the session's threads may go on after the end.
        log_step_count_steps: Steps between measurements of the speed.
        max_wait_secs: How long a worker waits for the chief.
        save_checkpoint_steps: Steps between checkpoints.
        summary_dir: The folder for summaries; `checkpoint_dir` if None.
        save_graph_def: Whether to write the graph beside the checkpoints.

    Returns:
        A MonitoredSession.
    """
    if save_summaries_steps is USE_DEFAULT and save_summaries_secs is USE_DEFAULT:
        save_summaries_steps, save_summaries_secs = 100, None
    save_summaries_steps = None if save_summaries_steps is USE_DEFAULT else save_summaries_steps
    save_summaries_secs = None if save_summaries_secs is USE_DEFAULT else save_summaries_secs
    if save_checkpoint_steps is USE_DEFAULT and save_checkpoint_secs is USE_DEFAULT:
        save_checkpoint_steps, save_checkpoint_secs = None, 600
    save_checkpoint_steps = None if save_checkpoint_steps is USE_DEFAULT else save_checkpoint_steps
    save_checkpoint_secs = None if save_checkpoint_secs is USE_DEFAULT else save_checkpoint_secs

    scaffold = scaffold or Scaffold()
    hooks = [*(hooks or ()), *task_status_hooks()]
    if not is_chief:
        worker: SessionCreator = WorkerSessionCreator(scaffold, master, config, max_wait_secs, checkpoint_dir)
        return MonitoredSession(worker, hooks, stop_grace_period_secs)

    all_hooks: list[SessionRunHook] = list(chief_only_hooks or ())
    summary_dir = summary_dir or checkpoint_dir
    if summary_dir:
        if log_step_count_steps and log_step_count_steps > 0:
            all_hooks.append(StepCounterHook(every_n_steps=log_step_count_steps, output_dir=summary_dir))
        if _is_on(save_summaries_steps) or _is_on(save_summaries_secs):
            all_hooks.append(
                SummarySaverHook(
                    save_steps=save_summaries_steps,
                    save_secs=save_summaries_secs,
                    output_dir=summary_dir,
                    scaffold=scaffold,
                )
            )
    if checkpoint_dir and (_is_on(save_checkpoint_secs) or _is_on(save_checkpoint_steps)):
        all_hooks.append(
            CheckpointSaverHook(
                checkpoint_dir,
                save_steps=save_checkpoint_steps,
                save_secs=save_checkpoint_secs,
                scaffold=scaffold,
                save_graph_def=save_graph_def,
            )
        )
    all_hooks.extend(hooks)
    if master and checkpoint_dir:
        all_hooks.append(_EndMarkHook(checkpoint_dir))
    creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir)
    return MonitoredSession(creator, all_hooks, stop_grace_period_secs)


def _is_on(interval: Any) -> bool:
    return bool(interval) and interval > 0
