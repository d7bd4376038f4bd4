"""Definitions of the ops that take elements out of datasets: iterators, single elements, reductions."""

from __future__ import annotations

from typing import Any

from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.tensor_shape import TensorShape

_ELEMENTS = "output_types: list(type) >= 1, output_shapes: list(shape) >= 1"
_MAYBE_ELEMENTS = "output_types: list(type) >= 0 = [], output_shapes: list(shape) >= 0 = []"


def _declared(c: ShapeContext) -> list[TensorShape]:
    declared: list[TensorShape] = list(c.attr("output_shapes"))
    if len(declared) != c.num_outputs:
        raise ValueError(f"output_shapes has {len(declared)} entries for {c.num_outputs} components")
    return declared


def _define(names: str, signature: str, attrs: str = "", shape: Any = shapes.scalar, stateful: bool = True) -> None:
    for name in names.split():
        define(name, signature, attrs, shape=shape, stateful=stateful)
        not_differentiable(name)


_define("Iterator IteratorV2", " -> handle: resource", f"shared_name: string, container: string, {_ELEMENTS}")
_define("OneShotIterator", " -> handle: resource",
        f"dataset_factory: func, {_ELEMENTS}, container: string = '', shared_name: string = ''")  # fmt: skip
_define("MakeIterator", "dataset: variant, iterator: resource -> ", shape=shapes.no_outputs)
_define("IteratorGetNext IteratorGetNextSync", "iterator: resource -> components: output_types", _ELEMENTS, _declared)
_define("IteratorGetNextAsOptional", "iterator: resource -> optional: variant", _ELEMENTS)
_define("IteratorToStringHandle", "resource_handle: resource -> string_handle: string")
_define("IteratorFromStringHandle IteratorFromStringHandleV2", "string_handle: string -> resource_handle: resource",
        _MAYBE_ELEMENTS)  # fmt: skip
_define("IteratorGetDevice ExperimentalIteratorGetDevice", "resource: resource -> device: string")
_define("SerializeIterator", "resource_handle: resource -> serialized: variant", "external_state_policy: int = 0")
_define("DeserializeIterator", "resource_handle: resource, serialized: variant -> ", shape=shapes.no_outputs)
# The same as a string, which checkpoints can hold.
_define("_IteratorPosition", "resource_handle: resource -> position: string")
_define("_RestoreIteratorPosition", "resource_handle: resource, position: string -> ", shape=shapes.no_outputs)
_define("DatasetToSingleElement", "dataset: variant -> components: output_types", f"{_ELEMENTS}, metadata: string = ''",
        _declared)  # fmt: skip
_define(
    "ReduceDataset",
    "input_dataset: variant, initial_state: Tstate, other_arguments: Targuments -> components: output_types",
    f"f: func, Tstate: list(type) >= 1, Targuments: list(type) >= 0, {_ELEMENTS}, "
    "use_inter_op_parallelism: bool = true, metadata: string = ''",
    _declared,
)
_define("DatasetCardinality", "input_dataset: variant -> cardinality: int64", "cardinality_options: string = ''",
        stateful=False)  # fmt: skip
_define("ExperimentalDatasetCardinality", "input_dataset: variant -> cardinality: int64", stateful=False)
_define("OptionalFromValue", "components: Toutput_types -> optional: variant", "Toutput_types: list(type) >= 1",
        stateful=False)  # fmt: skip
_define("OptionalNone", " -> optional: variant", stateful=False)
_define("OptionalHasValue", "optional: variant -> has_value: bool", stateful=False)
_define("OptionalGetValue", "optional: variant -> components: output_types", _ELEMENTS, _declared, stateful=False)
