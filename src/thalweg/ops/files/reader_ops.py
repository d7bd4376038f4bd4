"""Readers as ops. `readers.py` has the classes that programs use.

Each op exists twice: on resource handles, which is the form that runs, and on references, as graphs written by
TensorFlow 1 contain it; `passes/references.py` turns the second into the first.
"""

from __future__ import annotations

from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.op_effects import Effect
from thalweg.graph.tensor_shape import TensorShape

_NAMED = "container: string = '', shared_name: string = ''"
_SIZES = "header_bytes: int = 0, record_bytes: int, footer_bytes: int = 0, hop_bytes: int = 0"


def _read_shape(c: ShapeContext) -> list[TensorShape]:
    return [TensorShape(()), TensorShape(())]


def _read_up_to_shape(c: ShapeContext) -> list[TensorShape]:
    shapes.with_rank(c.input(2), 0)
    return [TensorShape([None]), TensorShape([None])]


def _restore_state_shape(c: ShapeContext) -> list[TensorShape]:
    shapes.with_rank(c.input(1), 0)
    return []


for _version, _handle in (("", "Ref(string)"), ("V2", "resource")):
    for _kind, _attrs in (
        ("WholeFileReader", _NAMED),
        ("IdentityReader", _NAMED),
        ("TextLineReader", f"skip_header_lines: int = 0, {_NAMED}"),
        ("TFRecordReader", f"{_NAMED}, compression_type: string = ''"),
        ("FixedLengthRecordReader", f"{_SIZES}, {_NAMED}" + (", encoding: string = ''" if _version else "")),
    ):
        define(f"{_kind}{_version}", f"-> reader_handle: {_handle}", _attrs, shape=shapes.scalar, effect=Effect.CREATES)
        not_differentiable(f"{_kind}{_version}")
    for _name, _signature, _shape, _effect in (
        ("Read", f", queue_handle: {_handle} -> key: string, value: string", _read_shape, Effect.WRITES),
        (
            "ReadUpTo",
            f", queue_handle: {_handle}, num_records: int64 -> keys: string, values: string",
            _read_up_to_shape,
            Effect.WRITES,
        ),
        ("NumRecordsProduced", " -> records_produced: int64", shapes.scalar, Effect.READS),
        ("NumWorkUnitsCompleted", " -> units_completed: int64", shapes.scalar, Effect.READS),
        ("SerializeState", " -> state: string", shapes.scalar, Effect.READS),
        ("RestoreState", ", state: string ->", _restore_state_shape, Effect.WRITES),
        ("Reset", " ->", shapes.no_outputs, Effect.WRITES),
    ):
        define(f"Reader{_name}{_version}", f"reader_handle: {_handle}{_signature}", shape=_shape, effect=_effect)
        not_differentiable(f"Reader{_name}{_version}")
