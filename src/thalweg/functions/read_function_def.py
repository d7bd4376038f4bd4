"""FunctionDef to GraphFunction: the functions of a GraphDef's library, with their bodies built when they are needed."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from thalweg import errors
from thalweg.functions.graph_function import GraphFunction, add_entry
from thalweg.functions.signatures import FunctionOp, arg_ranges, flat_types, read_signature
from thalweg.functions.write_function_def import write_function_def
from thalweg.graph.definitions.op_registry import is_defined, op_def
from thalweg.graph.dtypes import DType
from thalweg.graph.formats.graph_importer import import_nodes_into, set_library_reader
from thalweg.graph.func_graph import FuncGraph
from thalweg.graph.graph import Graph
from thalweg.graph.handle_data import HandleData
from thalweg.graph.messages.attr_values import read_any, read_attr, write_attr
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape


class LibraryFunction:
    """An imported function: a FunctionDef, and the bodies made of it so far.

    Attributes:
        name: Its name.
        grad_func_name: The function that computes its gradient, if the GraphDef names one.
    """

    python_grad_func = None

    def __init__(self, graph: Graph, definition: Any, grad_func_name: str | None = None) -> None:
        """Keeps a FunctionDef; `graph` has the library to which it belongs."""
        self.name: str = definition.signature.name
        self.definition = definition
        self.grad_func_name = grad_func_name
        self.signature: FunctionOp = read_signature(definition.signature)
        self._graph = graph
        self._instances: dict[str, GraphFunction] = {}

    @property
    def known_output_shapes(self) -> list[TensorShape] | None:
        """The static shapes of the results, once a body was made of a FunctionDef without attributes."""
        found = self._instances.get(self.name)
        return None if found is None else found.output_shapes

    @property
    def noinline(self) -> bool:
        """Whether calls must stay calls."""
        return self.definition.attr["_noinline"].b if "_noinline" in self.definition.attr else False

    def instantiate(self, attrs: dict[str, Any]) -> GraphFunction:
        """The function for these values of its attributes.

        Raises:
            errors.InvalidArgumentError: If the FunctionDef does not describe a function.
        """
        try:
            values = self._values(attrs)
            key = self._key(values)
            found = self._instances.get(key)
            if found is None:
                with self._graph._lock:
                    found = self._instances.get(key) or _Reader(self, self._graph, key, values).read()
                    self._instances[key] = found
            return found
        except (ValueError, TypeError) as e:
            raise errors.InvalidArgumentError(None, None, f"Function '{self.name}' cannot be used: {e}") from e

    def _values(self, attrs: dict[str, Any]) -> dict[str, Any]:
        values = {}
        for name, attr in self.signature.attrs.items():
            if name in attrs:
                values[name] = attrs[name]
            elif attr.has_default:
                values[name] = attr.default
            else:
                raise ValueError(f"its attribute '{name}' ({attr.kind}) is not given")
        return values

    def _key(self, values: dict[str, Any]) -> str:
        if not values:
            return self.name
        return f"{self.name}[{','.join(f'{name}={value!r}' for name, value in sorted(values.items()))}]"


def specialized(function: GraphFunction, shapes: Sequence[TensorShape]) -> GraphFunction:
    """The function for arguments of these static shapes, if they say more than the body knows; else itself.

    The passes then know as much of the body as if it had been written where it is called.
    """
    merged = []
    try:
        merged = [tensor.shape.merge_with(shape) for tensor, shape in zip(function.inputs, shapes, strict=True)]
    except ValueError:
        return function  # The call fails when it is run, and says why.
    if all(known.dims_tuple == tensor.shape.dims_tuple for known, tensor in zip(merged, function.inputs, strict=True)):
        return function
    key = f"specialized {[shape.dims_tuple for shape in merged]}"
    with function.graph._lock:
        if key not in function.derived:
            definition = write_function_def(function, keep_node_names=True)
            entry = LibraryFunction(function.graph.outer_graph, definition)
            try:
                found = _Reader(entry, function.graph.outer_graph, function.name, {}, merged).read()
                found.only_results = function.only_results
            except (ValueError, TypeError, errors.OpError):
                found = function
            function.derived[key] = found
        result: GraphFunction = function.derived[key]
    return result


def add_library(graph: Graph, library: Any) -> list[str]:
    """Puts the functions of a FunctionDefLibrary into a graph's library; the names of those that are new.

    Raises:
        ValueError: If a signature is not well-formed, or the library has a different function of that name.
    """
    gradients = {entry.function_name: entry.gradient_func for entry in library.gradient}
    added: list[str] = []
    try:
        for definition in library.function:
            name = definition.signature.name
            if add_entry(graph, LibraryFunction(graph, definition, gradients.get(name))):
                added.append(name)
    except ValueError:
        for name in added:
            del graph._functions[name]
        raise
    return added


set_library_reader(add_library)


class _Reader:
    """Makes one body of a FunctionDef."""

    def __init__(
        self,
        function: LibraryFunction,
        graph: Graph,
        name: str,
        values: dict[str, Any],
        shapes: Sequence[TensorShape] | None = None,
    ) -> None:
        self._function = function
        self._shapes = shapes
        self._definition = function.definition
        self._values = values
        self._body = FuncGraph(name, graph)
        self._arguments: dict[str, Tensor] = {}

    def read(self) -> GraphFunction:
        signature = self._function.signature
        self._add_arguments()
        nodes, ranges = self._nodes()
        with self._body.as_default():
            operations = import_nodes_into(self._body, nodes, self._arguments)
        outputs: list[Tensor] = []
        names: list[str] = []
        types = flat_types(signature.outputs, self._values)
        for name, places in arg_ranges(signature.outputs, self._values).items():
            if name not in self._definition.ret:
                raise ValueError(f"nothing says where its result '{name}' comes from")
            sources = _sources(self._definition.ret[name], ranges, self._arguments, len(places))
            names.extend([name] if len(places) == 1 else [f"{name}_{i}" for i in range(len(places))])
            for source in sources:
                outputs.append(_tensor(source, operations, self._arguments))
        for tensor, dtype in zip(outputs, types, strict=True):
            if tensor.dtype.base_dtype is not dtype:
                raise ValueError(f"its result '{tensor.name}' is {tensor.dtype.name}, the signature says {dtype.name}")
        controls = {}
        for name, node in self._definition.control_ret.items():
            if node not in operations:
                raise ValueError(f"its control output '{name}' is a node '{node}' that it does not have")
            controls[name] = operations[node]
        result = GraphFunction(self._body.name, self._body, outputs, None, controls, names)
        result.attrs = {name: read_any(value) for name, value in self._definition.attr.items()}
        result.library_entry = self._function
        return result

    def _add_arguments(self) -> None:
        signature = self._function.signature
        types = flat_types(signature.inputs, self._values)
        for index, (name, places) in enumerate(arg_ranges(signature.inputs, self._values).items()):
            shape, data = _argument_shape(self._definition, index)
            for i in places:
                if self._shapes is not None:
                    shape = self._shapes[i]
                elif len(places) != 1:
                    shape = TensorShape(None)
                tensor = self._body.add_argument(types[i], shape, name)
                tensor._handle_data = data
                self._arguments[f"{name}:{i - places.start}"] = tensor

    def _nodes(self) -> tuple[list[Any], dict[str, dict[str, range]]]:
        """The nodes in the form of GraphDefs: attributes filled in, inputs by flat number."""
        nodes = []
        for definition in self._definition.node_def:
            node = type(definition)()
            node.CopyFrom(definition)
            for key, value in definition.attr.items():
                self._fill_in(node.attr[key], value)
            nodes.append(node)
        ranges = {node.name: self._output_ranges(node) for node in nodes}
        for node in nodes:
            _drop_outside_groups(node, ranges)
            texts = list(node.input)
            del node.input[:]
            for text in texts:
                if text[:1] == "^":
                    if f"{text[1:]}:0" not in self._arguments:
                        node.input.append(text)
                    continue
                node.input.extend(_sources(text, ranges, self._arguments, None))
        return nodes, ranges

    def _fill_in(self, target: Any, value: Any, depth: int = 0) -> None:
        field = value.WhichOneof("value")
        if field == "placeholder":
            name = value.placeholder
            if name not in self._values:
                raise ValueError(f"a node refers to the attribute '{name}', which the function does not have")
            target.Clear()
            write_attr(target, self._function.signature.attrs[name].kind, self._values[name])
        elif field == "func" and depth < 32:
            for key, inner in value.func.attr.items():
                self._fill_in(target.func.attr[key], inner, depth + 1)

    def _output_ranges(self, node: Any) -> dict[str, range]:
        definition = self._op_def(node.op)
        if definition is None:
            raise ValueError(f"its node '{node.name}' has the op type '{node.op}', which is not defined")
        attrs = {}
        for name, attr in definition.attrs.items():
            if attr.kind in ("int", "list(type)"):
                attrs[name] = read_attr(node.attr[name], attr.kind) if name in node.attr else attr.default
        try:
            return arg_ranges(definition.outputs, {name: value for name, value in attrs.items() if value is not None})
        except ValueError as e:
            raise ValueError(f"its node '{node.name}': {e}") from None

    def _op_def(self, name: str) -> Any:
        if is_defined(name):
            return op_def(name)
        found = self._body._functions.get(name)
        return None if found is None else found.signature


def _drop_outside_groups(node: Any, nodes: Container[str]) -> None:
    """Removes colocation with nodes outside of the function."""
    if "_class" in node.attr:
        groups = node.attr["_class"].list.s
        inside = [g for g in groups if not g.startswith(b"loc:@") or g[5:].decode(errors="replace") in nodes]
        del groups[:]
        groups.extend(inside)
        if not inside:
            del node.attr["_class"]


def _argument_shape(definition: Any, index: int) -> tuple[TensorShape, HandleData | None]:
    attrs = definition.arg_attr[index].attr if index in definition.arg_attr else {}

    def first(name: str, kind: str) -> Any:
        items = read_attr(attrs[name], kind) if name in attrs else []
        return items[0] if items else None

    dtype: DType | None = first("_handle_dtypes", "list(type)")
    data = None
    if dtype is not None:
        data = HandleData(dtype, first("_handle_shapes", "list(shape)") or TensorShape(None))
    return first("_output_shapes", "list(shape)") or TensorShape(None), data


def _sources(
    text: str, ranges: dict[str, dict[str, range]], arguments: dict[str, Tensor], wanted: int | None
) -> list[str]:
    """The 'node:number' (or 'argument:number') forms of an input in a FunctionDef: 'arg', 'arg:1' or 'node:out:0'.

    A name without a number stands for all tensors of a list.
    """
    node, _, rest = text.partition(":")
    if node in ranges:
        output, _, number = rest.partition(":")
        places = ranges[node].get(output)
        if places is None:
            raise ValueError(f"'{text}' is not an output of its node '{node}' (it has: {', '.join(ranges[node])})")
        found = [f"{node}:{i}" for i in places]
    else:
        number = rest
        found = []
        while f"{node}:{len(found)}" in arguments:
            found.append(f"{node}:{len(found)}")
        if not found:
            raise ValueError(f"'{text}' is neither an argument nor an output of one of its nodes")
    if number:
        if not number.isdecimal() or int(number) >= len(found):
            raise ValueError(f"'{text}' asks for tensor {number} of {len(found)}")
        found = [found[int(number)]]
    if wanted is not None and len(found) != wanted:
        raise ValueError(f"'{text}' gives {len(found)} tensors where {wanted} are needed")
    return found


def _tensor(source: str, operations: dict[str, Any], arguments: dict[str, Tensor]) -> Tensor:
    argument = arguments.get(source)
    if argument is not None:
        return argument
    node, _, number = source.rpartition(":")
    tensor: Tensor = operations[node].outputs[int(number)]
    return tensor
