"""The functions that datasets call: user functions of structured elements, traced to graph functions of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.autograph.api import for_tracing
from thalweg.data import structure
from thalweg.functions.graph_function import GraphFunction, trace, unique_function_name
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.definitions.op_signature import NameAttrList
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_spec import TensorSpec


class DatasetFunction:
    """A traced function.

    Attributes:
        function: The graph function, of the tensors that the arguments travel as.
        spec: The structure of its results.
    """

    def __init__(self, func: Callable[..., Any], *arguments: Any, name: str = "Dataset", spread: bool = True) -> None:
        """Traces a function.

        Args:
            func: The user's function.
            *arguments: The structures of its arguments. A single one that is a tuple is spread over the parameters.
            name: Its purpose, as part of its name in the library.
            spread: Whether to spread a tuple over the parameters.

        Raises:
            ValueError: If `func` cannot be called.
            TypeError: If its results cannot become tensors.
        """
        if not callable(func):
            raise ValueError(f"Expected a function, got {func!r} (of type {type(func)}).")
        flat = [
            TensorSpec(structure.tensor_shape(spec), structure.tensor_type(spec))
            for argument in arguments
            for spec in structure.flatten(argument)
        ]
        self.spec: Any = None
        func = for_tracing(func)

        def body(*tensors: Tensor) -> list[Tensor]:
            rest = list(tensors)
            values = []
            for argument in arguments:
                count = len(structure.flatten(argument))
                values.append(structure.from_tensors(argument, rest[:count]))
                del rest[:count]
            if spread and len(values) == 1 and type(values[0]) is tuple:  # A named one is one argument.
                returned = func(*values[0])
            else:
                returned = func(*values)
            # A list is the result of an op with several outputs: a tuple of components, not one stacked tensor.
            returned = tuple(returned) if isinstance(returned, list) else returned
            try:
                converted = structure.to_values(returned)
            except (TypeError, ValueError) as e:
                raise TypeError(f"Unsupported return value from function passed to {name}: {returned}. ({e})") from e
            self.spec = structure.specs_of(converted)
            return structure.to_tensors(converted)

        graph = get_default_graph()
        self.function: GraphFunction = trace(body, flat, name=unique_function_name(graph, f"{name}_function"))

    @property
    def captured(self) -> list[Tensor]:
        """The tensors that a node passes beside the elements."""
        return self.function.captures

    @property
    def attr(self) -> NameAttrList:
        """The value of the node's attribute."""
        return self.function.as_attr()
