"""Lookup tables as ops, on resources and, for old graphs, on references. `state/lookup.py` has the classes."""

from __future__ import annotations

from typing import Any

from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.op_effects import Effect
from thalweg.graph.tensor_shape import TensorShape

_TABLE = (
    "container: string = '', shared_name: string = '', use_node_name_sharing: bool = false, key_dtype: type, "
    "value_dtype: type"
)


def _find_shape(c: ShapeContext) -> TensorShape:
    keys, value = c.dims(1), c.dims(2)
    rank = _key_rank(c)
    if keys is None or value is None or rank is None:
        return shapes.UNKNOWN
    if len(keys) < rank:
        raise ValueError(f"Shape must be at least rank {rank} but is rank {len(keys)}")
    return TensorShape._of((*keys[: len(keys) - rank], *value))


def _key_rank(c: ShapeContext) -> int | None:
    """The rank of a key: only dense tables have keys that are not scalars, and their special keys tell."""
    table = c._inputs[0].op
    return table.inputs[0].shape.ndims if "DenseHashTable" in table.type else 0


def _export_shape(c: ShapeContext) -> list[TensorShape]:
    return [shapes.ANY_VECTOR, shapes.UNKNOWN]


def _define(
    name: str, effect: Effect, inputs: str, outputs: str, attrs: str = "", shape: Any = shapes.no_outputs
) -> None:
    """Defines an op under its old name, with a reference to the table, and under its current one, with a handle."""
    for op, kind in ((name, "Ref(string)"), (f"{name}V2", "resource")):
        arrow = f"{inputs} -> {outputs}".replace("table_handle", f"table_handle: {kind}")
        define(op, arrow, attrs, shape=shape, effect=effect)
        not_differentiable(op)


_define("HashTable", Effect.CREATES, "", "table_handle", _TABLE, shapes.scalar)
_define("MutableHashTable", Effect.CREATES, "", "table_handle", _TABLE, shapes.scalar)
_define(
    "MutableHashTableOfTensors", Effect.CREATES, "", "table_handle", f"{_TABLE}, value_shape: shape = []", shapes.scalar
)
_BUCKETS = "value_shape: shape = [], initial_num_buckets: int = 131072, max_load_factor: float = 0.8"
# The old op has no deleted key, so nothing can be removed.
define("MutableDenseHashTable", "empty_key: key_dtype -> table_handle: Ref(string)", f"{_TABLE}, {_BUCKETS}",
       shape=shapes.scalar, effect=Effect.CREATES)  # fmt: skip
define("MutableDenseHashTableV2", "empty_key: key_dtype, deleted_key: key_dtype -> table_handle: resource",
       f"{_TABLE}, {_BUCKETS}", shape=shapes.scalar, effect=Effect.CREATES)  # fmt: skip
_TYPES = "key_dtype: type, value_dtype: type"
for _name, _attrs in (
    ("AnonymousHashTable", _TYPES),
    ("AnonymousMutableHashTable", _TYPES),
    ("AnonymousMutableHashTableOfTensors", f"{_TYPES}, value_shape: shape = []"),
):
    define(_name, "-> table_handle: resource", _attrs, shape=shapes.scalar, effect=Effect.CREATES)
define("AnonymousMutableDenseHashTable", "empty_key: key_dtype, deleted_key: key_dtype -> table_handle: resource",
       f"{_TYPES}, {_BUCKETS}", shape=shapes.scalar, effect=Effect.CREATES)  # fmt: skip
not_differentiable("MutableDenseHashTable", "MutableDenseHashTableV2", "AnonymousHashTable",
                   "AnonymousMutableHashTable", "AnonymousMutableHashTableOfTensors",
                   "AnonymousMutableDenseHashTable")  # fmt: skip
_define("LookupTableFind", Effect.READS, "table_handle, keys: Tin, default_value: Tout", "values: Tout",
        "Tin: type, Tout: type", _find_shape)  # fmt: skip
_define("LookupTableInsert", Effect.WRITES, "table_handle, keys: Tin, values: Tout", "", "Tin: type, Tout: type")
_define("LookupTableImport", Effect.WRITES, "table_handle, keys: Tin, values: Tout", "", "Tin: type, Tout: type")
_define("LookupTableSize", Effect.READS, "table_handle", "size: int64", "", shapes.scalar)
_define("LookupTableExport", Effect.READS, "table_handle", "keys: Tkeys, values: Tvalues", "Tkeys: type, Tvalues: type",
        _export_shape)  # fmt: skip
_define("InitializeTable", Effect.WRITES, "table_handle, keys: Tkey, values: Tval", "", "Tkey: type, Tval: type")
_define(
    "InitializeTableFromTextFile",
    Effect.WRITES,
    "table_handle, filename: string",
    "",
    "key_index: int >= -2, value_index: int >= -2, vocab_size: int >= -1 = -1, delimiter: string = '\t', "
    "offset: int = 0",
)
define(
    "LookupTableRemoveV2",
    "table_handle: resource, keys: Tin ->",
    "Tin: type",
    shape=shapes.no_outputs,
    effect=Effect.WRITES,
)
not_differentiable("LookupTableRemoveV2")
