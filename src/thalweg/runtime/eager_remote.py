"""Ops of an eager program on other tasks: steps of one node in a session with the cluster's master.

What such an op returns stays on its task, as a value that the session keeps (`tf.get_session_handle`). Another op there
reads it there, and one on a third task gets it from that task. It comes to this process when somebody looks at it.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from thalweg import errors
from thalweg.graph import dtypes, eager_tensor
from thalweg.graph.conversion import convert
from thalweg.graph.default_graph import eager_graph
from thalweg.graph.default_stack import default_graph_scope
from thalweg.graph.definitions.op_registry import OpDef
from thalweg.graph.device_spec import DeviceSpec
from thalweg.graph.dtypes import DType
from thalweg.graph.eager_tensor import EagerTensor
from thalweg.graph.func_graph import init_scope
from thalweg.graph.graph import Graph
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.constants import placeholder
from thalweg.ops.state.session_handles import TensorHandle, get_session_handle, get_session_tensor
from thalweg.runtime.session import Session

_numbers = itertools.count()


class RemoteTasks:
    """The cluster that an eager program is connected to. Thread-safe."""

    def __init__(self, target: str) -> None:
        """Takes the target of any server of the cluster.

        Raises:
            errors.OpError: If there is no server.
        """
        self.graph = Graph()
        self.graph._functions = eager_graph()._functions
        self.session = Session(target, graph=self.graph)
        self.lock = threading.Lock()
        self.dead: deque[TensorHandle] = deque()  # Of tensors that are gone; deleted before the next op.
        self._devices: list[str] = [device.name for device in self.session.list_devices()]

    def full_name(self, spec: DeviceSpec) -> str | None:
        """The full name of the cluster's device that a partial one stands for; None if there is none."""
        parts = ("job", "replica", "task", "device_type", "device_index")
        for name in self._devices:
            own = DeviceSpec.from_string(name)
            if all(getattr(spec, part) in (None, getattr(own, part)) for part in parts):
                return name
        return None

    def names(self) -> list[str]:
        """The full names of all devices."""
        return list(self._devices)

    def forget_dead(self) -> None:
        """Lets the tasks forget the values of tensors that are gone."""
        while self.dead:
            try:
                self.dead.popleft().delete()
            except errors.OpError:
                return  # The task has ended, and its values with it.

    def close(self) -> None:
        """Ends the session; values that are there are gone."""
        self.session.close()


class RemoteValue:
    """A value that is on another task, for as long as a tensor stands for it."""

    def __init__(self, tasks: RemoteTasks, handle: TensorHandle, device: str) -> None:
        """Takes the handle."""
        self.tasks = tasks
        self.handle = handle
        self.device = device

    def fetch(self, dtype: DType) -> Any:
        """The core's value, brought to this process."""
        array = self.handle.eval()
        with init_scope(), default_graph_scope(eager_graph()):
            tensor: Any = convert(array, dtype)
        return tensor._native

    def __del__(self) -> None:
        self.tasks.dead.append(self.handle)


def remote_value(tensor: Any) -> RemoteValue | None:
    """Where a tensor's value is, if it is on another task."""
    found: RemoteValue | None = tensor.__dict__.get("remote")
    return found


class RemoteStep:
    """An op on a device of another task."""

    def __init__(
        self, tasks: RemoteTasks, definition: OpDef, attrs: dict[str, Any], takes: Sequence[DType],
        types: Sequence[DType], device: str,
    ) -> None:  # fmt: skip
        """Nodes are added when it runs first.

        Raises:
            errors.UnimplementedError: If it takes or returns handles of resources.
        """
        for dtype in (*takes, *types):
            if dtype.base_dtype in (dtypes.resource, dtypes.variant):
                raise errors.UnimplementedError(
                    None, None,
                    f"'{definition.name}' on '{device}' would pass a {dtype.name} between tasks: a function that uses "
                    "a variable or a dataset, which are in the program's own process. Give it the variable's value as "
                    "an argument.",
                )  # fmt: skip
        self._tasks, self._definition, self._attrs = tasks, definition, attrs
        self._types, self._device = list(types), device
        self._takes = list(takes)
        # The kernels of stateful ops are found by name, whatever their inputs come from.
        self._name = f"{definition.name}_{next(_numbers)}"
        self._built: dict[Any, tuple[list[Tensor], list[Any]]] = {}

    def run(self, inputs: Sequence[Any]) -> Any:
        """Runs it: the output, or a list if there is not exactly one; values stay there."""
        tasks = self._tasks
        remote = [remote_value(tensor) for tensor in inputs]
        if any(value is not None and value.tasks is not tasks for value in remote):
            remote = [value if value is not None and value.tasks is tasks else None for value in remote]
        key = tuple(None if value is None else value.device for value in remote)
        with tasks.lock:
            tasks.forget_dead()
            if key not in self._built:
                self._built[key] = self._build(remote)
        feeds, fetches = self._built[key]
        values = [tensor.numpy() if value is None else value.handle.handle
                  for tensor, value in zip(inputs, remote, strict=True)]  # fmt: skip
        handles = tasks.session.run(fetches, dict(zip(feeds, values, strict=True)))
        if not self._types:
            return []
        made = [self._pending(handle, dtype) for handle, dtype in zip(handles, self._types, strict=True)]
        return made if len(made) != 1 else made[0]

    def _pending(self, handle: TensorHandle, dtype: DType) -> EagerTensor:
        tensor: EagerTensor = eager_tensor.pending(dtype.as_datatype_enum)
        tensor.__dict__["remote"] = RemoteValue(self._tasks, handle, self._device)
        return tensor

    def _build(self, remote: list[RemoteValue | None]) -> tuple[list[Tensor], list[Any]]:
        graph = self._tasks.graph
        feeds, given = [], []
        with default_graph_scope(graph):
            for dtype, value in zip(self._takes, remote, strict=True):
                if value is None:
                    feeds.append(placeholder(dtype))
                    given.append(feeds[-1])
                else:
                    holder, tensor = get_session_tensor(value.handle.handle, dtype)
                    feeds.append(holder)
                    given.append(tensor)
            with graph.device(self._device):
                op = graph.add_operation(
                    self._definition, given, self._attrs, graph.unique_name(self._name), self._types
                )
                return feeds, [get_session_handle(output) for output in op.outputs] or [op]
