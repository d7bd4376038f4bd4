"""Restoring a graph of objects: which nodes of a checkpoint belong to which objects, and what `restore` returns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from thalweg.graph.default_graph import executing_eagerly
from thalweg.graph.default_stack import get_default_session
from thalweg.state.partitioned_variable import PartitionedVariable
from thalweg.state.variable import Variable
from thalweg.trackable.deferred import end_restoring, restore_later
from thalweg.trackable.eager_values import restore_values
from thalweg.trackable.object_graph import GRAPH_KEY, ObjectGraph, children
from thalweg.train.checkpoints.checkpoint_reader import CheckpointReader
from thalweg.train.checkpoints.saver import Saver


def session_or_default(session: Any) -> Any:
    """The session, or the default one.

    Raises:
        ValueError: If there is neither.
    """
    found = session if session is not None else get_default_session()
    if found is None:
        raise ValueError("No session: pass `session=`, or use a `with session:` block.")
    return found


def saver_of(values: dict[str, Any]) -> Saver:
    """A Saver of values by their keys; functions make what saves them from the key."""
    made = {key: value(key) if _is_factory(value) else value for key, value in values.items()}
    return Saver(made, max_to_keep=None)


def _is_factory(value: Any) -> bool:
    return callable(value) and not isinstance(value, (Variable, PartitionedVariable))


class LoadStatus:
    """What `tf.train.Checkpoint.restore` returns: runs the restoring, and checks that nothing is left over.

    Objects are matched with the checkpoint anew by every method, so that those which came to be after `restore` count.
    """

    def __init__(self, root: Any, path: str, reader: CheckpointReader) -> None:
        """Reads the graph of objects in a checkpoint."""
        from tensorboard.compat.proto import trackable_object_graph_pb2  # Start-up time: protobuf is slow to import.

        self._root = root
        self._path = path
        self._saved = trackable_object_graph_pb2.TrackableObjectGraph()
        self._saved.ParseFromString(reader.get_tensor(GRAPH_KEY))
        self._savers: dict[tuple[Any, ...], Saver] = {}

    @property
    def root(self) -> Any:
        """The object whose values are restored, and those of what it owns."""
        return self._root

    def _matched(self) -> tuple[ObjectGraph, dict[int, Any]]:
        """The objects that there are now, and those that nodes of the checkpoint belong to."""
        graph = ObjectGraph(self._root)
        found: dict[int, Any] = {0: self._root}
        waiting = deque([0])
        while waiting:
            number = waiting.popleft()
            owned = children(found[number])
            for edge in self._saved.nodes[number].children:
                if edge.local_name in owned and edge.node_id not in found:
                    found[edge.node_id] = owned[edge.local_name]
                    waiting.append(edge.node_id)
        for number, node in enumerate(self._saved.nodes):
            for slot in node.slot_variables:
                optimizer, variable = found.get(number), found.get(slot.original_variable_node_id)
                if optimizer is not None and variable is not None:
                    value = optimizer.get_slot(variable, slot.slot_name)
                    if value is not None:
                        found[slot.slot_variable_node_id] = value
        return graph, found

    def _values(self, graph: ObjectGraph, found: dict[int, Any]) -> dict[str, Any]:
        """What is to be restored, by key."""
        values: dict[str, Any] = {}
        for number, value in found.items():
            place = graph.number_of(value)
            here = {} if place is None else graph.values(place)
            for attribute in self._saved.nodes[number].attributes:
                if attribute.name in here:
                    values[attribute.checkpoint_key] = here[attribute.name][1]
        return values

    def run_restore_ops(self, session: Any = None) -> None:
        """Gives the objects that are in the checkpoint their values.

        Raises:
            ValueError: If there is no session.
            errors.InvalidArgumentError: If a variable has another shape or type in the checkpoint.
        """
        if executing_eagerly():
            graph, found = self._matched()
            restore_values(self._path, self._values(graph, found))
            end_restoring(self._root)
            if self._is_partial(found):
                restore_later(self)
            return
        session = session_or_default(session)
        values = self._values(*self._matched())
        if not values:
            return
        shown = tuple((key, id(value)) for key, value in values.items())
        if shown not in self._savers:
            self._savers[shown] = saver_of(values)
        self._savers[shown].restore(session, self._path)

    def restore_late(self, is_awaited: Callable[[Any], bool]) -> None:
        """Gives the variables that were made after `restore`, and that have a place by now, their values."""
        graph, found = self._matched()
        restore_values(
            self._path, {key: value for key, value in self._values(graph, found).items() if is_awaited(value)}
        )
        if not self._is_partial(found):
            end_restoring(self._root)

    def _is_partial(self, found: dict[int, Any]) -> bool:
        """Whether the checkpoint has values that belong to no object yet."""
        return any(node.attributes and number not in found for number, node in enumerate(self._saved.nodes))

    def initialize_or_restore(self, session: Any = None) -> None:
        """Restores the objects that are in the checkpoint, and initializes all others."""
        if executing_eagerly():
            self.run_restore_ops()
            return
        session = session_or_default(session)
        graph, found = self._matched()
        restored = {id(value) for value in found.values()}
        session.run(initializers(value for value in graph.objects if id(value) not in restored))
        self.run_restore_ops(session)

    def assert_consumed(self) -> LoadStatus:
        """Checks that everything in the checkpoint has an object, and every object a value.

        Raises:
            AssertionError: If something is left over; the message names it.
        """
        self.assert_existing_objects_matched()
        _, found = self._matched()
        for number, node in enumerate(self._saved.nodes):
            if number not in found:
                keys = [attribute.checkpoint_key for attribute in node.attributes]
                raise AssertionError(
                    f"Unresolved object in checkpoint {self._path}: node {number} with the values {keys or 'none'} "
                    f"belongs to no object here. `expect_partial()` says that this is meant."
                )
        return self

    def assert_existing_objects_matched(self) -> LoadStatus:
        """Checks that every object with a value has one in the checkpoint.

        Raises:
            AssertionError: If one has none; the message names it.
        """
        graph, found = self._matched()
        values = self._values(graph, found)
        restored = {id(value) for value in found.values()}
        for number, value in enumerate(graph.objects):
            if graph.values(number) and id(value) not in restored:
                key = next(iter(graph.values(number).values()))[0]
                raise AssertionError(f"Object not assigned a value from checkpoint {self._path}: {value!r} ({key}).")
        reader = CheckpointReader(self._path)
        absent = [key for key in values if not reader.has_tensor(key) and not _has_parts(reader, key)]
        if absent:
            raise AssertionError(f"Checkpoint {self._path} lists values that it does not have: {absent}.")
        return self

    def assert_nontrivial_match(self) -> LoadStatus:
        """Checks that something beside the root is in the checkpoint.

        Raises:
            AssertionError: If nothing is.
        """
        if len(self._matched()[1]) < 2:
            raise AssertionError(f"Nothing except the root object matched checkpoint {self._path}.")
        return self

    def expect_partial(self) -> LoadStatus:
        """Says that parts of the checkpoint may stay unused; nothing warns of them here."""
        return self


def _has_parts(reader: CheckpointReader, key: str) -> bool:
    return any(name.startswith(f"{key}-") for name in reader.get_variable_to_shape_map())


class NamedLoadStatus:
    """What `restore` returns for a checkpoint of `tf.train.Saver`, which has variables by name."""

    def __init__(self, root: Any, path: str, reader: CheckpointReader) -> None:
        """Keeps them."""
        self._root = root
        self._path = path
        self._reader = reader

    def _variables(self) -> list[Any]:
        return [each for each in ObjectGraph(self._root).objects if isinstance(each, (Variable, PartitionedVariable))]

    def assert_consumed(self) -> NamedLoadStatus:
        """Checks that the checkpoint has no tensor that no object has the name of, and the reverse.

        Raises:
            AssertionError: If there is one.
        """
        self.assert_existing_objects_matched()
        left = set(self._reader.get_variable_to_shape_map()) - {each.op.name for each in self._variables()}
        if left:
            raise AssertionError(f"Some tensors of checkpoint {self._path} belong to no object: {sorted(left)}.")
        return self

    def assert_existing_objects_matched(self) -> NamedLoadStatus:
        """Checks that every variable is in the checkpoint.

        Raises:
            AssertionError: If one is not.
        """
        for variable in self._variables():
            if not self._reader.has_tensor(variable.op.name):
                raise AssertionError(f"Object not assigned a value from checkpoint {self._path}: {variable!r}.")
        return self

    assert_nontrivial_match = assert_existing_objects_matched

    def expect_partial(self) -> NamedLoadStatus:
        """Says that parts of the checkpoint may stay unused."""
        return self

    def run_restore_ops(self, session: Any = None) -> None:
        """Restores the variables by name; all must be in the checkpoint."""
        if executing_eagerly():
            restore_values(self._path, {variable.op.name: variable for variable in self._variables()})
            return
        Saver(self._variables(), max_to_keep=None).restore(session_or_default(session), self._path)

    def initialize_or_restore(self, session: Any = None) -> None:
        """As `run_restore_ops`."""
        self.run_restore_ops(session)


class InitializationStatus:
    """What `restore(None)` returns: there is nothing to restore."""

    def __init__(self, root: Any) -> None:
        """Keeps the root."""
        self._root = root

    def _refuse(self, *unused: Any, **also_unused: Any) -> Any:
        """Raises AssertionError: there is no checkpoint."""
        raise AssertionError("No checkpoint specified (save_path=None); nothing is being restored.")

    assert_consumed = assert_existing_objects_matched = assert_nontrivial_match = run_restore_ops = _refuse

    def expect_partial(self) -> InitializationStatus:
        """Does nothing."""
        return self

    def initialize_or_restore(self, session: Any = None) -> None:
        """Initializes all objects."""
        if executing_eagerly():
            return
        session_or_default(session).run(initializers(ObjectGraph(self._root).objects))


def initializers(values: Any) -> list[Any]:
    """The operations that initialize variables, parts of variables and tables."""
    parts = [part for each in values for part in (each if isinstance(each, PartitionedVariable) else [each])]
    return [each.initializer for each in parts if isinstance(each, Variable) or hasattr(each, "resource_handle")]
