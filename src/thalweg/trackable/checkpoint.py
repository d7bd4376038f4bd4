"""tf.train.Checkpoint: saves and restores the variables that objects own, by the path of attributes to them."""

from __future__ import annotations

import os
from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.default_graph import control_dependencies, executing_eagerly, get_default_graph
from thalweg.graph.operation import Operation
from thalweg.ops.array.constants import constant, no_op
from thalweg.state.saveable import SaveableObject, SaveSpec
from thalweg.state.variable import Variable
from thalweg.trackable.eager_values import write_values
from thalweg.trackable.object_graph import GRAPH_KEY, AutoTrackable, ObjectGraph, children, is_trackable
from thalweg.trackable.object_restore import (
    InitializationStatus,
    LoadStatus,
    NamedLoadStatus,
    saver_of,
    session_or_default,
)
from thalweg.train.checkpoints.checkpoint_reader import CheckpointReader
from thalweg.train.checkpoints.checkpoint_state import write_checkpoint_state
from thalweg.train.checkpoints.saver import Saver


class ObjectGraphSaveable(SaveableObject):
    """The graph of objects as a string in the checkpoint; restoring a Saver leaves it alone."""

    def __init__(self, serialized: bytes) -> None:
        tensor = constant(serialized, name="object_graph")
        super().__init__(tensor, [SaveSpec(tensor, "", GRAPH_KEY)], GRAPH_KEY)

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> Operation:
        """Does nothing: the graph of objects is that of the program."""
        return no_op()


class Checkpoint(AutoTrackable):
    """Saves and restores what objects own: variables, layers, optimizers, iterators, and lists and dicts of these.

    Values are found by the path of attributes to them, and not by the names of variables as those of `tf.train.Saver`.
    The files are TensorFlow's in both directions.

    Example:
        >>> step = tf.Variable(3, name="any_name")
        >>> checkpoint = tf.train.Checkpoint(step=step)
        >>> with tf.Session() as sess:
        ...     sess.run(step.initializer)
        ...     path = checkpoint.save(os.path.join(tempfile.mkdtemp(), "ckpt"))
        >>> tf.train.list_variables(path)[1]
        ('save_counter/.ATTRIBUTES/VARIABLE_VALUE', [])
        >>> with tf.Session() as sess:
        ...     checkpoint.restore(path).assert_consumed().run_restore_ops()
        ...     print(sess.run(step))
        3
    """

    def __init__(self, root: Any = None, **kwargs: Any) -> None:
        """Takes the objects by name; more can be set as attributes later.

        Args:
            root: An object whose own attributes are saved at the top, as if they were given by name.
            **kwargs: The objects.

        Raises:
            ValueError: If one of them can own nothing to save.
        """
        super().__init__()
        if root is not None and not is_trackable(root):
            raise ValueError(f"`Checkpoint` was expecting `root` to be a trackable object, got {root!r}.")
        self._root = root
        self._counters: dict[Any, Any] = {}
        self._writer: tuple[bytes, Any, Saver] | None = None
        for name, value in sorted(kwargs.items()):
            if not is_trackable(value):
                raise ValueError(
                    f"`Checkpoint` was expecting {name} to be a trackable object (a variable, layer, optimizer, or a "
                    f"list or dict of these), got {value!r}. If you believe this object should be trackable, please "
                    "derive its class from tf.train.Checkpoint or tf.layers.Layer."
                )
            setattr(self, name, value)

    def _children(self) -> dict[str, Any]:
        """What the checkpoint owns: the attributes of the root, its own, and how often it was saved."""
        own = {} if self._root is None else children(self._root)
        own |= {name: value for name, value in vars(self).items() if name not in ("_root", "_counters", "_writer")}
        counter = self._counters.get(get_default_graph())
        return own if counter is None else {**own, "save_counter": counter}

    @property
    def save_counter(self) -> Any:
        """How often `save` was called: an integer variable, saved with the others, made when first used."""
        graph = get_default_graph()
        if graph not in self._counters:
            with control_dependencies(None):
                self._counters[graph] = Variable(0, trainable=False, name="save_counter", dtype=dtypes.int64)
        return self._counters[graph]

    def write(self, file_prefix: Any, session: Any = None, options: Any = None) -> str:
        """Writes a checkpoint with this prefix, without counting it.

        Args:
            file_prefix: The prefix of the files.
            session: The session; the default one if None.
            options: Not used.

        Returns:
            The prefix, for `restore`.
        """
        if executing_eagerly():
            return self._write_eagerly(os.fsdecode(file_prefix))
        session = session_or_default(session)
        with session.graph.as_default():
            self._make_counter(session)
            graph = ObjectGraph(self)
            serialized: bytes = graph.to_proto().SerializeToString(deterministic=True)
            if self._writer is None or self._writer[:2] != (serialized, session.graph):
                values = [graph.values(number) for number in range(len(graph.objects))]
                by_key = {key: value for each in values for key, value in each.values()}
                saver = saver_of({**by_key, GRAPH_KEY: ObjectGraphSaveable(serialized)})
                self._writer = (serialized, session.graph, saver)
            path = self._writer[2].save(session, os.fsdecode(file_prefix), write_meta_graph=False, write_state=False)
        assert path is not None
        return path

    def save(self, file_prefix: Any, session: Any = None, options: Any = None) -> str:
        """Writes a checkpoint, numbered by how often this was called, and the `checkpoint` file of its folder.

        Args:
            file_prefix: The prefix of the files, to which a dash and the number are added.
            session: The session; the default one if None.
            options: Not used.

        Returns:
            The prefix with the number, for `restore`.
        """
        prefix = os.fsdecode(file_prefix)
        if executing_eagerly():
            path = self._write_eagerly(f"{prefix}-{int(self.save_counter.assign_add(1).numpy())}")
            write_checkpoint_state(os.path.dirname(prefix), path, [path], None, save_relative_paths=True)
            return path
        session = session_or_default(session)
        path = self.write(f"{prefix}-{self._count(session)}", session)
        write_checkpoint_state(os.path.dirname(prefix), path, [path], None, save_relative_paths=True)
        return path

    def _write_eagerly(self, path: str) -> str:
        self.save_counter  # noqa: B018 (made now, so that it is saved with the others)
        graph = ObjectGraph(self)
        serialized: bytes = graph.to_proto().SerializeToString(deterministic=True)
        values = [graph.values(number) for number in range(len(graph.objects))]
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        write_values(path, {key: value for each in values for key, value in each.values()}, {GRAPH_KEY: serialized})
        return path

    def _make_counter(self, session: Any) -> Any:
        """The counter of the session's graph; a new one is initialized, which no program knows to do."""
        is_new = session.graph not in self._counters
        counter = self.save_counter
        if is_new:
            session.run(counter.initializer)
        return counter

    def _count(self, session: Any) -> int:
        """Counts one more checkpoint; without a session, ops run at once."""
        if session is None:
            return int(self.save_counter.assign_add(1).numpy())
        with session.graph.as_default():
            counter = self._make_counter(session)
            return int(session.run(counter.assign_add(1)))

    def restore(self, save_path: Any, options: Any = None) -> Any:
        """Finds the objects of a checkpoint; the returned status restores them in a session.

        Args:
            save_path: The prefix that `save` or `tf.train.latest_checkpoint` returned; None for none.
            options: Not used.

        Returns:
            A status with `run_restore_ops` and `initialize_or_restore`, which take a session, and `assert_consumed`,
            `assert_existing_objects_matched` and `expect_partial`.

        Raises:
            errors.NotFoundError: If there is no such checkpoint.
        """
        self.save_counter  # noqa: B018 (made now, so that it is restored and initialized with the others)
        if save_path is None:
            return InitializationStatus(self)
        path = os.fsdecode(save_path)
        reader = CheckpointReader(path)
        kind = LoadStatus if reader.has_tensor(GRAPH_KEY) else NamedLoadStatus
        status = kind(self, path, reader)
        if executing_eagerly():
            status.run_restore_ops()
        return status

    def read(self, save_path: Any, options: Any = None) -> Any:
        """As `restore`, for checkpoints that `write` made."""
        return self.restore(save_path, options)
