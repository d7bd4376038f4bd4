"""The default graph, and the module-level functions (`tf.name_scope`, `tf.device`, ...) that act on it.

Each thread has a stack of default graphs; below all stacks lies one graph that the whole process shares.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from thalweg.graph.default_stack import default_graph_scope, default_graphs
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.eager_graph import EagerGraph, Executor
from thalweg.graph.eager_tensor import EagerTensor
from thalweg.graph.graph import Graph
from thalweg.graph.scopes import ScopeState

_global_lock = threading.Lock()
_global_graph: Graph | None = None


@export("get_default_graph")
def get_default_graph() -> Graph:
    """Returns the graph that new ops of this thread go to."""
    stack = default_graphs.stack
    if stack:
        return stack[-1]
    global _global_graph
    graph = _global_graph
    if graph is None:
        with _global_lock:
            if _global_graph is None:
                _global_graph = Graph()
            graph = _global_graph
    return graph


@export("reset_default_graph")
def reset_default_graph() -> None:
    """Puts an empty graph in the place of the process-wide default graph.

    Raises:
        AssertionError: Inside of a `with graph.as_default()` block.
    """
    global _global_graph
    if default_graphs.stack:
        raise AssertionError("Do not use tf.reset_default_graph() to clear nested graphs. Leave `as_default()` first.")
    if not isinstance(_global_graph, EagerGraph):
        _global_graph = Graph()


# Immediate execution: the graph whose operations run at once. It is made on first use.
_eager_graph: EagerGraph | None = None
_make_executor: Callable[[], Executor] | None = None


def set_executor(make: Callable[[], Executor]) -> None:
    """Says who runs operations at once: the package above, which knows sessions and kernels."""
    global _make_executor
    _make_executor = make


def eager_graph() -> EagerGraph:
    """The one graph whose operations run at once."""
    global _eager_graph
    graph = _eager_graph
    if graph is None:
        with _global_lock:
            if _eager_graph is None:
                assert _make_executor is not None, "nobody has said who runs operations"
                _eager_graph = EagerGraph(_make_executor())
            graph = _eager_graph
    return graph


def enable_eager() -> None:
    """Makes immediate execution the mode of all threads, outside of `with graph.as_default()` blocks.

    Raises:
        ValueError: If the program has begun to build a graph.
    """
    global _global_graph
    if _global_graph is not None and not _global_graph._executes and _global_graph._operations:
        raise ValueError("tf.enable_eager_execution must be called at program startup.")
    _global_graph = eager_graph()
    eager_process.enabled = True


class _EagerProcess:
    """Whether operations run at once wherever a thread has no default graph of its own."""

    enabled = False


eager_process = _EagerProcess()


@export("executing_eagerly")
def executing_eagerly() -> bool:
    """Whether operations of this thread run at once, where it is now: not in a graph's block, nor in a function."""
    return get_default_graph()._executes


@contextmanager
def own_default_graphs() -> Iterator[None]:
    """A block for a program of its own: it begins with an empty default graph, and may reset it."""
    global _global_graph
    outer = _global_graph, default_graphs.stack
    _global_graph, default_graphs.stack = None, []
    try:
        yield
    finally:
        _global_graph, default_graphs.stack = outer


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        kind = type(value)
        if kind is float or kind is int:
            continue
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        else:
            yield value


def graph_of(values: Iterable[Any]) -> Graph:
    """The graph to which the tensors and operations among `values` belong; the default graph if there are none.

    While the body of a function is built, ops go there: it captures tensors of other graphs.

    Raises:
        ValueError: If they belong to different graphs.
    """
    stack = default_graphs.stack
    if stack and stack[-1]._building_function:
        return stack[-1]
    found: Any = None
    graph: Graph | None = None
    eager: Any = None
    for value in _flat(values):
        if type(value) is EagerTensor:
            eager = value
            continue
        element_graph = getattr(value, "graph", None)
        if not isinstance(element_graph, Graph):
            continue
        if element_graph._executes:  # A variable's, or what else holds an eager tensor.
            eager = value
            continue
        if graph is None:
            graph, found = element_graph, value
        elif graph is not element_graph:
            raise ValueError(
                f"{value} must be from the same graph as {found} (graphs are {element_graph} and {graph}). Build both "
                "within one `with graph.as_default()` block."
            )
    if eager is not None and (not stack or stack[-1]._executes):
        if graph is not None and graph._takes_values:
            return graph
        if graph is not None:
            raise TypeError(
                f"{found} is a tensor of a graph: it has no value that an op could take together with {eager!r}. Build "
                "the op within `with graph.as_default():`, or fetch the value with `session.run` first."
            )
        return eager_graph()
    return graph if graph is not None else get_default_graph()


@export("name_scope")
class name_scope:
    """A block that puts the names of its ops under a common prefix.

    Args:
        name: The prefix; made unique. With a slash at the end: an existing scope, opened again.
        default_name: Used if `name` is None.
        values: Inputs of the op under construction: all must be of one graph, which becomes the default graph.

    Example:
        >>> with tf.name_scope("layer"):
        ...     tf.constant(1.0, name="c").name
        'layer/c:0'
    """

    __slots__ = ("_default", "_graph_scope", "_name", "_scope", "_values")
    _graph_scope: Any
    _scope: Any

    def __init__(self, name: str | None, default_name: str | None = None, values: Any = None) -> None:
        """See the class."""
        if default_name is not None and not isinstance(default_name, str):
            raise TypeError(
                f"`default_name` type ({type(default_name).__name__}) is not a string type. You likely meant "
                "to pass this "
                "into the `values` kwarg."
            )
        self._name = default_name if name is None else name
        self._values = values
        self._default = default_name

    @property
    def name(self) -> str | None:
        """The name that was asked for."""
        return self._name

    def __enter__(self) -> str:
        if self._name is None and self._values is not None:
            raise ValueError("At least one of name (None) and default_name (None) must be provided.")
        default = get_default_graph()
        if default._executes:
            return self._enter_eagerly(default._scopes)
        graph = default if self._values is None else graph_of(self._values)
        self._graph_scope = None
        if graph is not get_default_graph():
            self._graph_scope = default_graph_scope(graph)
            self._graph_scope.__enter__()
        try:
            self._scope = graph.name_scope(self._name)
            scope: str = self._scope.__enter__()
        except BaseException:
            if self._graph_scope is not None:
                self._graph_scope.__exit__()
            raise
        return scope

    def _enter_eagerly(self, state: ScopeState) -> str:
        """Names need not be unique, and nothing is looked up: what every op function does must cost little."""
        outer = state.name_stack
        self._scope = None
        self._graph_scope = (state, outer)
        name = self._name
        if not name:
            full = ""
        elif name[-1] == "/":
            full = name[:-1]
        else:
            full = f"{outer}/{name}" if outer else name
        state.name_stack = full
        return f"{full}/" if full else ""

    def __exit__(self, *exc_info: object) -> None:
        if self._scope is None:
            state, outer = self._graph_scope
            state.name_stack = outer
            return
        self._scope.__exit__(*exc_info)
        if self._graph_scope is not None:
            self._graph_scope.__exit__(*exc_info)


@export("op_scope")
@contextmanager
def op_scope(values: Any, name: str | None, default_name: str | None = None) -> Iterator[str]:
    """The old spelling of `tf.name_scope(name, default_name, values)`."""
    with name_scope(name, default_name=default_name, values=values) as scope:
        yield scope


@export("device")
def device(device_name_or_function: Any) -> Any:
    """A block whose ops ask for a device of the default graph; see `Graph.device`."""
    return get_default_graph().device(device_name_or_function)


@export("control_dependencies")
def control_dependencies(control_inputs: Any) -> Any:
    """A block whose ops run only after `control_inputs`; see `Graph.control_dependencies`."""
    return get_default_graph().control_dependencies(control_inputs)


@export("colocate_with")
def colocate_with(op: Any, ignore_existing: bool = False) -> Any:
    """A block whose ops are placed beside `op`; see `Graph.colocate_with`."""
    return get_default_graph().colocate_with(op, ignore_existing)


@export("container")
def container(container_name: str) -> Any:
    """A block whose stateful ops keep their state in a named container."""
    return get_default_graph().container(container_name)


@export("add_to_collection")
def add_to_collection(name: Any, value: Any) -> None:
    """Appends to a collection of the default graph."""
    get_default_graph().add_to_collection(name, value)


@export("add_to_collections")
def add_to_collections(names: Any, value: Any) -> None:
    """Appends to several collections of the default graph."""
    get_default_graph().add_to_collections(names, value)


@export("get_collection")
def get_collection(key: Any, scope: str | None = None) -> list[Any]:
    """Returns a copy of a collection of the default graph; see `Graph.get_collection`."""
    return get_default_graph().get_collection(key, scope)


@export("get_collection_ref")
def get_collection_ref(key: Any) -> list[Any]:
    """Returns the list behind a collection of the default graph."""
    return get_default_graph().get_collection_ref(key)


@export("random.set_random_seed", "set_random_seed")
def set_random_seed(seed: int | None) -> None:
    """Sets the seed from which the random ops of the default graph derive theirs."""
    get_default_graph().seed = seed


@export("get_seed", "random.get_seed")
def get_seed(op_seed: int | None) -> tuple[int | None, int | None]:
    """The two seeds of a random op, from the graph's seed and its own; (None, None) means a seed drawn at run time.

    An op without a seed, in a graph with one, takes the number of ops before it: reproducible for equal graphs.
    """
    graph = get_default_graph()
    if graph.seed is None:
        return (None, None) if op_seed is None else (87654321, _as_int32(op_seed))
    seeds = _as_int32(graph.seed), _as_int32(graph._next_seed() if op_seed is None else op_seed)
    # Two zeros would mean "draw a seed": keep the request for a fixed one.
    return (0, 2**31 - 1) if seeds == (0, 0) else seeds


def _as_int32(seed: int) -> int:
    return int(seed) % (2**31 - 1)
