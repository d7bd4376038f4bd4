"""tf.CriticalSection: parts of a graph that run one at a time, in one step and between steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from thalweg.graph import nest
from thalweg.graph.apply import apply_one, apply_op
from thalweg.graph.default_graph import (
    add_to_collection,
    colocate_with,
    control_dependencies,
    get_collection,
    get_default_graph,
    name_scope,
)
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, not_differentiable
from thalweg.graph.dtypes import resource
from thalweg.graph.op_effects import Effect
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.constants import group, identity

define(
    "MutexV2",
    "-> resource: resource",
    "container: string = '', shared_name: string = ''",
    shape=shapes.scalar,
    effect=Effect.CREATES,
)
define("MutexLock", "mutex: resource -> mutex_lock: variant", shape=shapes.scalar, effect=Effect.WRITES)
define("ConsumeMutexLock", "mutex_lock: variant ->", shape=shapes.no_outputs, effect=Effect.WRITES)
not_differentiable("MutexV2", "MutexLock", "ConsumeMutexLock")

_EXECUTIONS = "critical_section_executions"


class _Execution(NamedTuple):
    """A call of `execute`: its lock, the mutex, and which resources its function uses."""

    lock: Operation
    handle: Tensor
    resources: list[Tensor]
    is_exclusive: bool


@export("CriticalSection")
class CriticalSection:
    """Functions that run one at a time, so that none sees what another has half done.

    Example:
        >>> section = tf.CriticalSection()
        >>> v = tf.Variable(0)
        >>> counted = section.execute(lambda: v.assign_add(1))
        >>> with tf.Session() as sess:
        ...     sess.run(v.initializer)
        ...     print(sess.run(counted))
        1
    """

    def __init__(
        self,
        name: str | None = None,
        shared_name: str | None = None,
        critical_section_def: Any = None,
        import_scope: str | None = None,
    ) -> None:
        """Makes the mutex.

        Args:
            name: The node's name.
            shared_name: Sections of the same shared name lock each other out, also in other sessions of the task.
            critical_section_def: Not supported.
            import_scope: Not supported.

        Raises:
            NotImplementedError: If a definition is given.
        """
        if critical_section_def is not None or import_scope is not None:
            raise NotImplementedError("A CriticalSection cannot be made of a definition: create it anew.")
        with name_scope(name, "CriticalSection") as scope, control_dependencies(None):
            self._handle = apply_one("MutexV2", shared_name=shared_name or "", name=scope)

    @property
    def name(self) -> str:
        """The name of the mutex's node."""
        return self._handle.op.name

    def execute(self, fn: Callable[[], Any], exclusive_resource_access: bool = True, name: str | None = None) -> Any:
        """Runs a function while no other function of this section runs.

        What the function's operations read from outside is computed before the mutex is locked.

        Args:
            fn: A function without arguments that returns tensors, in any structure.
            exclusive_resource_access: Whether no other section may use the variables, queues and tables of `fn`.
            name: A name for the nodes.

        Returns:
            What `fn` returned. Fetching any part of it runs all of it.

        Raises:
            ValueError: If `fn` enters this section again, or a resource that it uses belongs to another section.
        """
        graph = get_default_graph()
        with name_scope(name, "critical_section_execute"):
            lock = apply_one("MutexLock", self._handle)
            known = len(graph.get_operations())
            with control_dependencies([lock]):
                result = fn()
            created = graph.get_operations()[known:]
            _wait_for_arguments(lock.op, created)
            used = list({id(x): x for op in created for x in op.inputs if x.dtype == resource}.values())
            self._check_resources(used, exclusive_resource_access)
            flat = [_copy(each) for each in nest.flatten(result)]
            with control_dependencies([each for each in flat if each is not None]):
                with colocate_with(self._handle):
                    end = apply_op("ConsumeMutexLock", lock)
            with control_dependencies([end]):
                outputs = nest.pack_sequence_as(result, [_copy(each) for each in flat])
        add_to_collection(_EXECUTIONS, _Execution(lock.op, self._handle, used, exclusive_resource_access))
        return outputs

    def _check_resources(self, used: list[Tensor], is_exclusive: bool) -> None:
        if any(each is self._handle for each in used):
            raise ValueError(
                f"The function of CriticalSection '{self.name}' enters this section again: it would wait for itself. "
                "Call what it needs without `execute`."
            )
        for other in get_collection(_EXECUTIONS):
            if other.handle is self._handle or not (is_exclusive or other.is_exclusive):
                continue
            shared = sorted(x.op.name for x in used if any(x is y for y in other.resources))
            if shared:
                raise ValueError(
                    f"This execution would access resources: {shared}. Either this lock (CriticalSection: "
                    f"{self.name}) or lock '{other.lock.name}' (CriticalSection: {other.handle.op.name}) requested "
                    "exclusive resource access of this resource. Did you mean to call execute with keyword argument "
                    "exclusive_resource_access=False?"
                )


def _copy(value: Any) -> Any:
    """A value as a node after the current control inputs; None stays."""
    if isinstance(value, Operation):
        return group(value)
    return None if value is None else identity(value)


def _wait_for_arguments(lock: Operation, created: list[Operation]) -> None:
    """Computes what the operations of a section read from outside before the lock is taken, not while it is held."""
    own = {id(op) for op in (*created, lock)}
    sources = [x.op for op in created for x in op.inputs] + [x for op in created for x in op.control_inputs]
    before = {id(op) for op in (*lock.control_inputs, *(x.op for x in lock.inputs))}
    arguments = {id(op): op for op in sources if id(op) not in own | before}
    lock._add_control_inputs(list(arguments.values()))
