"""Definitions of the ops that take elements out of datasets: iterators, single elements, reductions."""

from __future__ import annotations

from typing import Any

from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.op_effects import Effect
from thalweg.graph.tensor_shape import TensorShape

_ELEMENTS = "output_types: list(type) >= 1, output_shapes: list(shape) >= 1"
_MAYBE_ELEMENTS = "output_types: list(type) >= 0 = [], output_shapes: list(shape) >= 0 = []"


def _declared_shapes(c: ShapeContext) -> list[TensorShape]:
    declared: list[TensorShape] = list(c.attr("output_shapes"))
    if len(declared) != c.num_outputs:
        raise ValueError(f"output_shapes has {len(declared)} entries for {c.num_outputs} components")
    return declared


def _define(names: str, effect: Effect, signature: str, attrs: str = "", shape: Any = shapes.scalar) -> None:
    for name in names.split():
        define(name, signature, attrs, shape=shape, effect=effect)
        not_differentiable(name)


_define(
    "Iterator IteratorV2",
    Effect.CREATES,
    " -> handle: resource",
    f"shared_name: string, container: string, {_ELEMENTS}",
)
_define("OneShotIterator", Effect.CREATES, " -> handle: resource",
        f"dataset_factory: func, {_ELEMENTS}, container: string = '', shared_name: string = ''")  # fmt: skip
_define("MakeIterator", Effect.WRITES, "dataset: variant, iterator: resource -> ", shape=shapes.no_outputs)
_define(
    "IteratorGetNext IteratorGetNextSync",
    Effect.WRITES,
    "iterator: resource -> components: output_types",
    _ELEMENTS,
    _declared_shapes,
)
_define("_IteratorPeek", Effect.READS, "iterator: resource, after: Tafter -> coming: dtype",
        "component: int >= 0, Tafter: type, dtype: type", shapes.unknown)  # fmt: skip
_define("IteratorGetNextAsOptional", Effect.WRITES, "iterator: resource -> optional: variant", _ELEMENTS)
_define("IteratorToStringHandle", Effect.READS, "resource_handle: resource -> string_handle: string")
_define(
    "IteratorFromStringHandle IteratorFromStringHandleV2",
    Effect.CREATES,
    "string_handle: string -> resource_handle: resource",
    _MAYBE_ELEMENTS,
)
_define("IteratorGetDevice ExperimentalIteratorGetDevice", Effect.READS, "resource: resource -> device: string")
_define(
    "SerializeIterator",
    Effect.READS,
    "resource_handle: resource -> serialized: variant",
    "external_state_policy: int = 0",
)
_define(
    "DeserializeIterator", Effect.WRITES, "resource_handle: resource, serialized: variant -> ", shape=shapes.no_outputs
)
# The same as a string, which checkpoints can hold.
_define("_IteratorPosition", Effect.READS, "resource_handle: resource -> position: string")
_define(
    "_RestoreIteratorPosition",
    Effect.WRITES,
    "resource_handle: resource, position: string -> ",
    shape=shapes.no_outputs,
)
_define(
    "DatasetToSingleElement",
    Effect.CALLS,
    "dataset: variant -> components: output_types",
    f"{_ELEMENTS}, metadata: string = ''",
    _declared_shapes,
)
_define(
    "ReduceDataset",
    Effect.CALLS,
    "input_dataset: variant, initial_state: Tstate, other_arguments: Targuments -> components: output_types",
    f"f: func, Tstate: list(type) >= 1, Targuments: list(type) >= 0, {_ELEMENTS}, "
    "use_inter_op_parallelism: bool = true, metadata: string = ''",
    _declared_shapes,
)
_define(
    "DatasetCardinality",
    Effect.NONE,
    "input_dataset: variant -> cardinality: int64",
    "cardinality_options: string = ''",
)
_define("ExperimentalDatasetCardinality", Effect.NONE, "input_dataset: variant -> cardinality: int64")
_define(
    "OptionalFromValue", Effect.NONE, "components: Toutput_types -> optional: variant", "Toutput_types: list(type) >= 1"
)
_define("OptionalNone", Effect.NONE, " -> optional: variant")
_define("OptionalHasValue", Effect.NONE, "optional: variant -> has_value: bool")
_define("OptionalGetValue", Effect.NONE, "optional: variant -> components: output_types", _ELEMENTS, _declared_shapes)
