"""Variables as VariableDef protobufs, and where a partition lies in the whole variable (SaveSliceInfo)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from thalweg.graph.apply import apply_one
from thalweg.graph.default_graph import get_default_graph
from thalweg.state.policies import VariableAggregation, VariableSynchronization

if TYPE_CHECKING:
    from thalweg.state.variable import Variable


class SaveSliceInfo:
    """Says which part of a larger variable a partition is: checkpoints store the whole under one name.

    Attributes:
        full_name: The name of the whole.
        full_shape: Its shape.
        var_offset: Where the part begins, per dimension.
        var_shape: The shape of the part.
    """

    def __init__(
        self,
        full_name: str | None = None,
        full_shape: Any = None,
        var_offset: Any = None,
        var_shape: Any = None,
        save_slice_info_def: Any = None,
        import_scope: str | None = None,
    ) -> None:
        """Keeps them, or reads them from a SaveSliceInfoDef."""
        if save_slice_info_def is not None:
            self.full_name: str | None = _in_scope(save_slice_info_def.full_name, import_scope)
            self.full_shape = list(save_slice_info_def.full_shape)
            self.var_offset = list(save_slice_info_def.var_offset)
            self.var_shape = list(save_slice_info_def.var_shape)
        else:
            self.full_name = full_name
            self.full_shape = full_shape
            self.var_offset = var_offset
            self.var_shape = var_shape

    @property
    def spec(self) -> str:
        """The description that the checkpoint format uses: '4 3 0,2:0,3'."""
        full = " ".join(f"{size}" for size in self.full_shape) + " "
        parts = (f"{offset},{size}" for offset, size in zip(self.var_offset, self.var_shape, strict=True))
        return full + ":".join(parts)

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The SaveSliceInfoDef; None if it lies outside of `export_scope`."""
        from tensorboard.compat.proto.variable_pb2 import SaveSliceInfoDef  # Start-up time: protobuf is slow to import.

        name = _out_of_scope(self.full_name or "", export_scope)
        if name is None:
            return None
        return SaveSliceInfoDef(
            full_name=name, full_shape=self.full_shape, var_offset=self.var_offset, var_shape=self.var_shape
        )


def _in_scope(name: str, scope: str | None) -> str:
    return f"{scope.rstrip('/')}/{name}" if scope and name else name


def _out_of_scope(name: str, scope: str | None) -> str | None:
    if not scope:
        return name
    prefix = scope.rstrip("/") + "/"
    return name[len(prefix) :] if name.startswith(prefix) else None


_CLASSES: dict[str, Any] = {}


def variable_class(handle_op: str, cls: Any) -> None:
    """Makes VariableDefs whose handle is made by this type of op into variables of a class of their own."""
    _CLASSES[handle_op] = cls


def class_of(proto: Any, import_scope: str | None) -> Any:
    """The class of the variable that a VariableDef names; None for an ordinary one."""
    return _CLASSES.get(get_default_graph()._exact_element(_in_scope(proto.variable_name, import_scope)).op.type)


def to_variable_def(variable: Variable, export_scope: str | None) -> Any:
    """See `Variable.to_proto`."""
    from tensorboard.compat.proto.variable_pb2 import VariableDef  # Start-up time: protobuf is slow to import.

    name = _out_of_scope(variable._source.name, export_scope)
    if name is None:
        return None
    proto = VariableDef(variable_name=name, is_resource=variable._reference is None, trainable=variable.trainable)
    proto.synchronization = variable.synchronization.value
    proto.aggregation = variable.aggregation.value
    if variable._initial_value is not None:
        proto.initial_value_name = _out_of_scope(variable._initial_value.name, export_scope) or ""
    proto.initializer_name = _out_of_scope(variable.initializer.name, export_scope) or ""
    snapshot = variable._cached_value if variable._cached_value is not None else variable._graph_element
    proto.snapshot_name = _out_of_scope(snapshot.name, export_scope) or ""
    if variable._save_slice_info is not None:
        info = variable._save_slice_info.to_proto(export_scope)
        if info is not None:
            proto.save_slice_info_def.MergeFrom(info)
    return proto


def from_variable_def(variable: Variable, proto: Any, import_scope: str | None) -> None:
    """Fills a new Variable with the nodes that a VariableDef names in the default graph.

    A reference variable gets a handle, too, so that everything else works on it as on any other.
    """
    graph = get_default_graph()

    def element(name: str) -> Any:
        return graph._exact_element(_in_scope(name, import_scope))

    handle = element(proto.variable_name)
    if handle.dtype._is_ref_dtype:
        variable._reference = handle
        variable._dtype, variable._shape = handle.dtype.base_dtype, handle.shape
        with graph.control_dependencies(None):
            handle = apply_one("_RefHandle", handle, name=f"{handle.op.name}/handle")
    else:
        variable._dtype, variable._shape = handle.op.attrs["dtype"], handle.op.attrs["shape"]
    variable._handle = handle
    variable._initializer_op = initializer = element(proto.initializer_name)
    variable._initial_value = element(proto.initial_value_name) if proto.initial_value_name else None
    variable._safe_initial_value = initializer.inputs[1]
    variable._is_initialized = None
    variable._caching_device = None
    variable._cached_value = None
    if proto.snapshot_name:
        variable._graph_element = element(proto.snapshot_name)
        if variable._reference is None and variable._graph_element.op.type != "ReadVariableOp":
            variable._cached_value = variable._graph_element
    else:
        variable._graph_element = variable._read()
    variable._trainable = bool(proto.trainable)
    variable._synchronization = VariableSynchronization(proto.synchronization)
    variable._aggregation = VariableAggregation(proto.aggregation)
    if proto.HasField("save_slice_info_def"):
        variable._save_slice_info = SaveSliceInfo(
            save_slice_info_def=proto.save_slice_info_def, import_scope=import_scope
        )
