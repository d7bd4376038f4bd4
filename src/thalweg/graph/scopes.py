"""The scopes in which ops are created: names, devices, control dependencies, colocation, containers, attribute maps.

All of it is per thread, and every value here is immutable or replaced as a whole: entering a scope stores new values,
leaving it puts the old ones back. `plain` says that nothing but the name scope is active, which lets op creation skip
the rest with one test.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from thalweg.graph.definitions.op_registry import OpDef
from thalweg.graph.device_spec import canonical, merged

if TYPE_CHECKING:
    from thalweg.graph.control_flow_context import ControlFlowContext
    from thalweg.graph.operation import Operation
    from thalweg.graph.tensor import Tensor

VALID_OP_NAME = re.compile(r"^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$")
VALID_SCOPE_NAME = re.compile(r"^[A-Za-z0-9_.\\/>-]*$")

Device = str | Callable[[Any], Any] | None
"""An entry of the device stack: a canonical name, a function of the op, or None, which hides the entries outside."""


class Controller:
    """One `control_dependencies` block: what must run first, and the ops created in it so far."""

    __slots__ = ("control_inputs", "seen")

    def __init__(self, control_inputs: list[Operation]) -> None:
        """Starts a block."""
        self.control_inputs = control_inputs
        self.seen: set[Operation] = set()


class ScopeState(threading.local):
    """The scopes that are open in the current thread, for one graph."""

    def __init__(self) -> None:
        """Runs once in each thread that touches the graph."""
        self.name_stack = ""  # Without a slash at the end.
        self.context: ControlFlowContext | None = None
        self.controllers: tuple[Controller, ...] = ()
        self.devices: tuple[Device, ...] = ()  # Outermost first.
        self.colocation: tuple[Operation, ...] = ()
        self.container = ""
        self.attr_map: dict[str, Any] = {}
        self.gradient_map: dict[str, str] = {}
        self.kernel_labels: dict[str, str] = {}
        self.plain = True

    def update(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Stores new values; returns the old ones."""
        values = self.__dict__
        old = {key: values[key] for key in changes}
        values.update(changes)
        self.plain = not (
            self.context is not None
            or self.controllers
            or self.devices
            or self.colocation
            or self.container
            or self.attr_map
            or self.gradient_map
            or self.kernel_labels
        )
        return old


class Scope:
    """A context manager that changes the scope state of the thread that enters it."""

    __slots__ = ("_make", "_old", "_state")

    def __init__(self, state: ScopeState, make: Callable[[], tuple[dict[str, Any], Any]]) -> None:
        """`make` is called at entry, and gives the changes and the value of the `with` statement."""
        self._state = state
        self._make = make
        self._old: list[dict[str, Any]] = []

    def __enter__(self) -> Any:
        changes, result = self._make()
        self._old.append(self._state.update(changes))
        return result

    def __exit__(self, *exc_info: object) -> None:
        self._state.update(self._old.pop())


def control_inputs_for(controllers: Iterable[Controller], inputs: Iterable[Tensor]) -> list[Operation]:
    """The control inputs of a new op: those of each block whose ops are not already among its inputs."""
    input_ops = {tensor.op for tensor in inputs}
    result: dict[Operation, None] = {}
    for controller in controllers:
        if input_ops.isdisjoint(controller.seen):
            for op in controller.control_inputs:
                if op not in input_ops:
                    result[op] = None
    return list(result)


def apply_devices(devices: tuple[Device, ...], op: Operation) -> None:
    """Sets the op's device from the open device blocks, innermost first."""
    for device in reversed(devices):
        if device is None:
            break
        op.device = canonical(device(op)) if callable(device) else merged(device, op.device)


def apply_scope_attrs(state: ScopeState, op: Operation, op_def: OpDef) -> None:
    """Adds the attributes that the open scopes ask for."""
    for name, value in state.attr_map.items():
        if callable(value):
            value = value(op)
        if value is not None:
            op.attrs[name] = value
    label = state.kernel_labels.get(op.type)
    if label is not None:
        op.attrs["_kernel"] = label.encode()
    override = state.gradient_map.get(op.type)
    if override is not None:
        op.attrs["_gradient_op_type"] = override.encode()
    if state.container and op_def.stateful and op.attrs.get("container") == b"":
        op.attrs["container"] = state.container.encode()


def apply_colocation(colocation: tuple[Operation, ...], op: Operation) -> None:
    """Puts the op beside those of the open `colocate_with` blocks, on the device that they ask for."""
    groups = set(op.attrs.get("_class", ()))
    for other in colocation:
        groups.update(other.colocation_groups())
        if other.device:
            op.device = other.device
    op.attrs["_class"] = sorted(groups)
