"""The position of an iterator as part of a checkpoint."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one, apply_op
from thalweg.graph.collections import GraphKeys
from thalweg.graph.default_graph import get_collection
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.operation import Operation
from thalweg.state.saveable import SaveableObject, SaveSpec
from thalweg.train.checkpoints.checkpoint_state import latest_checkpoint
from thalweg.train.checkpoints.saver import Saver
from thalweg.train.hooks.basic_hooks import require_global_step
from thalweg.train.hooks.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from thalweg.train.hooks.timer import SecondOrStepTimer

if TYPE_CHECKING:
    from thalweg.data.iterator import Iterator

_LATEST: Final = "checkpoint_input"


class IteratorSaveable(SaveableObject):
    """Saves where an iterator is; restoring needs the iterator to be initialized with an equal dataset."""

    def __init__(self, iterator: Iterator, name: str) -> None:
        """Adds the operation that serializes the position."""
        self._resource = iterator._iterator_resource
        position = apply_one("_IteratorPosition", self._resource)
        super().__init__(self._resource, [SaveSpec(position, "", f"{name}-iterator_state", dtype=dtypes.string)], name)

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> Operation:
        """Sets the position."""
        position = apply_one("Reshape", restored_tensors[0], [])
        return apply_op("_RestoreIteratorPosition", self._resource, position)


@export("data.experimental.make_saveable_from_iterator")
def make_saveable_from_iterator(iterator: Iterator, external_state_policy: Any = "fail") -> SaveableObject:
    """The position of an iterator, for a Saver.

    Add it to the collection SAVEABLE_OBJECTS, or to a Saver's list. After `saver.restore`, `get_next` goes on where it
    was when the checkpoint was written. The iterator must have been initialized before it is restored.

    Example:
        >>> iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(10))
        >>> element = iterator.get_next()
        >>> saver = tf.train.Saver([tf.data.experimental.make_saveable_from_iterator(iterator)])
        >>> with tf.Session() as session:
        ...     _ = session.run(iterator.initializer)
        ...     _ = [session.run(element) for _ in range(3)]
        ...     path = saver.save(session, os.path.join(tempfile.mkdtemp(), "model"))
        ...     _ = session.run(iterator.initializer)
        ...     saver.restore(session, path)
        ...     print(session.run(element))
        3
    """
    return IteratorSaveable(iterator, iterator._iterator_resource.op.name)


@export("data.experimental.CheckpointInputPipelineHook")
class CheckpointInputPipelineHook(SessionRunHook):
    """Saves the positions of the iterators in SAVEABLE_OBJECTS beside the checkpoints of a training, and restores them.

    Args:
        estimator: Has `model_dir`, and `config` with `save_checkpoints_steps` or `save_checkpoints_secs`; or just a
            directory.
        external_state_policy: Has no effect: the state outside of a pipeline is never saved.
    """

    def __init__(self, estimator: Any, external_state_policy: Any = None) -> None:
        """See the class."""
        config = getattr(estimator, "config", None)
        seconds = getattr(config, "save_checkpoints_secs", None)
        steps = getattr(config, "save_checkpoints_steps", None)
        self._folder = os.fspath(getattr(estimator, "model_dir", estimator))
        self._timer = SecondOrStepTimer(
            every_secs=600 if seconds is None and steps is None else seconds, every_steps=steps
        )

    def begin(self) -> None:
        """Makes the Saver of the iterators.

        Raises:
            ValueError: If the collection SAVEABLE_OBJECTS holds no iterator.
        """
        self._global_step = require_global_step(self)
        iterators = [s for s in get_collection(GraphKeys.SAVEABLE_OBJECTS) if isinstance(s, IteratorSaveable)]
        if not iterators:
            raise ValueError(
                "CheckpointInputPipelineHook found no iterator to save: add make_saveable_from_iterator(iterator) to "
                "the collection SAVEABLE_OBJECTS."
            )
        self._saver = Saver(iterators, sharded=False, save_relative_paths=True)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Restores the positions, if a checkpoint has them; else saves the first ones."""
        path = latest_checkpoint(self._folder, latest_filename=_LATEST)
        step = int(session.run(self._global_step))
        if path is not None:
            self._saver.restore(session, path)
        else:
            self._save(session, step)
        self._timer.update_last_triggered_step(step)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetches the global step."""
        return SessionRunArgs(self._global_step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Saves if it is time."""
        step = int(run_context.session.run(self._global_step))
        if self._timer.should_trigger_for_step(step):
            self._timer.update_last_triggered_step(step)
            self._save(run_context.session, step)

    def end(self, session: Any) -> None:
        """Saves the last positions."""
        step = int(session.run(self._global_step))
        if step != self._timer.last_triggered_step():
            self._save(session, step)

    def _save(self, session: Any, step: int) -> None:
        self._saver.save(
            session, os.path.join(self._folder, "input.ckpt"), global_step=step, latest_filename=_LATEST,
            write_meta_graph=False,
        )  # fmt: skip
