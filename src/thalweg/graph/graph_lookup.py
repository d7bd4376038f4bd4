"""The parts of Graph that find things: elements by name or object, and collections."""

from __future__ import annotations

import re
import threading
from typing import Any

from thalweg.graph.eager_tensor import EagerTensor
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.variable_values import exchanged
from thalweg.platform.absent_names import closest


class CollectionStore:
    """Named lists of anything, kept with a graph."""

    _lock: threading.RLock
    _collections: dict[Any, list[Any]]

    def _check_not_finalized(self) -> None:
        raise NotImplementedError

    def add_to_collection(self, name: Any, value: Any) -> None:
        """Appends `value` to the collection `name`, also if it is there already."""
        self._check_not_finalized()
        with self._lock:
            self._collections.setdefault(name, []).append(value)

    def add_to_collections(self, names: Any, value: Any) -> None:
        """Appends `value` to each of the collections (a name, or an iterable of names, each taken once)."""
        for name in (names,) if isinstance(names, str) else dict.fromkeys(names):
            self.add_to_collection(name, value)

    def get_collection_ref(self, name: Any) -> list[Any]:
        """The list itself, created if needed: changes to it change the collection."""
        with self._lock:
            return self._collections.setdefault(name, [])

    def get_collection(self, name: Any, scope: str | None = None) -> list[Any]:
        """A copy of the collection.

        Args:
            name: The collection.
            scope: A regular expression: only items whose `name` matches it from the start are returned.
        """
        with self._lock:
            items = list(self._collections.get(name, ()))
        if scope is None:
            return items
        pattern = re.compile(scope)
        return [item for item in items if hasattr(item, "name") and pattern.match(item.name)]

    def get_all_collection_keys(self) -> list[Any]:
        """The names of all collections that are strings."""
        with self._lock:
            return [name for name in self._collections if isinstance(name, str)]

    @property
    def collections(self) -> list[Any]:
        """The names of all collections."""
        return list(self._collections)

    def clear_collection(self, name: Any) -> None:
        """Empties a collection."""
        self._check_not_finalized()
        with self._lock:
            self._collections.pop(name, None)


class ElementLookup:
    """Operations and tensors by name."""

    _lock: threading.RLock
    _operations: list[Operation]
    _operations_by_name: dict[str, Operation]

    def get_operations(self) -> list[Operation]:
        """All operations, in order of creation."""
        with self._lock:
            return list(self._operations)

    def get_operation_by_name(self, name: str) -> Operation:
        """Returns an operation.

        Raises:
            TypeError: If `name` is not a string.
            ValueError: If it names a tensor.
            KeyError: If there is no such operation.
        """
        if not isinstance(name, str):
            raise TypeError(f"Operation names are strings (or similar), not {type(name).__name__}.")
        element: Operation = self.as_graph_element(name, allow_tensor=False, allow_operation=True)
        return element

    def get_tensor_by_name(self, name: str) -> Tensor:
        """Returns a tensor, named `'op:index'`. The name of a variable gives the tensor that stands for its value.

        Raises:
            TypeError: If `name` is not a string.
            ValueError: If it does not have this form.
            KeyError: If there is no such tensor.
        """
        if not isinstance(name, str):
            raise TypeError(f"Tensor names are strings (or similar), not {type(name).__name__}.")
        element: Tensor = self.as_graph_element(name, allow_tensor=True, allow_operation=False)
        return element

    def as_graph_element(self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Any:
        """Resolves a tensor, operation, name, or an object that stands for one (a variable) to the graph's element.

        Raises:
            TypeError: If `obj` is none of these, or of a kind that is not allowed.
            ValueError: If it belongs to another graph, or is not a well-formed name.
            KeyError: If nothing has that name.
        """
        if not (allow_tensor or allow_operation):
            raise ValueError("allow_tensor and allow_operation can't both be False.")
        if not isinstance(obj, (Tensor, Operation, str)):
            convert = getattr(obj, "_as_graph_element", None)
            obj = obj if convert is None else convert()
            obj = obj.decode() if isinstance(obj, bytes) else obj
        if isinstance(obj, str):
            return self._element_by_name(obj, allow_tensor, allow_operation)
        if type(obj) is EagerTensor:
            raise TypeError(f"{obj!r} has its value already: it is no element of a graph that a session could run.")
        kind = "Tensor" if isinstance(obj, Tensor) else "Operation"
        if isinstance(obj, Tensor if allow_tensor else Operation) or (allow_operation and isinstance(obj, Operation)):
            if obj.graph is not self:
                raise ValueError(f"{kind} {obj} is not an element of this graph.")
            return obj
        raise TypeError(f"Can not convert a {type(obj).__name__} into a {_allowed(allow_tensor, allow_operation)}.")

    def _exact_element(self, name: str) -> Any:
        """The element of a name as the graph has it: of 'v:0', the handle of variable v."""
        return self._element_by_name(name, True, True, values=False)

    def _element_by_name(self, name: str, allow_tensor: bool, allow_operation: bool, values: bool = True) -> Any:
        if ":" in name:
            if not allow_tensor:
                raise ValueError(f"Name {name!r} appears to refer to a Tensor, not a Operation.")
            op_name, _, index_text = name.partition(":")
            if not (op_name and index_text.isdecimal()):
                raise ValueError(
                    f"The name {name!r} looks a like a Tensor name, but is not a valid one. Tensor names must "
                    "be of the "
                    'form "<op_name>:<output_index>".'
                )
            op = self._operations_by_name.get(op_name) or self._variable_of_read(op_name if values else "")
            if op is None:
                raise KeyError(
                    f"The name {name!r} refers to a Tensor which does not exist. The operation, {op_name!r}, does not "
                    f"exist in the graph.{self._meant(op_name)}"
                )
            if int(index_text) >= len(op.outputs):
                raise KeyError(
                    f"The name {name!r} refers to a Tensor which does not exist. The operation, {op_name!r}, "
                    "exists but "
                    f"only has {len(op.outputs)} outputs."
                )
            tensor = op.outputs[int(index_text)]
            return exchanged(tensor, wants_handle=False) if values else tensor
        op = self._operations_by_name.get(name)
        if allow_operation:
            if op is None and values and self._variable_of_read(name) is not None:
                op = self._operations_by_name.get(f"{name[: -len('/read')]}/Read/ReadVariableOp")
            if op is None:
                raise KeyError(f"The name {name!r} refers to an Operation not in the graph.{self._meant(name)}")
            return op
        looks = "refers to an Operation" if op is not None else "looks like an (invalid) Operation name"
        raise ValueError(
            f'The name {name!r} {looks}, not a Tensor. Tensor names must be of the form "<op_name>:<output_index>".'
        )

    def _meant(self, name: str) -> str:
        """The end of an error message: the operation that a misspelt name may stand for."""
        # Programs may ask whether a name is there, often: the search takes some 10 us a name.
        near = closest(name, self._operations_by_name) if len(self._operations_by_name) <= 1000 else ""
        return f" Did you mean {near!r}?" if near else ""

    def _variable_of_read(self, name: str) -> Operation | None:
        """The variable `v` of 'v/read', the operation that reads it where variables are references."""
        variable = self._operations_by_name.get(name[: -len("/read")]) if name.endswith("/read") else None
        return variable if variable is not None and variable.type == "VarHandleOp" else None


def _allowed(allow_tensor: bool, allow_operation: bool) -> str:
    if allow_tensor and allow_operation:
        return "Tensor or Operation"
    return "Tensor" if allow_tensor else "Operation"
