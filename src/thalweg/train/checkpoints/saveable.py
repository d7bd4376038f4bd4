"""The objects that a Saver saves: variables, parts of variables, and objects that list their tensors themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from thalweg.graph.apply import apply_one, apply_op
from thalweg.graph.collections import GraphKeys
from thalweg.graph.default_graph import device, get_collection
from thalweg.graph.device_spec import DeviceSpec
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.state.embedding_variable import EmbeddingVariable
from thalweg.state.partitioned_variable import PartitionedVariable
from thalweg.state.saveable import SaveableObject, SaveSpec
from thalweg.state.variable import Variable


def cpu_of(name: str) -> str:
    """The first CPU of the task of a device: files are read and written there."""
    spec = DeviceSpec.from_string(name or "")
    return DeviceSpec(job=spec.job, replica=spec.replica, task=spec.task, device_type="CPU", device_index=0).to_string()


class VariableSaveable(SaveableObject):
    """A variable, or a part of a partitioned one."""

    def __init__(self, variable: Any, slice_spec: str, name: str) -> None:
        """Names the read of the variable to save."""
        reference = variable._reference
        value = variable._graph_element if reference is None else reference
        self._variable = variable
        super().__init__(variable, [SaveSpec(value, slice_spec, name, dtype=variable.dtype)], name)

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> Operation:
        """Assigns the value."""
        value = restored_tensors[0]
        if restored_shapes is not None:
            value = apply_one("Reshape", value, restored_shapes[0])
        variable = self._variable
        if variable._reference is not None:
            static = restored_shapes is None and variable.shape.is_fully_defined()
            return apply_one("Assign", variable._reference, value, validate_shape=static).op
        with device(variable.device):
            value = apply_one("Identity", value)
            static = restored_shapes is None and variable.shape.is_fully_defined()
            return apply_op("AssignVariableOp", variable.handle, value, validate_shape=static)


class TensorSaveable(SaveableObject):
    """The output of a reference op of an imported graph, as it is."""

    def __init__(self, tensor: Tensor, name: str) -> None:
        """Names the tensor to save."""
        super().__init__(tensor, [SaveSpec(tensor, "", name)], name)

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> Operation:
        """Assigns the value."""
        value = restored_tensors[0]
        if restored_shapes is not None:
            value = apply_one("Reshape", value, restored_shapes[0])
        static = restored_shapes is None and self.op.shape.is_fully_defined()
        return apply_one("Assign", self.op, value, validate_shape=static).op


class EmbeddingSaveable(SaveableObject):
    """An embedding variable: its rows are in files beside the checkpoint, which lists them.

    Restoring reads all parts that the checkpoint has, however many there are now.
    """

    def __init__(self, variable: EmbeddingVariable, name: str) -> None:
        """The name of the list has the part in it."""
        self._attrs: dict[str, Any] = {"tensor_name": name, "part": variable._part, "num_parts": variable._num_parts}
        self._prefix: Tensor | None = None
        key = f"{name}/rows-{variable._part:05d}-of-{variable._num_parts:05d}"
        spec = SaveSpec(self._saved, "", key, dtype="string", device=variable.device)
        super().__init__(variable, [spec], key)

    def write_to(self, prefix: Any) -> None:
        """The rows will be saved beside the checkpoint with this prefix."""
        self._prefix = prefix
        self._list: Tensor | None = None

    def _saved(self) -> Tensor:
        assert self._prefix is not None
        if self._list is None:
            with self.op._own_device():
                self._list = apply_one("EmbeddingTableSave", self.op.handle, self._prefix, **self._attrs)
        return self._list

    def restore_from(self, prefix: Tensor) -> Operation:
        """Reads the rows of this part."""
        return self.restore_at_once(prefix).op

    def restore_at_once(self, prefix: Any) -> Tensor:
        """Reads the rows of this part: an output of the operation, which has run where ops run at once."""
        with self.op._own_device():
            return apply_one("EmbeddingTableRestore", self.op.handle, prefix, **self._attrs)


def _full_name(variable: Any) -> str:
    info = variable._get_save_slice_info()
    result: str = variable.op.name if info is None else info.full_name
    return result


def _saveables_of(value: Any, name: str) -> list[SaveableObject]:
    """The saveables of one entry of a var_list."""
    if isinstance(value, SaveableObject):
        return [value]
    if isinstance(value, EmbeddingVariable):
        # Parts are saved under the name of the whole; so are their moving averages, `<name>/<average>`.
        own = name == value.op.name or name.startswith(f"{value.op.name}/")
        return [EmbeddingSaveable(value, value._full_name + name[len(value.op.name) :] if own else name)]
    if isinstance(value, (list, tuple, PartitionedVariable)) and all(isinstance(p, EmbeddingVariable) for p in value):
        return [EmbeddingSaveable(part, name) for part in value]
    if isinstance(value, Variable):
        info = value._get_save_slice_info()
        return [VariableSaveable(value, "" if info is None else info.spec, name)]
    if isinstance(value, (list, tuple, PartitionedVariable)):
        parts: list[SaveableObject] = []
        for part in value:
            info = part._get_save_slice_info() if isinstance(part, Variable) else None
            if info is None:
                raise ValueError(f"Slices must all be slices of one variable '{name}': {part!r} is not a slice.")
            parts.append(VariableSaveable(part, info.spec, name))
        return parts
    if isinstance(value, Tensor) and value.dtype._is_ref_dtype:
        return [TensorSaveable(value, name)]
    factories = getattr(value, "_gather_saveables_for_checkpoint", None)
    if callable(factories):
        return _from_factories(factories(), name)
    raise TypeError(f"names_to_saveables must be a dict mapping string names to variables, not {value!r}.")


def _from_factories(factories: dict[str, Callable[..., Any]], name: str) -> list[SaveableObject]:
    made = [factory(name if key == "VARIABLE_VALUE" else f"{name}-{key}") for key, factory in factories.items()]
    return [saveable for each in made for saveable in (_saveables_of(each, name))]


def _by_name(values: Iterable[Any]) -> dict[str, Any]:
    """A list of variables as a dictionary: parts of one variable come together under its name."""
    names: dict[str, Any] = {}
    seen: set[int] = set()
    for value in values:
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Variable) and value._get_save_slice_info() is not None:
            parts = names.setdefault(_full_name(value), [])
            if not isinstance(parts, list):
                raise ValueError(f"Mixing slices and non-slices with the same name: {_full_name(value)}")
            parts.append(value)
            continue
        if isinstance(value, (SaveableObject, PartitionedVariable)):
            name = value.name
        elif isinstance(value, (Variable, Tensor)):
            name = value.op.name
        elif callable(getattr(value, "_gather_saveables_for_checkpoint", None)):
            name = value.name
        else:
            raise TypeError(f"Variable to save is not a Variable: {value!r}")
        if name in names:
            raise ValueError(f"At least two variables have the same name: {name}")
        names[name] = value
    return names


def saveables_from(var_list: Any) -> list[SaveableObject]:
    """The saveables of a list of variables, or of a dictionary from names in the checkpoint to variables, by name.

    Raises:
        TypeError: If an element cannot be saved.
        ValueError: If a name or a variable occurs twice.
    """
    names = var_list if isinstance(var_list, dict) else _by_name(var_list)
    out: list[SaveableObject] = []
    seen: set[int] = set()
    for name in sorted(names):
        if not isinstance(name, str):
            raise TypeError(f"names_to_saveables must be a dict mapping string names to variables: {name!r}.")
        for saveable in _saveables_of(names[name], name):
            if id(saveable.op) in seen:
                raise ValueError(f"The same saveable will be restored with two names: {saveable.name}")
            seen.add(id(saveable.op))
            out.append(saveable)
    return out


def all_saveable_objects(scope: str | None = None) -> list[Any]:
    """The variables and saveable objects that a Saver without a var_list saves."""
    return get_collection(GraphKeys.GLOBAL_VARIABLES, scope) + get_collection(GraphKeys.SAVEABLE_OBJECTS, scope)
