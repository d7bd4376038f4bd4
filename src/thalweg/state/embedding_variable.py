"""EmbeddingVariable: a variable whose rows are created by the ids that occur, 64-bit integers or strings."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from thalweg.graph import dtypes
from thalweg.graph.apply import apply, apply_list, apply_one, apply_op, not_intercepted
from thalweg.graph.collections import GraphKeys
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import control_dependencies, device, executing_eagerly, get_default_graph, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.state.embedding_ops import STATISTICS
from thalweg.state.coming_ids import coming_ids
from thalweg.state.embedding_options import EmbeddingOptions, constant_of, first_value_attrs
from thalweg.state.policies import VariableAggregation, VariableSynchronization
from thalweg.state.variable import Variable
from thalweg.state.variable_proto import variable_class


class TableSlot(NamedTuple):
    """State that an optimizer keeps in the rows of an embedding variable."""

    variable: EmbeddingVariable
    slot_name: str
    initial: float

    @property
    def op(self) -> Operation:
        """That of the variable."""
        return self.variable.op

    @property
    def name(self) -> str:
        """The variable's name and that of the slot."""
        return f"{self.variable.op.name}/{self.slot_name}"


class Exported(NamedTuple):
    """The rows of an embedding variable, in no particular order."""

    keys: Tensor
    values: Tensor
    counts: Tensor
    steps: Tensor
    slot_values: Tensor


@export("EmbeddingVariable")
class EmbeddingVariable(Variable):
    """A variable with rows for the ids that have occurred in training. Made by `tf.get_embedding_variable`.

    `tf.nn.embedding_lookup` and its kin, feature columns, optimizers, partitioners and savers take it like any other
    embedding variable. Looking up an id never changes it: an id without a row has the first value that its row would
    get. The update by an optimizer makes the row.
    """

    is_embedding_table = True
    _average = ""  # The name of the moving average that is read instead of the values.

    def __init__(
        self, name: str | None = None, embedding_dim: int | None = None, key_dtype: Any = dtypes.int64,
        initializer: Any = None, trainable: bool | None = None, collections: Any = None,
        options: EmbeddingOptions | None = None, full_name: str | None = None, part: int = 0, num_parts: int = 1,
        variable_def: Any = None, import_scope: str | None = None,
    ) -> None:  # fmt: skip
        """Used by `get_embedding_variable`."""
        self._synchronization = VariableSynchronization.AUTO
        self._aggregation = VariableAggregation.NONE
        self._constraint = None
        self._save_slice_info = None
        self._reference = None
        self._initial_value = None
        self._safe_initial_value = None
        self._cached_value = None
        self._caching_device = None
        self._slots: dict[str, TableSlot] = {}
        if variable_def is not None:
            self._from_def(variable_def, import_scope)
            return
        if not isinstance(embedding_dim, int) or embedding_dim < 1:
            raise ValueError(f"embedding_dim must be a positive integer, got {embedding_dim!r}.")
        kind = as_dtype(key_dtype)
        if kind not in (dtypes.int64, dtypes.string):
            raise ValueError(f"The keys of an embedding variable are int64 or string, got {kind.name}.")
        options = options or EmbeddingOptions()
        collections = [GraphKeys.GLOBAL_VARIABLES] if collections is None else list(collections)
        self._trainable = trainable is not False
        if self._trainable and GraphKeys.TRAINABLE_VARIABLES not in collections:
            collections.append(GraphKeys.TRAINABLE_VARIABLES)
        with control_dependencies(None), not_intercepted(), name_scope(name, "EmbeddingVariable") as scope:
            own_name = scope.rstrip("/")
            whole = full_name or own_name
            at_once = executing_eagerly()
            attrs = {
                "key_dtype": kind, "dim": embedding_dim, "shared_name": "" if at_once else own_name, **options.attrs(),
                **first_value_attrs(initializer, embedding_dim, options.seed, whole),
            }  # fmt: skip
            self._handle = apply_one("EmbeddingTableHandle", name=scope, **attrs)
            self._describe(attrs, whole, part, num_parts)
            if at_once:
                self._begin_at_once(own_name)
                return
            with device(self._handle.device):
                with name_scope("IsInitialized"):
                    self._is_initialized = self.is_initialized()
                self._initializer_op = apply_op("EmbeddingTableInitialize", self._handle, name="Assign")
                with name_scope("Read"):
                    self._graph_element = self._read()
        get_default_graph().add_to_collections(collections, self)

    def _begin_at_once(self, name: str) -> None:
        """Initializes the table where ops run at once: it lives as long as the handle."""
        self._eager_name = name
        self._initializer_op = self._is_initialized = None
        apply_op("EmbeddingTableInitialize", self._handle)
        if self._trainable:
            self._handle.trainable_variable = weakref.ref(self)  # type: ignore[attr-defined]

    def _describe(self, attrs: dict[str, Any], full_name: str, part: int, num_parts: int) -> None:
        self._dtype = dtypes.float32
        self._ram_bytes = attrs["ram_bytes"]
        self._key_dtype = as_dtype(attrs["key_dtype"])
        self._shape = TensorShape([None, attrs["dim"]])
        self._full_name, self._part, self._num_parts = full_name, part, num_parts

    # As protobufs, in MetaGraphs.

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The VariableDef that names its nodes; None if it lies outside of `export_scope`."""
        proto = super().to_proto(export_scope)
        if proto is not None:
            # Of a part: which one, of how many.
            info = proto.save_slice_info_def
            info.full_name = self._full_name
            info.full_shape[:] = [self._num_parts]
            info.var_offset[:] = [self._part]
        return proto

    def _from_def(self, proto: Any, import_scope: str | None) -> None:
        graph = get_default_graph()
        prefix = f"{import_scope.rstrip('/')}/" if import_scope else ""
        self._handle = graph._exact_element(prefix + proto.variable_name)
        self._initializer_op = graph._exact_element(prefix + proto.initializer_name)
        self._graph_element = graph._exact_element(prefix + proto.snapshot_name)
        self._is_initialized = None
        self._trainable = bool(proto.trainable)
        info = proto.save_slice_info_def
        self._describe(self._handle.op.attrs, prefix + info.full_name, int(info.var_offset[0]), int(info.full_shape[0]))

    # Reading.

    @property
    def key_dtype(self) -> DType:
        """The type of the ids."""
        return self._key_dtype

    @property
    def embedding_dim(self) -> int:
        """The number of elements of a row."""
        return int(self._shape[1])

    def _read(self) -> Tensor:
        return self._export(()).values

    def is_initialized(self, name: str | None = None) -> Tensor:
        """Whether it has been initialized or restored, as a tensor."""
        return apply_one("EmbeddingTableIsInitialized", self._handle, name=name)

    def keys_tensor(self, keys: Any) -> Tensor:
        """Ids as a tensor of the type of the keys.

        Raises:
            TypeError: If they are of another type.
        """
        tensor = convert_to_tensor(keys, preferred_dtype=self._key_dtype, name="keys")
        kind = tensor.dtype.base_dtype
        if self._key_dtype is dtypes.int64 and kind is not dtypes.int64 and kind.is_integer:
            tensor = apply_one("Cast", tensor, DstT=dtypes.int64)
        elif kind is not self._key_dtype:
            raise TypeError(f"The ids of {self.op.name} are {self._key_dtype.name}, got {kind.name}.")
        return tensor

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        """The rows of the ids; of those without a row, the first value that it would get.

        Where rows may be on disk, and the ids come from a dataset or a queue that has the next ones, a look-up starts
        to fetch their rows.
        """
        keys = self.keys_tensor(indices)
        with name_scope(name or "Lookup") as scope, control_dependencies(self._fetch_ahead(keys)), self._own_device():
            rows = apply_one("EmbeddingTableLookup", self._handle, keys, average=self._average, name=scope)
            rows.set_shape(keys.shape.concatenate([self.embedding_dim]))
            return rows

    lookup = sparse_read

    def _fetch_ahead(self, keys: Tensor) -> list[Operation]:
        if not self._ram_bytes or executing_eagerly():
            return []
        coming = coming_ids(keys)
        if coming is None:
            return []
        coming = apply_one("Reshape", coming, [-1])
        if self._num_parts > 1:
            where = self.part_of(coming, self._num_parts)
            coming = apply_list("DynamicPartition", coming, where, num_partitions=self._num_parts)[self._part]
        return [self.prefetch(coming)]

    def part_of(self, keys: Tensor, num_parts: int) -> Tensor:
        """Which of several parts has each id."""
        return apply_one("EmbeddingTablePart", keys, num_parts=num_parts)

    # Changing.

    def insert(self, keys: Any, values: Any, name: str | None = None) -> Operation:
        """Sets the rows of ids, which get rows if they have none."""
        with name_scope(name or "Insert") as scope, self._own_device():
            rows = convert_to_tensor(values, dtypes.float32)
            return apply_op("EmbeddingTableInsert", self._handle, self.keys_tensor(keys), rows, name=scope)

    def remove(self, keys: Any, name: str | None = None) -> Operation:
        """Removes the rows of ids; ids without a row are ignored."""
        with name_scope(name or "Remove") as scope, self._own_device():
            return apply_op("EmbeddingTableRemove", self._handle, self.keys_tensor(keys), name=scope)

    def evict(self, name: str | None = None) -> Tensor:
        """Removes the rows that the options say should leave, at once; returns how many."""
        with name_scope(name or "Evict") as scope, self._own_device():
            return apply_one("EmbeddingTableEvict", self._handle, name=scope)

    def prefetch(self, keys: Any, name: str | None = None) -> Operation:
        """Starts to fetch rows from disk; does not wait for them."""
        with name_scope(name or "Prefetch") as scope, self._own_device():
            return apply_op("EmbeddingTablePrefetch", self._handle, self.keys_tensor(keys), name=scope)

    def statistics(self, name: str | None = None) -> dict[str, Tensor]:
        """Scalars by name: rows, bytes, hits, misses, admissions, evictions and so on."""
        with name_scope(name or "Statistics"), self._own_device():
            numbers = apply_one("EmbeddingTableStatistics", self._handle)
            parts = apply_list("Unpack", numbers, num=len(STATISTICS))
            return dict(zip(STATISTICS, parts, strict=True))

    def size(self) -> Tensor:
        """The number of rows."""
        return self.statistics()["rows"]

    # All rows at once.

    def _export(self, slots: Sequence[str]) -> Exported:
        attrs: dict[str, Any] = {"Tkeys": self._key_dtype, "slots": list(slots), "average": self._average}
        return Exported(*apply("EmbeddingTableExport", self._handle, **attrs))

    def export(self, slots: Sequence[str] = (), name: str | None = None) -> Exported:
        """All ids and rows as tensors, with the counts and steps of updates, and with some slots `[slot, row, :]`."""
        with name_scope(name or "Export"), self._own_device():
            return self._export(slots)

    def import_rows(
        self, keys: Any, values: Any, counts: Any = None, steps: Any = None, slots: Sequence[str] = (),
        slot_values: Any = None, name: str | None = None,
    ) -> Operation:  # fmt: skip
        """Adds or replaces rows, with everything that belongs to them; the table counts as initialized then."""
        with name_scope(name or "Import") as scope, self._own_device():
            ids = self.keys_tensor(keys)
            rows = convert_to_tensor(values, dtypes.float32)
            zeros = apply_one("Fill", apply_one("Shape", ids), convert_to_tensor(0, dtypes.int64))
            if slot_values is None:
                count = apply_one("Size", ids)
                slot_values = apply_one("Fill", apply_one("Pack", [0, count, self.embedding_dim]), 0.0)
            return apply_op(
                "EmbeddingTableImport", self._handle, ids, rows,
                zeros if counts is None else convert_to_tensor(counts, dtypes.int64),
                zeros if steps is None else convert_to_tensor(steps, dtypes.int64), slot_values, slots=list(slots),
                name=scope,
            )  # fmt: skip

    # Moving averages, which lie beside the values in the rows.

    def averaged(self, name: str) -> EmbeddingVariable:
        """The same ids with the moving averages of that name as values, for look-ups and exports."""
        view = copy.copy(self)
        view._average = name
        view._full_name = f"{self._full_name}/{name}"
        return view

    def move_average(self, name: str, decay: Any) -> Operation:
        """Moves the averages of all rows towards their values; takes no longer the more rows there are."""
        with self._own_device():
            return apply_op("EmbeddingTableAverage", self._handle, decay, average=name)

    # Slots of optimizers.

    def slot(self, name: str, initializer: Any) -> TableSlot:
        """A new slot in the rows; a second one of that name gets a number."""
        unique, number = name, 0
        while unique in self._slots:
            number += 1
            unique = f"{name}_{number}"
        self._slots[unique] = TableSlot(self, unique, constant_of(initializer))
        return self._slots[unique]

    def slot_names(self) -> list[str]:
        """The names of the slots that optimizers of this graph keep in the rows."""
        return list(self._slots)

    def initialized_value(self) -> NoReturn:
        """Not possible: other variables cannot be initialized with all rows."""
        raise NotImplementedError(f"The rows of the embedding variable {self.op.name} are no initial value.")

    def _assign(self, value: Any, name: str | None, read_value: bool, validate_shape: bool) -> NoReturn:
        raise NotImplementedError(f"The embedding variable {self.op.name} is changed by insert() and import_rows().")

    def __repr__(self) -> str:
        return f"<tf.EmbeddingVariable '{self.name}' keys={self._key_dtype.name} dim={self.embedding_dim}>"


variable_class("EmbeddingTableHandle", EmbeddingVariable)
