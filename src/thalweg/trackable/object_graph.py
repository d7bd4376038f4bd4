"""The graph of Python objects below a root: which objects own which, and the key of each value in a checkpoint.

Objects are nodes, attributes are named edges. A value's key is the shortest path of names to its object, so it does not
depend on the names of variables. The keys and the TrackableObjectGraph message are TensorFlow's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from thalweg.graph.default_graph import get_default_graph
from thalweg.layers.layer import Layer
from thalweg.rnn.cell_wrappers import MultiRNNCell
from thalweg.state.module import Module
from thalweg.state.partitioned_variable import PartitionedVariable
from thalweg.state.variable import Variable
from thalweg.train.optimizers.optimizer import Optimizer

GRAPH_KEY: Final = "_CHECKPOINTABLE_OBJECT_GRAPH"
VALUE: Final = "VARIABLE_VALUE"
_ATTRIBUTES: Final = ".ATTRIBUTES"
_SLOT: Final = ".OPTIMIZER_SLOT"


class AutoTrackable:
    """An object whose attributes are saved and restored, as far as they can be."""

    def _children(self) -> dict[str, Any]:
        return vars(self)


class Slot(NamedTuple):
    """State that an optimizer keeps beside a variable; all three are numbers of nodes but the name."""

    optimizer: int
    variable: int
    name: str
    value: int


def is_trackable(value: Any) -> bool:
    """Whether an object can be in the graph: it has a value to save, or may own objects that have one."""
    if isinstance(value, (AutoTrackable, Module, Layer, Optimizer, list, tuple, dict)):
        return True
    return _has_value(value)


def _has_value(value: Any) -> bool:
    return isinstance(value, (Variable, PartitionedVariable)) or callable(
        getattr(value, "_gather_saveables_for_checkpoint", None)
    )


def children(value: Any) -> dict[str, Any]:
    """The objects that an object owns, by the names of the edges to them."""
    found: dict[str, Any] = {}
    for name, child in _attributes(value):
        if is_trackable(child) and not (isinstance(child, (list, tuple, dict)) and not _owns_any(child)):
            found.setdefault(name, child)
    return found


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Variable):
        return
    if isinstance(value, dict):
        yield from ((name, child) for name, child in value.items() if isinstance(name, str))
    elif isinstance(value, (list, tuple)):
        yield from ((str(i), child) for i, child in enumerate(value))
    elif isinstance(value, Optimizer):
        graph = get_default_graph()
        yield from sorted((name, child) for (name, owner), child in value._non_slot_dict.items() if owner is graph)
    elif isinstance(value, Layer):
        yield from _in_layer(value)
    elif isinstance(value, AutoTrackable):
        yield from value._children().items()
    elif isinstance(value, Module):
        yield from vars(value).items()


def _in_layer(layer: Layer) -> Iterator[tuple[str, Any]]:
    """The weights of a layer, by the names that it gave them, and then what its attributes hold."""
    if hasattr(layer, "_checkpoint_children"):  # A model's, which names its layers.
        yield from layer._checkpoint_children().items()
    scope = "" if layer._scope is None else f"{layer._scope.name}/"
    for weight in [*layer._trainable_weights, *layer._non_trainable_weights]:
        if not isinstance(weight, PartitionedVariable) and weight.op.name.startswith(scope):
            yield weight.op.name.removeprefix(scope), weight
    if isinstance(layer, MultiRNNCell):
        yield from ((f"cell-{i}", cell) for i, cell in enumerate(layer._cells))
    own = vars(Layer(name="without_attributes"))
    yield from ((name, child) for name, child in vars(layer).items() if name not in own)


def _owns_any(container: Any) -> bool:
    """Whether a container holds objects: one of numbers is a plain attribute."""
    items = container.values() if isinstance(container, dict) else container
    return all(is_trackable(item) for item in items)


class ObjectGraph:
    """The objects that a root reaches, breadth first.

    Attributes:
        objects: The objects; the number of a node is its place. Slots of optimizers come last.
        edges: For each node, its children by name.
        slots: The state of optimizers beside variables that are in the graph.
    """

    def __init__(self, root: Any) -> None:
        """Walks along all edges."""
        self.objects: list[Any] = [root]
        self.edges: list[dict[str, int]] = []
        self.slots: list[Slot] = []
        self._numbers = {id(root): 0}
        self._paths: list[tuple[str, ...]] = [()]
        self._slot_keys: dict[int, str] = {}
        waiting = deque([0])
        while waiting:
            number = waiting.popleft()
            named: dict[str, int] = {}
            for name, child in children(self.objects[number]).items():
                known = self._numbers.get(id(child))
                if known is None:
                    known = self._add(child)
                    self._paths.append((*self._paths[number], name))
                    waiting.append(known)
                named[name] = known
            self.edges.append(named)
        self._add_slots()

    def _add(self, value: Any) -> int:
        self._numbers[id(value)] = len(self.objects)
        self.objects.append(value)
        return len(self.objects) - 1

    def _add_slots(self) -> None:
        found = list(enumerate(self.objects))
        variables = [(number, each) for number, each in found if isinstance(each, Variable)]
        for owner, optimizer in found:
            if not hasattr(optimizer, "get_slot_names"):
                continue
            for name in optimizer.get_slot_names():
                for number, variable in variables:
                    slot = optimizer.get_slot(variable, name)
                    if slot is None:
                        continue
                    known = self._numbers.get(id(slot))
                    if known is None:
                        known = self._add(slot)
                        self.edges.append({})
                        places = (self._path(number), _SLOT, self._path(owner), _escaped(name))
                        self._slot_keys[known] = "/".join(places)
                    self.slots.append(Slot(owner, number, name, known))

    def _path(self, number: int) -> str:
        return "/".join(_escaped(name) for name in self._paths[number])

    def number_of(self, value: Any) -> int | None:
        """The number of an object's node, or None."""
        return self._numbers.get(id(value))

    def values(self, number: int) -> dict[str, tuple[str, Any]]:
        """For each value of a node: its key in the checkpoint, and what a Saver saves under that key."""
        value = self.objects[number]
        if not _has_value(value):
            return {}
        prefix = self._slot_keys.get(number) or self._path(number)
        names = [VALUE]
        if not isinstance(value, (Variable, PartitionedVariable)):
            names = list(value._gather_saveables_for_checkpoint())
        return {name: (f"{prefix}/{_ATTRIBUTES}/{name}", _saved(value, name)) for name in names}

    def to_proto(self) -> Any:
        """The TrackableObjectGraph."""
        from tensorboard.compat.proto import trackable_object_graph_pb2  # Start-up time: protobuf is slow to import.

        graph = trackable_object_graph_pb2.TrackableObjectGraph()
        for number, edges in enumerate(self.edges):
            node = graph.nodes.add()
            for name, child in edges.items():
                node.children.add(node_id=child, local_name=name)
            for name, (key, _) in self.values(number).items():
                full_name = getattr(getattr(self.objects[number], "op", None), "name", "")
                node.attributes.add(name=name, full_name=full_name, checkpoint_key=key)
        for slot in self.slots:
            graph.nodes[slot.optimizer].slot_variables.add(
                original_variable_node_id=slot.variable, slot_name=slot.name, slot_variable_node_id=slot.value
            )
        return graph


def _saved(value: Any, name: str) -> Any:
    """What a Saver takes: the variable itself, or a function from the key to the object that saves it."""
    if isinstance(value, (Variable, PartitionedVariable)):
        return value
    return value._gather_saveables_for_checkpoint()[name]


def _escaped(name: str) -> str:
    """A name without the separator of keys."""
    return name.replace(".", "..").replace("/", ".S")
