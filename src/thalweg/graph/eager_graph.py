"""EagerGraph: what stands in the place of the default graph while operations run at once.

It has the scopes, seeds and collections of a graph, and no operations: what is added to it is handed to an executor,
which a package above brings (`default_graph.set_executor`). So everything that asks for the default graph works in both
modes, and the mode of a thread is nothing but its default graph: `with tf.Graph().as_default()` inside of an eager
program, or a function that is being traced, puts an ordinary graph on top.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Protocol

from thalweg.graph.collections import GraphKeys
from thalweg.graph.definitions.op_registry import OpDef
from thalweg.graph.definitions.prepared_op import PreparedOp
from thalweg.graph.dtypes import DType
from thalweg.graph.graph import Graph
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape

_OWN_COLLECTIONS = frozenset(
    value for key, value in vars(GraphKeys).items() if isinstance(value, str) and key.isupper()
)


class Executor(Protocol):
    """Runs operations."""

    def execute(self, prepared: PreparedOp, inputs: tuple[Any, ...], attrs: dict[str, Any], name: str | None) -> Any:
        """Runs an op on any values; what comes back is what `graph.apply.apply` returns."""

    def connect(self, graph: EagerGraph) -> None:
        """Takes the graph that it runs the ops of."""

    def run_call(self, function: Any, inputs: Sequence[Any]) -> Any:
        """The list of results of a function of the graph that was called before; NotImplemented if it was not.

        Args:
            function: The function.
            inputs: Tensors of the types that it takes, captured ones included.
        """

    def run(
        self, op_def: OpDef, inputs: Sequence[Tensor], attrs: dict[str, Any], name: str, output_dtypes: Sequence[DType]
    ) -> Operation:
        """Runs an op on tensors with complete attributes; the outputs are those of the operation."""

    def forget_random_state(self) -> None:
        """Lets all random ops start again from their seeds."""


class EagerGraph(Graph):
    """The graph of a program whose operations run at once. There is one in a process."""

    _executes = True
    _is_special = True

    def __init__(self, executor: Executor) -> None:
        """Takes who runs the operations."""
        super().__init__()
        self.executor = executor
        self.execute = executor.execute
        self.run_call = executor.run_call
        executor.connect(self)

    # Operations.

    def add_operation(
        self,
        op_def: OpDef,
        inputs: Sequence[Tensor],
        attrs: dict[str, Any],
        name: str,
        output_dtypes: Sequence[DType],
        *,
        shapes: list[TensorShape] | None = None,
        skip_frames: int = 2,
    ) -> Operation:
        """Runs an operation; see `Graph.add_operation`."""
        return self.executor.run(op_def, inputs, attrs, name, output_dtypes)

    def as_graph_element(self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Any:
        """Refused: there are no elements."""
        raise ValueError(f"{obj!r} is no element of a graph: operations run at once here.")

    # Names: not unique, as nothing is found by its name.

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """The full name, in the current name scope."""
        stack = self._scopes.name_stack
        return f"{stack}/{name}" if stack else name

    # Order and place: operations run in the order of the program.

    def control_dependencies(self, control_inputs: Any) -> Any:
        """A block without effect; functions among `control_inputs` are called, as TensorFlow does."""
        for element in control_inputs or ():
            if callable(element) and not isinstance(element, Tensor) and not hasattr(element, "dtype"):
                element()
        return nullcontext()

    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Any:
        """A block without effect."""
        return nullcontext()

    def _attr_scope(self, attr_map: dict[str, Any]) -> Any:
        return nullcontext()

    # Collections would keep what they hold alive: those of graphs stay empty.

    def add_to_collection(self, name: Any, value: Any) -> None:
        """Appends to a collection, if it is one of the program's own."""
        if name not in _OWN_COLLECTIONS:
            super().add_to_collection(name, value)

    # Random numbers.

    @property
    def seed(self) -> int | None:
        """The seed from which random ops derive theirs, or None."""
        return self._seed

    @seed.setter
    def seed(self, seed: int | None) -> None:
        self._seed = seed
        self._seeds = random.Random(seed)
        executor = getattr(self, "executor", None)
        if executor is not None:
            executor.forget_random_state()

    def _next_seed(self) -> int:
        return self._seeds.randint(0, 2**31 - 1)
