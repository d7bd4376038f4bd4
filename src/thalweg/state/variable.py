"""tf.Variable: a named tensor that steps can change. All variables are resource variables.

The class, the variables that its updates return and its eager form refer to each other: so this is one file of more
than 500 lines.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from thalweg import errors
from thalweg.graph.apply import apply_one, apply_op, not_intercepted
from thalweg.graph.collections import GraphKeys
from thalweg.graph.conversion import convert_to_tensor, register_tensor_conversion_function
from thalweg.graph.default_graph import (
    control_dependencies,
    device,
    eager_graph,
    executing_eagerly,
    get_default_graph,
    name_scope,
)
from thalweg.graph.default_stack import AnySession, get_default_session
from thalweg.graph.definitions.op_registry import export, op_def
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.eager_operation import EagerOperation
from thalweg.graph.formats.proto_functions import own_to_proto, register_proto_function
from thalweg.graph.graph import Graph
from thalweg.graph.immediate import immediate
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor, TensorReference
from thalweg.graph.tensor_shape import TensorShape
from thalweg.state.creators import CreatedByScopes
from thalweg.state.initialized import guarded, initialized_value
from thalweg.state.policies import VariableAggregation, VariableSynchronization, is_trainable
from thalweg.state.variable_proto import SaveSliceInfo as SliceInfo
from thalweg.state.variable_proto import class_of, from_variable_def, to_variable_def
from thalweg.state.variable_updates import VariableUpdates


@export("Variable")
class Variable(VariableUpdates, metaclass=CreatedByScopes):
    """A tensor with a name that keeps its value from step to step, until an assignment changes it.

    A read is a snapshot, and an update is atomic: no step ever sees a half-written value.

    Example:
        >>> w = tf.Variable([[1.0, 2.0]], name="w")
        >>> with tf.Session() as sess:
        ...     sess.run(w.initializer)
        ...     print(sess.run(w.assign_add([[1.0, 1.0]])))
        [[2. 3.]]
    """

    # NumPy arrays on the left of an operator leave the operation to us.
    __array_priority__ = 100

    SaveSliceInfo = SliceInfo
    _eager_name: str | None = None  # Of a variable that lives where ops run at once.

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        collections: Any = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: Any = None,
        expected_shape: Any = None,
        import_scope: str | None = None,
        constraint: Callable[[Any], Any] | None = None,
        use_resource: bool | None = None,
        synchronization: VariableSynchronization = VariableSynchronization.AUTO,
        aggregation: VariableAggregation = VariableAggregation.NONE,
        shape: Any = None,
    ) -> None:
        """Creates a variable in the default graph.

        Args:
            initial_value: Its value once `initializer` has run: anything that converts to a tensor, or a function
                without arguments that returns that (needed inside of loops and branches).
            trainable: Whether optimizers change it by default: whether it joins GraphKeys.TRAINABLE_VARIABLES.
            collections: The collections to join; GraphKeys.GLOBAL_VARIABLES if None.
            validate_shape: If False, its shape may change with every assignment.
            caching_device: Where copies of its value are kept for readers.
            name: Its name; made unique.
            variable_def: A VariableDef: finds the variable's nodes in the graph instead of creating them.
            dtype: The type to convert `initial_value` to.
            expected_shape: Ignored.
            import_scope: Prefix for the names in `variable_def`.
            constraint: A function that optimizers apply to the value after an update.
            use_resource: Ignored: all variables are resource variables.
            synchronization: When copies are brought together in distributed training.
            aggregation: How updates of copies are combined.
            shape: The shape it may have, if wider than that of `initial_value`.

        Raises:
            ValueError: If there is no `initial_value`, or its shape is unknown and `validate_shape` is True.
        """
        self._synchronization = synchronization
        self._aggregation = aggregation
        self._constraint = constraint
        self._save_slice_info: SliceInfo | None = None
        self._reference: Tensor | None = None
        self._safe_initial_value: Tensor | None = None  # The same without reading uninitialized variables.
        if variable_def is not None:
            if initial_value is not None:
                raise ValueError("variable_def and initial_value are mutually exclusive.")
            from_variable_def(self, variable_def, import_scope)
            return
        if initial_value is None:
            raise ValueError("initial_value must be specified.")
        if constraint is not None and not callable(constraint):
            raise ValueError("The `constraint` argument must be a callable.")
        if collections is None:
            collections = [GraphKeys.GLOBAL_VARIABLES]
        if not isinstance(collections, (list, tuple, set)):
            raise ValueError(
                f"collections argument to Variable constructor must be a list, tuple, or set. Got {collections!r} of "
                f"type {type(collections)}"
            )
        self._trainable = is_trainable(trainable, synchronization, name)
        if self._trainable and GraphKeys.TRAINABLE_VARIABLES not in collections:
            collections = [*collections, GraphKeys.TRAINABLE_VARIABLES]
        # State outlives the branch or loop in which a program creates it.
        with control_dependencies(None), not_intercepted():
            if executing_eagerly():
                build_eagerly(self, initial_value, validate_shape, name, dtype, shape)
            else:
                self._build(initial_value, validate_shape, caching_device, name, dtype, shape)
        get_default_graph().add_to_collections(collections, self)

    def _build(
        self, initial_value: Any, validate_shape: bool, caching_device: Any, name: str | None, dtype: Any, shape: Any
    ) -> None:
        graph = get_default_graph()
        kind = None if dtype is None else as_dtype(dtype).base_dtype
        with name_scope(name, "Variable", [] if callable(initial_value) else [initial_value]) as scope:
            handle_name = scope.rstrip("/")
            # Colocated as the caller asks (an optimizer's slots); otherwise others are colocated with the variable.
            place = {} if graph._scopes.colocation else {"_class": [b"loc:@" + handle_name.encode()]}
            with graph._attr_scope(place):
                with name_scope("Initializer"), device(None):
                    value = initial_value() if callable(initial_value) else initial_value
                    initial = convert_to_tensor(value, kind, name="initial_value")
                _refuse_control_flow(initial, handle_name)
                declared = _declared_shape(initial, validate_shape, shape)
                self._handle: Tensor = apply_one(
                    "VarHandleOp", dtype=initial.dtype.base_dtype, shape=declared, shared_name=handle_name, name=scope
                )
            self._shape = declared
            self._dtype = initial.dtype.base_dtype
            self._initial_value: Tensor | None = initial
            self._caching_device = caching_device
            with name_scope("IsInitialized"):
                self._is_initialized: Tensor | None = apply_one("VarIsInitializedOp", self._handle)
            with name_scope("Assign") as assign_name, device(self._handle.device):
                safe = self._safe_initial_value = guarded(initial)
                self._initializer_op: Operation | None = apply_op(
                    "AssignVariableOp", self._handle, safe, validate_shape=validate_shape, name=assign_name
                )
            with name_scope("Read"), device(self._handle.device):
                self._graph_element: Tensor = self._read()
            self._cached_value: Tensor | None = None
            if caching_device is not None:
                with device(caching_device):
                    self._cached_value = apply_one("Identity", self._graph_element)

    # Properties.

    @property
    def name(self) -> str:
        """Its name, as that of its handle: 'w:0'."""
        return self._source.name if self._eager_name is None else f"{self._eager_name}:0"

    @property
    def _shared_name(self) -> str:
        return self.name[: self.name.index(":")]

    @property
    def op(self) -> Operation:
        """The operation that makes its handle."""
        if self._eager_name is not None:
            return EagerOperation(op_def("VarHandleOp"), (), {}, (self._handle,), self._eager_name)
        return self._source.op

    @property
    def _source(self) -> Tensor:
        """Its tensor in the graph: its handle, or its reference in a graph that TensorFlow 1 wrote."""
        return self._handle if self._reference is None else self._reference

    @property
    def handle(self) -> Tensor:
        """The resource handle."""
        return self._handle

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        return self._handle.graph if self._eager_name is None else eager_graph()

    @property
    def device(self) -> str:
        """The device requested for it."""
        return self._handle.device

    @property
    def dtype(self) -> DType:
        """The type of its elements."""
        return self._dtype

    @property
    def shape(self) -> TensorShape:
        """Its static shape."""
        return self._shape

    def get_shape(self) -> TensorShape:
        """The same as `shape`."""
        return self._shape

    def set_shape(self, shape: Any) -> None:
        """Adds knowledge about the shape."""
        self._shape = self._shape.merge_with(TensorShape(shape))
        if self._eager_name is not None:
            return
        self._graph_element.set_shape(shape)
        self._handle.op._set_attr("shape", self._shape)

    @property
    def ndim(self) -> int | None:
        """The static rank."""
        return self._shape.ndims

    @property
    def trainable(self) -> bool:
        """Whether optimizers change it by default."""
        return self._trainable

    @property
    def synchronization(self) -> VariableSynchronization:
        """When copies are brought together."""
        return self._synchronization

    @property
    def aggregation(self) -> VariableAggregation:
        """How updates of copies are combined."""
        return self._aggregation

    @property
    def constraint(self) -> Callable[[Any], Any] | None:
        """The function that optimizers apply after an update, or None."""
        return self._constraint

    @property
    def initializer(self) -> Operation:
        """The operation that assigns the initial value."""
        return self._initializer_op  # type: ignore[return-value]

    @property
    def create(self) -> Operation:
        """The same as `initializer`."""
        return self.initializer

    @property
    def initial_value(self) -> Tensor | None:
        """The tensor with the initial value. Each step that uses it computes it again."""
        return self._initial_value

    # Its value.

    def _read(self) -> Tensor:
        made = immediate.run("ReadVariableOp", (self._handle,), {"dtype": self._dtype})
        if made is not NotImplemented:
            return made  # type: ignore[no-any-return]
        # TensorFlow's variables are references by default, which are used without a node of their own.
        get_default_graph()._shift_seeds(-1)
        return apply_one("ReadVariableOp", self._handle, dtype=self._dtype)

    def value(self) -> Tensor:
        """A snapshot of the current value."""
        if self._eager_name is not None:
            return self._read()
        if self._cached_value is not None:
            return self._cached_value
        with self._own_device():
            return self._read()

    @contextmanager
    def _own_device(self) -> Iterator[None]:
        """Reads run on the variable's device, not on their reader's: a resource cannot be used elsewhere."""
        graph = get_default_graph()
        if graph._executes or (not self._handle.device and not graph._scopes.colocation):
            yield
            return
        with graph.colocate_with(None, ignore_existing=True), device(self._handle.device):
            yield

    def _updated(self, op: Operation, read_value: bool = True) -> Any:
        if self._eager_name is not None:
            return self if op.graph._executes or not read_value else UpdatedEagerVariable(self, op)
        return UpdatedVariable(self, op) if read_value else op

    def read_value(self) -> Tensor:
        """The value, read after the control dependencies of the place where this is called."""
        if self._eager_name is not None:
            return self._read()
        with name_scope("Read"), device(self._handle.device):
            value = self._read()
        return apply_one("Identity", value)

    def initialized_value(self) -> Tensor:
        """The value if the variable is initialized, and the initial value otherwise: for initializing others with."""
        if self._eager_name is not None:
            return self._read()
        return initialized_value(self)

    def is_initialized(self, name: str | None = None) -> Tensor:
        """Whether it has a value, as a tensor."""
        return apply_one("VarIsInitializedOp", self._handle, name=name)

    def eval(self, session: AnySession | None = None) -> Any:
        """Returns its value in `session`, or in the default session."""
        if self._eager_name is not None:
            raise RuntimeError("Trying to eval in EAGER mode: use numpy().")
        return self._graph_element.eval(session=session)

    def load(self, value: Any, session: AnySession | None = None) -> None:
        """Assigns a NumPy value in `session`, or in the default session, without adding to the graph."""
        if self._eager_name is not None:
            self.assign(value)
            return
        session = session or get_default_session()
        if session is None:
            raise ValueError("Either session argument should be provided or default session should be established")
        session.run(self.initializer, {self.initializer.inputs[1]: value})

    def numpy(self) -> Any:
        """The value as an array: not available in a graph."""
        otherwise = "numpy() is only available when eager execution is enabled. Use eval()."
        if get_default_graph().building_function:
            otherwise = f"The variable '{self.name}' has no `numpy()` in a function that is traced: compute with it."
        return self._eager_value(otherwise).numpy()

    def _eager_value(self, otherwise: str) -> Any:
        """The value of an eager variable, where ops run at once."""
        if self._eager_name is None or not executing_eagerly():
            raise NotImplementedError(otherwise)
        return self._read()

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        """Reads the rows at `indices`."""
        with name_scope(name or "Gather") as scope, self._own_device():
            return apply_one("ResourceGather", self._handle, indices, dtype=self._dtype, name=scope)

    def gather_nd(self, indices: Any, name: str | None = None) -> Tensor:
        """Reads the slices at the positions in the last dimension of `indices`."""
        with name_scope(name or "GatherNd") as scope, self._own_device():
            value = apply_one("ResourceGatherNd", self._handle, indices, dtype=self._dtype, name=scope)
        return apply_one("Identity", value)

    # Conversions.

    def _as_graph_element(self) -> Tensor:
        if self._eager_name is not None:
            raise ValueError(f"Variable '{self.name}' belongs to what runs eagerly: a session cannot fetch or feed it.")
        return self._graph_element

    def _to_tensor(self, dtype: DType | None = None, name: str | None = None, as_ref: bool = False) -> Any:
        if dtype is not None and not dtype.is_compatible_with(self._dtype):
            raise ValueError(
                f"Incompatible type conversion requested to type {dtype.name!r} for variable of type "
                f"{self._dtype.name!r}"
            )
        return self._handle if as_ref else self.value()

    def _AsTensor(self) -> Tensor:
        return self.value()

    def _ref(self) -> Tensor:
        return self._handle

    def _set_save_slice_info(self, save_slice_info: SliceInfo) -> None:
        self._save_slice_info = save_slice_info

    def _get_save_slice_info(self) -> SliceInfo | None:
        return self._save_slice_info

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The VariableDef that names its nodes; None if it lies outside of `export_scope`."""
        return to_variable_def(self, export_scope)

    @staticmethod
    def from_proto(variable_def: Any, import_scope: str | None = None) -> Variable:
        """The variable whose nodes a VariableDef names in the default graph."""
        cls = class_of(variable_def, import_scope) or Variable
        made: Variable = cls(variable_def=variable_def, import_scope=import_scope)
        return made

    def ref(self) -> TensorReference:
        """A hashable stand-in."""
        return TensorReference(self)

    experimental_ref = ref

    def __iter__(self) -> NoReturn:
        raise TypeError("'Variable' object is not iterable.")

    def __bool__(self) -> bool:
        # In a graph an object that is there, as TensorFlow 1's variables: programs write `step or default`.
        return self._eager_name is None or bool(self._eager_value(f"The variable '{self.name}' has no value here."))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        value = self._eager_value(f"Cannot convert the variable '{self.name}' to an array. Use `sess.run(v)`.")
        return value.__array__(dtype, copy)

    def __int__(self) -> int:
        return int(self._eager_value(f"Cannot convert the variable '{self.name}' to an int. Use `sess.run(v)`."))

    def __float__(self) -> float:
        return float(self._eager_value(f"Cannot convert the variable '{self.name}' to a float. Use `sess.run(v)`."))

    def __repr__(self) -> str:
        text = f"<tf.Variable '{self.name}' shape={self._shape} dtype={self._dtype.name}"
        if self._eager_name is None or not executing_eagerly():
            return f"{text}>"
        try:
            return f"{text}, numpy={self.numpy()!r}>"
        except errors.OpError:
            return f"{text}, without a value>"

    def __deepcopy__(self, memo: Any) -> Any:
        if self._eager_name is None:
            raise NotImplementedError("__deepcopy__() is only available when eager execution is enabled.")
        copied = Variable(
            self._read(), trainable=self._trainable, name=f"{self._eager_name}_copy", constraint=self._constraint,
            synchronization=self._synchronization, aggregation=self._aggregation,
        )  # fmt: skip
        memo[id(self)] = copied
        return copied


class UpdatedVariable(Variable):
    """The result of `assign`: the variable after an update. Its value is read after the update."""

    def __init__(self, variable: Variable, update: Operation) -> None:
        """Used by VariableUpdates."""
        self.__dict__.update(variable.__dict__)
        self._update = update
        self._cached_value = None
        with control_dependencies([update]):
            self._graph_element = self._read()

    @property
    def name(self) -> str:
        """The name of the update."""
        return self._update.name

    @property
    def _shared_name(self) -> str:
        return self._handle.op.name

    @property
    def op(self) -> Operation:
        """The update."""
        return self._update

    def value(self) -> Tensor:
        """The value after the update."""
        return self._graph_element

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:  # type: ignore[override]
        """Runs the update in `session`, or in the default session, and returns the value after it."""
        return self._graph_element.eval(feed_dict=feed_dict, session=session)

    def read_value(self) -> Tensor:
        """The value after the update, read again."""
        with control_dependencies([self._update]):
            return super().read_value()


def _after_update(name: str) -> Callable[..., Any]:
    method = getattr(Variable, name)

    @functools.wraps(method)
    def ordered(self: UpdatedVariable, *args: Any, **kwargs: Any) -> Any:
        with control_dependencies([self._update]):
            return method(self, *args, **kwargs)

    return ordered


class UpdatedEagerVariable(Variable):
    """An eager variable after an update in a function: reads in the function come after the update by themselves."""

    def __init__(self, variable: Variable, update: Operation) -> None:
        """Used by VariableUpdates."""
        self.__dict__.update(variable.__dict__)
        self._update = update
        with control_dependencies([update]):
            self._graph_element = self._read()

    @property
    def op(self) -> Operation:
        """The update."""
        return self._update

    def value(self) -> Tensor:
        """The value after the update."""
        return self._graph_element

    def _as_graph_element(self) -> Tensor:
        return self._graph_element


# Updates of an updated variable come after the update. All public updates go through these.
for _name in (
    "_assign", "assign_add", "assign_sub", "count_up_to", "_scatter_rows", "_scatter_nd", "sparse_read", "gather_nd",
    "is_initialized",
):  # fmt: skip
    setattr(UpdatedVariable, _name, _after_update(_name))


def build_eagerly(
    variable: Variable, initial_value: Any, validate_shape: bool, name: str | None, dtype: Any, shape: Any
) -> None:
    """Makes the resource of a variable where ops run at once, and gives it its value.

    The resource has no name in any container: it lives as long as the handle, or what captured it.
    """
    kind = None if dtype is None else as_dtype(dtype).base_dtype
    with name_scope(name, "Variable", [] if callable(initial_value) else [initial_value]) as scope:
        with name_scope("Initializer"), device(None):
            value = initial_value() if callable(initial_value) else initial_value
            initial = convert_to_tensor(value, kind, name="initial_value")
        declared = _declared_shape(initial, validate_shape, shape)
        handle = apply_one("VarHandleOp", dtype=initial.dtype.base_dtype, shape=declared, name=scope)
    apply_op("AssignVariableOp", handle, initial)
    variable._handle = handle
    variable._eager_name = scope.rstrip("/")
    variable._shape = declared
    variable._dtype = initial.dtype.base_dtype
    variable._initial_value = variable._cached_value = variable._caching_device = None
    variable._initializer_op = variable._is_initialized = None
    if variable._trainable:
        handle.trainable_variable = weakref.ref(variable)  # type: ignore[attr-defined]


def _refuse_control_flow(initial: Tensor, name: str) -> None:
    if initial.op._get_control_flow_context() is not None:
        raise ValueError(
            f"Initializer for variable {name}/ is from inside a control-flow construct, such as a loop or conditional. "
            "When creating a variable inside a loop or conditional, use a lambda as the initializer."
        )


def _declared_shape(initial: Tensor, validate_shape: bool, shape: Any) -> TensorShape:
    if shape is not None:
        declared = TensorShape(shape)
        if not initial.shape.is_compatible_with(declared):
            raise ValueError(
                f"The initial value's shape ({initial.shape}) is not compatible with the explicitly supplied `shape` "
                f"argument ({declared})."
            )
        return declared
    if not validate_shape:
        return TensorShape(None)
    if not initial.shape.is_fully_defined():
        raise ValueError(f"initial_value must have a shape specified: {initial!r}")
    return initial.shape


register_tensor_conversion_function(Variable, Variable._to_tensor)

for _key in (*GraphKeys._VARIABLE_COLLECTIONS, GraphKeys.GLOBAL_STEP, GraphKeys.EVAL_STEP):
    if _key != GraphKeys.CONCATENATED_VARIABLES:
        register_proto_function(_key, "variable_pb2.VariableDef", own_to_proto, Variable.from_proto)
