"""The global step: the one variable that counts the training steps of a graph."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.collections import GraphKeys
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import int64
from thalweg.graph.graph import Graph
from thalweg.graph.tensor import Tensor
from thalweg.platform import logging
from thalweg.state.initializers import Zeros
from thalweg.state.variable import Variable
from thalweg.state.variable_scope import get_variable

# The read that hooks share: a tensor that can be fetched also when the graph is finalized.
_READ = "global_step_read_op_cache"


@export("train.assert_global_step")
def assert_global_step(global_step_tensor: Any) -> None:
    """Raises TypeError unless the argument is an integer scalar, a variable or a tensor."""
    if not isinstance(global_step_tensor, Tensor) and not hasattr(global_step_tensor, "assign_add"):
        raise TypeError(
            f'Existing "global_step" must be a Variable or Tensor, saw {type(global_step_tensor).__name__}.'
        )
    if not global_step_tensor.dtype.base_dtype.is_integer:
        raise TypeError(f'Existing "global_step" does not have integer type: {global_step_tensor.dtype}')
    if global_step_tensor.shape.ndims not in (0, None):
        raise TypeError(f'Existing "global_step" is not scalar: {global_step_tensor.shape}')


@export("train.get_global_step", "contrib.framework.get_global_step")
def get_global_step(graph: Graph | None = None) -> Any:
    """Returns the global step variable of a graph (the default graph), or None.

    It is the one in the collection GLOBAL_STEP, or else a variable or tensor named 'global_step:0'.

    Raises:
        TypeError: If that is not an integer scalar.
    """
    graph = graph or get_default_graph()
    steps = graph.get_collection(GraphKeys.GLOBAL_STEP)
    if len(steps) > 1:
        logging.error("Multiple tensors in global_step collection.")
        return None
    step = steps[0] if steps else _by_name(graph)
    if step is not None:
        assert_global_step(step)
    return step


def _by_name(graph: Graph) -> Any:
    for variable in graph.get_collection(GraphKeys.GLOBAL_VARIABLES):
        if variable.name == "global_step:0":
            return variable
    if graph._executes:
        return None
    try:
        return graph.get_tensor_by_name("global_step:0")
    except KeyError:
        return None


@export("train.create_global_step", "contrib.framework.create_global_step")
def create_global_step(graph: Graph | None = None) -> Variable:
    """Creates the global step variable of a graph: an int64 scalar that starts at zero.

    Raises:
        ValueError: If the graph has one.
    """
    graph = graph or get_default_graph()
    if get_global_step(graph) is not None:
        raise ValueError('"global_step" already exists.')
    with graph.as_default(), graph.name_scope(None):
        variable: Variable = get_variable(
            GraphKeys.GLOBAL_STEP,
            shape=[],
            dtype=int64,
            initializer=Zeros(),
            trainable=False,
            collections=[GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP],
        )
    if graph._executes:
        Graph.add_to_collection(graph, GraphKeys.GLOBAL_STEP, variable)  # The one variable that the program keeps.
    return variable


@export("train.get_or_create_global_step", "contrib.framework.get_or_create_global_step")
def get_or_create_global_step(graph: Graph | None = None) -> Any:
    """Returns the global step variable of a graph; creates it if there is none."""
    graph = graph or get_default_graph()
    step = get_global_step(graph)
    return create_global_step(graph) if step is None else step


@export("train.global_step")
def global_step(sess: Any, global_step_tensor: Any) -> int:
    """Returns the value of the global step in a session.

    Args:
        sess: A session.
        global_step_tensor: The variable, tensor, or the tensor's name.
    """
    return int(sess.run(global_step_tensor))


def global_step_read(graph: Graph | None = None) -> Any:
    """A tensor that reads the global step, made once per graph; None if there is no global step."""
    graph = graph or get_default_graph()
    cached = graph.get_collection(_READ)
    if cached:
        return cached[0]
    step = get_global_step(graph)
    if step is None or isinstance(step, Tensor):
        return step
    with graph.as_default(), graph.name_scope(None), graph.name_scope(step.op.name + "/"):
        with graph.control_dependencies(None):
            read = apply_one("Identity", step, name="read_for_hooks")
    graph.add_to_collection(_READ, read)
    return read


def increment_global_step(increment: int, graph: Graph | None = None) -> Any:
    """An operation that adds to the global step.

    Raises:
        ValueError: If there is no global step.
    """
    graph = graph or get_default_graph()
    step = get_global_step(graph)
    if step is None:
        raise ValueError("Global step tensor should be created by tf.train.get_or_create_global_step before this.")
    with graph.as_default(), graph.name_scope(None):
        return step.assign_add(increment)
