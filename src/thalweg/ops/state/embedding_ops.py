"""Embedding tables as ops: a variable whose rows are created by the keys that occur. `state/embedding_variable.py`."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, gradient, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.handle_data import handle_data
from thalweg.graph.op_effects import Effect
from thalweg.graph.operation import Operation
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.nn.training_ops import RULES, Rule

_KEY = "{int64, string}"
# The numbers that EmbeddingTableStatistics returns, in order.
STATISTICS = (
    "rows", "disk_rows", "bytes", "disk_bytes", "step", "hits", "misses", "admissions", "rejections", "evictions",
    "promotions",
)  # fmt: skip


def _dim(c: ShapeContext) -> int | None:
    """The elements of a row of the table behind the first input."""
    shapes.with_rank(c.input(0), 0)
    data = handle_data(c._inputs[0])
    dims = None if data is None else data.shape.dims_tuple
    return None if dims is None else dims[-1]


def _rows_shape(c: ShapeContext) -> TensorShape:
    keys = c.dims(1)
    return shapes.UNKNOWN if keys is None else TensorShape._of((*keys, _dim(c)))


def _insert_shape(c: ShapeContext) -> list[TensorShape]:
    shapes.merge(_rows_shape(c), c.input(2))
    return []


def _average_shape(c: ShapeContext) -> list[TensorShape]:
    shapes.with_rank(c.input(1), 0)
    return []


def _export_shape(c: ShapeContext) -> list[TensorShape]:
    rows = TensorShape._of((None, _dim(c)))
    vector = shapes.ANY_VECTOR
    return [vector, rows, vector, vector, TensorShape._of((len(c.attr("slots")), None, _dim(c)))]


def _import_shape(c: ShapeContext) -> list[TensorShape]:
    keys = shapes.merge(shapes.with_rank(c.input(1), 1), shapes.merge(c.input(3), c.input(4)))
    count = None if keys.dims_tuple is None else keys.dims_tuple[0]
    shapes.merge(c.input(2), TensorShape._of((count, _dim(c))))
    shapes.merge(c.input(5), TensorShape._of((len(c.attr("slots")), count, _dim(c))))
    return []


def _file_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank(c.input(1), 0)
    return TensorShape([])


define(
    "EmbeddingTableHandle",
    "-> table: resource",
    "container: string = '', shared_name: string = '', key_dtype: {int64, string}, dim: int, "
    "precision: {'float32', 'bfloat16', 'int8'} = 'float32', "
    "initializer: {'constant', 'uniform', 'normal', 'truncated_normal'} = 'constant', initializer_a: float = 0.0, "
    "initializer_b: float = 0.0, seed: int = 0, admit_after: int = 1, filter_bytes: int = 0, steps_to_live: int = 0, "
    "idle_steps: int = 1, min_count: int = 0, min_norm: float = 0.0, max_rows: int = 0, ram_bytes: int = 0, "
    "folder: string = ''",
    shape=shapes.scalar,
    effect=Effect.CREATES,
    doc="The handle of an embedding table, which is made when it does not exist.",
)
define("EmbeddingTableInitialize", "table: resource ->", shape=shapes.no_outputs, effect=Effect.WRITES)
define("EmbeddingTableIsInitialized", "table: resource -> is_initialized: bool", shape=shapes.scalar,
       effect=Effect.READS)  # fmt: skip
define("EmbeddingTableLookup", "table: resource, keys: Tkeys -> values: float",
       f"Tkeys: {_KEY}, average: string = ''", shape=_rows_shape, effect=Effect.READS)  # fmt: skip
define("EmbeddingTableAverage", "table: resource, decay: float ->", "average: string", shape=_average_shape,
       effect=Effect.WRITES)  # fmt: skip
define("EmbeddingTableInsert", "table: resource, keys: Tkeys, values: float ->", f"Tkeys: {_KEY}",
       shape=_insert_shape, effect=Effect.WRITES)  # fmt: skip
for _op in ("EmbeddingTableRemove", "EmbeddingTablePrefetch"):
    define(_op, "table: resource, keys: Tkeys ->", f"Tkeys: {_KEY}", shape=shapes.no_outputs, effect=Effect.WRITES)
define("EmbeddingTableEvict", "table: resource -> evicted: int64", shape=shapes.scalar, effect=Effect.WRITES)
define("EmbeddingTableStatistics", "table: resource -> statistics: int64",
       shape=lambda c: TensorShape([len(STATISTICS)]), effect=Effect.READS)  # fmt: skip
define(
    "EmbeddingTableExport",
    "table: resource -> keys: Tkeys, values: float, counts: int64, steps: int64, slot_values: float",
    f"Tkeys: {_KEY}, slots: list(string) = [], average: string = ''",
    shape=_export_shape,
    effect=Effect.READS,
)
define(
    "EmbeddingTableImport",
    "table: resource, keys: Tkeys, values: float, counts: int64, steps: int64, slot_values: float ->",
    f"Tkeys: {_KEY}, slots: list(string) = []",
    shape=_import_shape,
    effect=Effect.WRITES,
)
define("EmbeddingTablePart", "keys: Tkeys -> part: int32", f"Tkeys: {_KEY}, num_parts: int >= 1",
       shape=shapes.unchanged)  # fmt: skip
_PART = "tensor_name: string, part: int = 0, num_parts: int = 1"
define("EmbeddingTableSave", "table: resource, prefix: string -> files: string", f"{_PART}, full: bool = false",
       shape=_file_shape, effect=Effect.EXTERNAL)  # fmt: skip
define("EmbeddingTableRestore", "table: resource, prefix: string -> files_read: int64",
       f"{_PART}, follow: bool = false", shape=_file_shape, effect=Effect.WRITES)  # fmt: skip
not_differentiable(
    "EmbeddingTableHandle", "EmbeddingTableInitialize", "EmbeddingTableIsInitialized", "EmbeddingTableInsert",
    "EmbeddingTableAverage", "EmbeddingTableRemove", "EmbeddingTablePrefetch", "EmbeddingTableEvict",
    "EmbeddingTableStatistics", "EmbeddingTableExport", "EmbeddingTableImport", "EmbeddingTablePart",
    "EmbeddingTableSave", "EmbeddingTableRestore",
)  # fmt: skip


@gradient("EmbeddingTableLookup")
def _lookup_grad(op: Operation, grad: Any) -> Any:
    """Rows and their keys: equal keys are summed where they are applied."""
    keys = apply_one("Reshape", op.inputs[1], [-1])
    dims = op.outputs[0].shape.dims_tuple
    dim: Any = None if dims is None else dims[-1]
    if dim is None:
        sizes = apply_one("Shape", op.outputs[0])
        dim = apply_one("StridedSlice", sizes, [-1], [0], [1], shrink_axis_mask=1, end_mask=1)
    rows = apply_one("Reshape", grad, apply_one("Pack", [apply_one("Size", keys), dim]))
    return [IndexedSlices(rows, keys), None]


def _define_rule(rule: Rule) -> None:
    inputs = ["table: resource"]
    for value in rule.values.split():
        if value in ("grad", "delta"):
            inputs += ["grad: float", "keys: Tkeys"]
        else:
            inputs.append(f"{value}: {'int64' if value == 'global_step' else 'float'}")
    at = next(i for i, text in enumerate(inputs) if text.startswith("grad: "))

    def shape(c: ShapeContext) -> list[TensorShape]:
        keys = shapes.with_rank(c.input(at + 1), 1).dims_tuple
        shapes.merge(c.input(at), TensorShape._of((None if keys is None else keys[0], _dim(c))))
        for i in range(1, len(inputs)):
            if i not in (at, at + 1):
                shapes.with_rank(c.input(i), 0)
        return []

    op_type = f"EmbeddingTableApply{rule.name}"
    attrs = [f"Tkeys: {_KEY}", "slots: list(string)", "slot_initial_values: list(float)", rule.attrs]
    define(op_type, f"{', '.join(inputs)} ->", ", ".join(filter(None, attrs)), shape=shape, effect=Effect.WRITES)
    not_differentiable(op_type)


for _rule in RULES:
    if _rule.dense:  # The others are a rule of these again, for the rows of a variable.
        _define_rule(_rule)
