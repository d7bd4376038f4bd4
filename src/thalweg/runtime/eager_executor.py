"""The executor: runs ops at once, one native op each, made once for an op type, attributes, element types and device.

An op takes one of three ways:

    EagerOp      the kernel alone, on the calling thread: all ops but the following
    new EagerOp  those that make a resource: each run makes another one, which lives as long as its handles
    EagerStep    ops that call functions, and devices with memory of their own: a planned step of one node
"""

from __future__ import annotations

import functools
import itertools
import struct
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from thalweg import errors
from thalweg._native import core
from thalweg.autodiff.recording import tapes
from thalweg.functions.graph_function import GraphFunction
from thalweg.graph import dtypes, eager_tensor
from thalweg.graph.apply import interception
from thalweg.graph.conversion import convert
from thalweg.graph.default_graph import eager_graph, eager_process, get_default_graph
from thalweg.graph.default_stack import default_graph_scope, default_graphs
from thalweg.graph.definitions.op_registry import OpDef, gradient_function
from thalweg.graph.definitions.prepared_op import PreparedOp
from thalweg.graph.device_spec import merged
from thalweg.graph.dtypes import DType
from thalweg.graph.eager_graph import EagerGraph
from thalweg.graph.eager_operation import EagerOperation
from thalweg.graph.eager_tensor import EagerTensor
from thalweg.graph.handle_data import HandleData
from thalweg.graph.immediate import immediate
from thalweg.graph.op_effects import Effect, Flow
from thalweg.graph.operation import Operation
from thalweg.graph.resolve import resolve_prepared
from thalweg.graph.tensor import Tensor
from thalweg.passes.inline_functions import function_attrs
from thalweg.placement.placer import has_kernel_on, has_own_memory
from thalweg.runtime.eager_context import EagerContext
from thalweg.runtime.eager_queue import open_queue
from thalweg.runtime.eager_step import EagerStep
from thalweg.runtime.install import register_python_kernels
from thalweg.state.variable import Variable

_MOST_OPS = 20_000  # Programs that call ops with ever new attributes must not fill the memory.
_numbers = itertools.count()


def _has_handles(inputs: Sequence[Tensor], types: Sequence[DType]) -> bool:
    handles = (dtypes.resource, dtypes.variant)
    return any(tensor.dtype in handles for tensor in inputs) or any(dtype.base_dtype in handles for dtype in types)


class _Cached:
    """A native op, and what the executor needs to know when it runs."""

    __slots__ = ("_run", "attrs", "native", "one_output", "op_def", "types")

    def __init__(
        self, op_def: OpDef, attrs: dict[str, Any], run: Any, types: Sequence[DType] | None = None, native: Any = None
    ) -> None:
        self.op_def = op_def
        self.attrs = attrs
        self._run = run
        self.types = types  # Of the outputs of an op that can wait for its turn; None for those that cannot.
        self.one_output = op_def.prepared is not None and op_def.prepared.one_output
        self.native = native  # The core's EagerOp, if it has one.

    @property
    def is_made_anew(self) -> bool:
        """Whether each run makes another op."""
        return type(self._run) is _Maker

    def run(self, inputs: Sequence[Any]) -> Any:
        """Runs it now, or in its turn: the output, or a list if there is not exactly one."""
        queue = open_queue.queue
        if queue is not None and self.types is not None:
            return queue.put(self._run, inputs, self.types)
        return self._run(inputs)


class EagerExecutor:
    """Runs ops on the devices of an EagerContext. Thread-safe."""

    def __init__(self) -> None:
        """Connects the core and the class of eager tensors."""
        register_python_kernels()
        numbers = {
            dtype.as_datatype_enum: dtype
            for dtype in vars(dtypes).values()
            if isinstance(dtype, DType) and not dtype._is_ref_dtype
        }
        eager_tensor.connect(core, numbers)
        self._context: EagerContext | None = None
        self._lock = threading.Lock()
        self._config: Any = None
        self._by_node: dict[Any, _Cached] = {}
        self._by_function: dict[GraphFunction, _Cached] = {}
        self._known: core.KnownCalls  # Made with the graph.

    @property
    def context(self) -> EagerContext:
        """The devices and resources; made by the first op."""
        context = self._context
        if context is None:
            with self._lock:
                if self._context is None:
                    self._context = EagerContext(self._config)
                context = self._context
        return context

    def configure(self, config: Any) -> None:
        """Takes the options of the program, before its first op.

        Raises:
            ValueError: If ops have run.
        """
        if self._context is not None and config is not None:
            raise ValueError("tf.enable_eager_execution(config=...) must be called before the first op runs.")
        self._config = config

    def forget_random_state(self) -> None:
        """Drops the kernels, which hold the streams of random numbers."""
        self._by_node.clear()
        self._by_function.clear()
        self._known.clear()

    # Running.

    def connect(self, graph: EagerGraph) -> None:
        """Takes the graph that it runs the ops of."""
        types = ((DType, GraphFunction), np.ndarray, np.generic, Variable)
        mode = (default_graphs, eager_process, interception, graph._scopes, tapes, open_queue)
        self._known = core.KnownCalls(*types, *mode)
        self._known.set_graph(graph)
        immediate.run = self._known.runner()
        immediate.keep_form = self._known.keep_form

    def execute(self, prepared: PreparedOp, inputs: tuple[Any, ...], attrs: dict[str, Any], name: str | None) -> Any:
        """Runs an op on any values; see `graph.apply`."""
        plain = eager_graph()._scopes.plain
        op_def = prepared.op_def
        if plain and op_def.name == "Const":
            made = _constant(attrs)
            if made is not NotImplemented:
                return made
        tensors, values, types = self._resolved(prepared, inputs, attrs, name)
        cached = self._node(op_def, tensors, values, types, name or op_def.name)
        if plain:
            self._keep(prepared, inputs, attrs, tensors, cached)
        outputs = cached.run(tensors)
        if tapes.open and op_def.name != "Const":
            self._show(cached, tensors, outputs)
        if prepared.one_output:
            return outputs
        return self._results(prepared, cached, tensors, outputs, name)

    def _keep(
        self, prepared: PreparedOp, inputs: tuple[Any, ...], attrs: dict[str, Any], tensors: Any, cached: _Cached
    ) -> None:
        """Lets the next call like this one run without Python's code."""
        if type(attrs.get("f")) is GraphFunction:
            if len(self._by_function) > _MOST_OPS:
                self._by_function.clear()
            self._by_function[attrs["f"]] = cached
        if cached.native is None or cached.is_made_anew:
            return
        results = None
        if not prepared.one_output:
            results = functools.partial(_results_of, prepared, cached.attrs)
        op_def = cached.op_def
        pure = not op_def.stateful and op_def.effect is Effect.NONE
        resolved = (cached.native, op_def, cached.attrs, results, pure, _has_own_gradient(op_def), cached.run)
        lists = tuple(arg.number_attr is not None or arg.type_list_attr is not None for arg in op_def.inputs)
        self._known.keep(op_def.name, inputs, attrs, resolved, tensors, lists)

    def run_call(self, function: Any, inputs: Sequence[Any]) -> Any:
        """Runs a call that is known; see `EagerGraph`."""
        cached = self._by_function.get(function)
        if cached is None or not eager_graph()._scopes.plain:
            return NotImplemented
        for value in inputs:
            if type(value) is not EagerTensor:
                return NotImplemented
        outputs = cached.run(inputs)
        if tapes.open:
            self._show(cached, inputs, outputs)
        return _listed(outputs)

    def run(
        self, op_def: OpDef, inputs: Sequence[Tensor], attrs: dict[str, Any], name: str, output_dtypes: Sequence[DType]
    ) -> Operation:
        """Runs an op with complete attributes; see `EagerGraph.add_operation`."""
        cached = self._node(op_def, inputs, attrs, output_dtypes, name)
        outputs = cached.run(inputs)
        if tapes.open:
            self._show(cached, inputs, outputs)
        return EagerOperation(op_def, inputs, attrs, _listed(outputs), name)

    def _resolved(
        self, prepared: PreparedOp, inputs: tuple[Any, ...], attrs: dict[str, Any], name: str | None
    ) -> tuple[Sequence[Any], dict[str, Any], Sequence[DType]]:
        """The inputs as eager tensors, the attributes, and the types of the outputs."""
        node = name or prepared.op_def.name
        if prepared.simple and all(type(value) is EagerTensor for value in inputs):
            return resolve_prepared(prepared, inputs, attrs, None, EagerTensor, node)
        if get_default_graph()._executes:
            found = resolve_prepared(prepared, inputs, attrs, _converted, EagerTensor, node)
        else:
            with default_graph_scope(eager_graph()):
                found = resolve_prepared(prepared, inputs, attrs, _converted, EagerTensor, node)
        for tensor in found[0]:
            if type(tensor) is not EagerTensor:
                raise TypeError(
                    f"{tensor} is a tensor of a graph: it has no value that '{prepared.op_def.name}' could take, which "
                    "runs at once here. Build the op within `with graph.as_default():`, or fetch the value with "
                    "`session.run` first."
                )
        return found

    def _results(self, prepared: PreparedOp, cached: _Cached, inputs: Any, outputs: Any, name: str | None) -> Any:
        outputs = _listed(outputs)
        if prepared.op_def.outputs:
            return prepared.results(outputs, cached.attrs)
        return EagerOperation(prepared.op_def, inputs, cached.attrs, outputs, name or "")

    @staticmethod
    def _show(cached: _Cached, inputs: Sequence[Any], outputs: Any) -> None:
        listed = _listed(outputs)
        for tape in tapes.open:
            tape.record(cached.op_def, inputs, cached.attrs, listed)

    # Native ops.

    def _node(
        self, op_def: OpDef, inputs: Sequence[Tensor], attrs: dict[str, Any], types: Sequence[DType], name: str
    ) -> _Cached:
        scopes = eager_graph()._scopes
        if scopes.gradient_map.get(op_def.name):
            attrs = {**attrs, "_gradient_op_type": scopes.gradient_map[op_def.name].encode()}
        if scopes.container and op_def.stateful and attrs.get("container") == b"":
            attrs = {**attrs, "container": scopes.container.encode()}
        device = self._device(op_def)
        calls = bool(function_attrs(op_def.name)) or op_def.name in eager_graph()._functions
        inlined = op_def.flow in (Flow.CALL, Flow.BRANCH, Flow.LOOP)
        if device not in self.context.devices and not inlined and _has_handles(inputs, types):
            device = self.context.host  # Variables and the like are in this process.
        if has_own_memory(device) and not inlined and not has_kernel_on(op_def.name, attrs, device):
            device = self.context.host  # As sessions do with allow_soft_placement.
        if op_def.name == "Const":
            return _Cached(op_def, attrs, _Constant(attrs["value"], attrs["dtype"]))
        if op_def.effect is Effect.FED and not inputs:
            raise RuntimeError("tf.placeholder() is not compatible with eager execution: pass the value itself.")
        if op_def.flow.is_primitive:
            raise errors.UnimplementedError(
                None, None, f"'{op_def.name}' steers the steps of graphs. Python's own statements steer eager programs."
            )
        takes = [tensor.dtype for tensor in inputs]
        if op_def.effect is Effect.CREATES and "shared_name" in attrs:
            return _Cached(op_def, attrs, _Maker(self.context, op_def, attrs, takes, types, device, name))
        key = (op_def.name, device, tuple(takes), _frozen(attrs))
        cached = self._by_node.get(key)
        if cached is None:
            run: Any
            native: Any = None
            if device not in self.context.devices:
                run = self._remote_step(op_def, attrs, takes, types, device)
                return self._by_node.setdefault(key, _Cached(op_def, attrs, run))
            if calls or "/device:CPU:" not in device:
                run = EagerStep(self.context, op_def, inputs, attrs, types, device).run
            else:
                session = self.context.session
                native = core.EagerOp(session, op_def.name, op_def.name, device, attrs, takes, list(types))
                run = native.run
            if len(self._by_node) > _MOST_OPS:
                self._by_node.clear()
            cached = self._by_node[key] = _Cached(op_def, attrs, run, types, native)
        return cached

    def _remote_step(
        self, op_def: OpDef, attrs: dict[str, Any], takes: list[DType], types: Sequence[DType], device: str
    ) -> Any:
        from thalweg.runtime.eager_remote import RemoteStep  # Start-up time: few programs have a cluster.

        return RemoteStep(self.context.remote, op_def, attrs, takes, types, device).run

    def connect_tasks(self, target: str | None) -> None:
        """Lets ops run on the tasks of the cluster that a target belongs to; None ends that."""
        from thalweg.runtime.eager_remote import RemoteTasks  # Start-up time: few programs have a cluster.

        before = self.context.remote
        self.context.connect(None if target is None else RemoteTasks(target))
        for key in [key for key in self._by_node if key[1] not in self.context.devices]:
            del self._by_node[key]
        if before is not None:
            before.close()

    def _device(self, op_def: OpDef) -> str:
        """The full name of the device that the open scopes ask for."""
        devices = eager_graph()._scopes.devices
        if not devices:
            return self.context.default_device
        wanted = ""
        for device in reversed(devices):
            if device is None:
                break
            name = device(EagerOperation(op_def, (), {}, ())) if callable(device) else device
            wanted = merged(name or "", wanted)
        return self.context.full_name(wanted)


_kept_whole: dict[Any, Any] = {}
_MOST_KEPT = 4096


def _converted(value: Any, dtype: DType | None, name: str, preferred: DType | None, as_ref: bool) -> Any:
    """A tensor for an op only: whole numbers and short lists of them, such as axes and shapes, become one each."""
    kind = type(value)
    if kind is int:
        key: Any = (value, dtype, preferred)
    elif (kind is list or kind is tuple) and len(value) <= 8 and all(type(n) is int for n in value):
        key = (tuple(value), dtype, preferred)
    else:
        return convert(value, dtype, name, preferred, as_ref)
    found = _kept_whole.get(key)
    if found is None:
        if len(_kept_whole) >= _MOST_KEPT:
            _kept_whole.clear()
        found = _kept_whole[key] = convert(value, dtype, name, preferred)
    return found


def _constant(attrs: dict[str, Any]) -> Any:
    """The tensor of a Const whose attributes are in canonical form, as conversions of values give them."""
    value, dtype = attrs.get("value"), attrs.get("dtype")
    if len(attrs) != 2 or type(value) is not np.ndarray or value.flags.writeable or type(dtype) is not DType:
        return NotImplemented
    return eager_tensor.from_array(value, dtype.as_datatype_enum, True)


class _Constant:
    """Makes tensors of one array, which nobody writes."""

    __slots__ = ("_dtype", "_value")

    def __init__(self, value: Any, dtype: DType) -> None:
        self._value = value
        self._dtype = dtype.as_datatype_enum

    def __call__(self, inputs: Any) -> Any:
        return eager_tensor.from_array(self._value, self._dtype, True)


class _Maker:
    """Runs an op that makes a resource: a new one each time, unless the program names it."""

    def __init__(
        self, context: EagerContext, op_def: OpDef, attrs: dict[str, Any], takes: list[DType], types: Sequence[DType],
        device: str, name: str,
    ) -> None:  # fmt: skip
        self._context = context
        self._op_def = op_def
        self._attrs = attrs
        self._takes = takes
        self._types = list(types)
        self._device = device
        self._name = name

    def __call__(self, inputs: Any) -> Any:
        attrs = self._attrs
        shared = bool(attrs["shared_name"])
        name = f"{self._name}/{next(_numbers)}"
        session = self._context.session
        op = core.EagerOp(session, name, self._op_def.name, self._device, attrs, self._takes, self._types)
        outputs: Any = op.run(inputs)
        if not shared:
            core.forget_resource(session, self._device, attrs.get("container", b"").decode(), name)
        if self._op_def.name == "VarHandleOp":
            outputs._handle_data = HandleData(attrs["dtype"], attrs["shape"])
        return outputs


def _results_of(prepared: PreparedOp, attrs: dict[str, Any], outputs: Any, inputs: tuple[Any, ...]) -> Any:
    outputs = _listed(outputs)
    if prepared.op_def.outputs:
        return prepared.results(outputs, attrs)
    return EagerOperation(prepared.op_def, inputs, attrs, outputs)


def _has_own_gradient(op_def: OpDef) -> bool:
    """Whether the gradient function of an op is one of this package's: those do the same for the same shapes."""
    if op_def.runs_user_code:
        return False
    try:
        function = gradient_function(op_def.name)
    except LookupError:
        return False
    return function is not None and function.__module__.startswith("thalweg.")


def _listed(outputs: Any) -> list[Any]:
    return outputs if type(outputs) is list else [outputs]


def _frozen(value: Any) -> Any:
    """A hashable stand-in for attributes in canonical form."""
    if isinstance(value, dict):
        return tuple((key, _frozen(item)) for key, item in value.items())
    if isinstance(value, list):
        return (list, *[_frozen(item) for item in value])
    if isinstance(value, float):
        return float, struct.pack("d", value)  # By bits: 0.0 is not -0.0, and what is no number is equal to itself.
    if hasattr(value, "tobytes"):
        return value.dtype, value.shape, value.tobytes() if value.dtype != object else repr(value.tolist())
    if hasattr(value, "dims_tuple"):
        return "shape", value.dims_tuple
    if type(value).__name__ == "NameAttrList":
        return "function", value.name, _frozen(value.attrs)
    return type(value), value


def new_executor() -> EagerExecutor:
    """For `graph.default_graph`."""
    return EagerExecutor()
