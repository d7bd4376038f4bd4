"""train.Optimizer: from a loss to an operation that changes variables. Optimizers derive from it, a file each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from thalweg.autodiff.gradients import gradients
from thalweg.eager.mode import executing_eagerly_outside_functions
from thalweg.eager.tape import GradientTape
from thalweg.graph import dtypes, nest
from thalweg.graph.apply import apply, apply_one, apply_op
from thalweg.graph.collections import GraphKeys
from thalweg.graph.composite import IndexedSlices, convert_to_tensor_or_indexed_slices
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import (
    colocate_with,
    control_dependencies,
    eager_graph,
    executing_eagerly,
    get_collection,
    get_collection_ref,
    get_default_graph,
    name_scope,
)
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType
from thalweg.graph.eager_tensor import EagerTensor
from thalweg.graph.func_graph import outermost
from thalweg.graph.marks import DISTINCT
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.array import constants
from thalweg.state.embedding_variable import EmbeddingVariable, TableSlot
from thalweg.state.variable import Variable
from thalweg.state.variable_lists import trainable_variables
from thalweg.train.optimizers import slots

Gradient = Any  # A Tensor, an IndexedSlices, or None.
GradsAndVars = list[tuple[Gradient, Any]]


@export("train.Optimizer")
class Optimizer:
    """The base class of optimizers.

    `minimize` is `compute_gradients` followed by `apply_gradients`; call the two yourself to change gradients between.

    A new optimizer defines `_resource_apply_dense`, for variables that get it `_resource_apply_sparse`, and, if it
    needs them, `_create_slots` (state beside each variable), `_prepare` (hyperparameters to tensors) and `_finish`.
    Those written for reference variables (`_apply_dense`, `_apply_sparse`) work as well. docs/write_an_optimizer.md
    shows one.
    """

    GATE_NONE = 0
    GATE_OP = 1
    GATE_GRAPH = 2

    def __init__(self, use_locking: bool, name: str) -> None:
        """Must be called by subclasses.

        Args:
            use_locking: Stored in the nodes, without effect: every update is atomic.
            name: The name scope of the updates.

        Raises:
            ValueError: If there is no name.
        """
        if not name:
            raise ValueError("Must specify the optimizer name")
        self._use_locking = use_locking
        self._name = name
        self._slots: dict[str, dict[Any, Any]] = {}
        self._non_slot_dict: dict[Any, Any] = {}
        self._numbers: dict[str, tuple[float, Tensor]] = {}  # Hyperparameters as eager tensors.

    def __repr__(self) -> str:
        shown = [f"{key[1:]}={value!r}" for key, value in vars(self).items() if _is_shown(key, value)]
        slots = f", slots {', '.join(self._slots)}" if self._slots else ""
        return f"<tf.train.{type(self).__name__} {self._name!r}{''.join(f', {each}' for each in shown)}{slots}>"

    def get_name(self) -> str:
        """The name given to the constructor."""
        return self._name

    def minimize(
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Any:
        """Returns an operation that makes `loss` smaller by changing variables.

        Args:
            loss: The tensor to minimize, or a function that returns it.
            global_step: A variable to be incremented after the update.
            var_list: The variables to change; all trainable ones if None.
            gate_gradients: How far the computation of gradients may overlap with their use: GATE_NONE, GATE_OP (all
                gradients of an op before any is used) or GATE_GRAPH (all gradients before any is used).
            aggregation_method: How gradients of one tensor are added: a constant of `tf.AggregationMethod`.
            colocate_gradients_with_ops: Whether the gradient of an op is placed beside it.
            name: The name of the operation.
            grad_loss: A gradient of `loss` to start from.

        Raises:
            ValueError: If no variable gets a gradient, or an argument is wrong.
        """
        # By name, as TensorFlow does: programs override the two methods with fewer arguments.
        grads_and_vars = self.compute_gradients(
            loss,
            var_list=var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            grad_loss=grad_loss,
        )
        if all(grad is None for grad, _ in grads_and_vars):
            names = [str(var) for _, var in grads_and_vars]
            raise ValueError(
                "No gradients provided for any variable, check your graph for ops that do not support gradients, "
                f"between variables {names} and loss {loss}."
            )
        return self.apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def compute_gradients(
        self,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> GradsAndVars:
        """Returns (gradient, variable) pairs; the gradient is None where `loss` does not depend on the variable.

        The arguments are those of `minimize`.
        """
        if gate_gradients not in (Optimizer.GATE_NONE, Optimizer.GATE_OP, Optimizer.GATE_GRAPH):
            raise ValueError(
                "gate_gradients must be one of: Optimizer.GATE_NONE, Optimizer.GATE_OP, Optimizer.GATE_GRAPH. "
                f"Not {gate_gradients}"
            )
        if executing_eagerly_outside_functions():
            return self._compute_with_tape(loss, var_list, grad_loss)
        if callable(loss):
            loss = loss()
        self._assert_valid_dtypes([loss])
        if grad_loss is not None:
            self._assert_valid_dtypes([grad_loss])
        if var_list is None:
            variables = trainable_variables() + get_collection(GraphKeys.TRAINABLE_RESOURCE_VARIABLES)
        else:
            variables = nest.flatten(var_list)
        variables = list({id(var): var for var in variables}.values())
        if not variables:
            raise ValueError("No variables to optimize.")
        for var in variables:
            if not isinstance(var, (Variable, Tensor)):
                raise NotImplementedError("Trying to optimize unsupported type ", var)
        grads = gradients(
            loss,
            variables,
            grad_ys=grad_loss,
            gate_gradients=gate_gradients == Optimizer.GATE_OP,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
        )
        if gate_gradients == Optimizer.GATE_GRAPH and any(grad is not None for grad in grads):
            grads = constants.tuple(grads)
        pairs = list(zip(grads, variables, strict=True))
        self._assert_valid_dtypes([v for g, v in pairs if g is not None and v.dtype.base_dtype is not dtypes.resource])
        return pairs

    def _compute_with_tape(self, loss: Any, var_list: Any, grad_loss: Any) -> GradsAndVars:
        """The same where ops run at once, and in functions that are called from there."""
        if not callable(loss):
            if executing_eagerly():
                raise RuntimeError(
                    "`loss` passed to Optimizer.compute_gradients should be a function when eager execution is enabled."
                )
            if var_list is None:
                raise ValueError("Within a function, compute_gradients needs a function as `loss`, or a `var_list`.")
            variables = nest.flatten(var_list)
            return list(zip(gradients(loss, variables, grad_ys=grad_loss), variables, strict=True))
        with GradientTape() as tape:
            if var_list is not None:
                tape.watch(var_list)
            value = loss()
            variables = list(tape.watched_variables()) if var_list is None else nest.flatten(var_list)
        self._assert_valid_dtypes([value])
        if not variables:
            raise ValueError("No variables to optimize.")
        grads = tape.gradient(value, variables, None if grad_loss is None else [grad_loss])
        return list(zip(grads, variables, strict=True))

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Returns an operation that applies gradients to variables.

        Args:
            grads_and_vars: Pairs, as from `compute_gradients`. Variables whose gradient is None stay as they are.
            global_step: A variable to be incremented after the update.
            name: The name of the operation; that of the optimizer if None.

        Raises:
            TypeError: If a gradient is neither a tensor nor IndexedSlices nor None.
            ValueError: If there is no variable, or no gradient at all.
        """
        pairs = [(_checked(grad), var) for grad, var in grads_and_vars]
        if not pairs:
            raise ValueError("No variables provided.")
        changed = [var for grad, var in pairs if grad is not None]
        if not changed:
            raise ValueError(f"No gradients provided for any variable: {[str(var) for _, var in pairs]}.")
        if global_step is not None and not isinstance(global_step, Variable):
            raise TypeError(f"global_step must be a variable, got {global_step!r}.")
        if executing_eagerly():
            self._apply_at_once([pair for pair in pairs if pair[0] is not None], global_step, name)
            return None
        # Slots outlive the branch or loop, and the control dependencies, of the place where this is called.
        with control_dependencies(None):
            self._create_slots(changed)
        with name_scope(name, self._name) as scope:
            self._prepare()
            updates = []
            for grad, var in pairs:
                if grad is not None:
                    with name_scope("update_" + var.op.name), colocate_with(var):
                        updates.append(self._update(grad, var))
            if global_step is None:
                train_op = self._finish(updates, scope)
            else:
                with control_dependencies([self._finish(updates, "update")]), colocate_with(global_step):
                    train_op = _increment(global_step, scope)
        train_op = getattr(train_op, "op", train_op)
        collected = get_collection_ref(GraphKeys.TRAIN_OP)
        if train_op not in collected:
            collected.append(train_op)
        return train_op

    def _apply_at_once(self, pairs: GradsAndVars, global_step: Any, name: str | None) -> None:
        """The same where ops run at once, in the order of the pairs."""
        self._create_slots([var for _, var in pairs])
        with name_scope(name, self._name) as scope:
            self._prepare()
            self._finish([self._update(grad, var) for grad, var in pairs], scope)
            if global_step is not None:
                _increment(global_step, scope)

    def _update(self, grad: Gradient, var: Any) -> Any:
        """The operation that applies one gradient, in the form that the subclass has."""
        if not isinstance(var, Variable):
            raise NotImplementedError("Trying to update a Tensor ", var)
        if isinstance(var, EmbeddingVariable):
            return self._update_table(grad, var)
        if isinstance(grad, IndexedSlices):
            if var.constraint is not None:
                raise RuntimeError("Cannot use a constraint function on a sparse variable.")
            if self._updates_references_only("sparse"):
                return self._apply_sparse_duplicate_indices(grad, var)
            return self._resource_apply_sparse_duplicate_indices(grad.values, var, grad.indices)
        update = self._apply_dense if self._updates_references_only("dense") else self._resource_apply_dense
        op = update(grad, var)
        if var.constraint is None:
            return op
        with control_dependencies([op]):
            return var.assign(var.constraint(var), read_value=False)

    def _update_table(self, grad: Gradient, var: EmbeddingVariable) -> Any:
        """Rows of an embedding variable; the op that updates them sums gradients of equal ids."""
        if not isinstance(grad, IndexedSlices):
            raise NotImplementedError(f"The embedding variable {var.op.name} cannot be updated as a whole.")
        if any(not isinstance(slot, TableSlot) for slot in self._slots_of(var)):
            raise NotImplementedError(f"{type(self).__name__} keeps slots that do not fit into rows of {var.op.name}.")
        return self._resource_apply_sparse(grad.values, var, grad.indices)

    def _slots_of(self, var: Any) -> list[Any]:
        return [named[_key(var)] for named in self._slots.values() if _key(var) in named]

    def _updates_references_only(self, kind: str) -> bool:
        """Whether the most derived class with update methods has them for reference variables only."""
        ending = f"apply_{kind}"
        for cls in type(self).__mro__:
            defined = [name for name in vars(cls) if ending in name]
            if defined:
                return not any(name.startswith("_resource_") for name in defined)
        return False

    # Methods that subclasses define or use.

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        """Creates the slots of the variables; called once for each `apply_gradients`."""

    def _prepare(self) -> None:
        """Makes tensors of the hyperparameters; called within the optimizer's name scope."""

    def _finish(self, update_ops: Sequence[Any], name_scope: str) -> Any:
        """Returns the operation of that name that is done when all updates are."""
        return constants.group(*update_ops, name=name_scope)

    def _resource_apply_dense(self, grad: Tensor, handle: Any) -> Any:
        """Returns an operation that updates the variable `handle` by a gradient of its shape."""
        raise NotImplementedError(f"{type(self).__name__} does not define _resource_apply_dense (or _apply_dense).")

    def _resource_apply_sparse(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        """Returns an operation that updates the rows `indices`, all different, of the variable `handle`."""
        raise NotImplementedError(f"{type(self).__name__} does not define _resource_apply_sparse (or _apply_sparse).")

    def _resource_apply_sparse_duplicate_indices(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        """The same for rows that may be named several times: sums them, and calls `_resource_apply_sparse`."""
        if has_distinct_elements(indices):
            return self._resource_apply_sparse(grad, handle, indices)
        # Beside the gradient and not beside the variable: if these are on different tasks, the sums travel.
        with colocate_with(grad, ignore_existing=True):
            summed, unique = deduplicate(grad, indices)
        return self._resource_apply_sparse(summed, handle, unique)

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        """As `_resource_apply_dense`, in optimizers written for reference variables."""
        return self._resource_apply_dense(grad, var)

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        """As `_resource_apply_sparse`, in optimizers written for reference variables."""
        return self._resource_apply_sparse(grad.values, var, grad.indices)

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Any) -> Any:
        """As `_resource_apply_sparse_duplicate_indices`, in optimizers written for reference variables."""
        summed, unique = deduplicate(grad.values, grad.indices)
        return self._apply_sparse(IndexedSlices(summed, unique, grad.dense_shape), var)

    def _resource_scatter_add(self, x: Any, i: Any, v: Any) -> Tensor:
        """Adds the rows `v` to the rows `i` of the variable `x`, and returns its value afterwards."""
        with control_dependencies([apply_op("ResourceScatterAdd", x.handle, i, v)]):
            tensor: Tensor = x.value()
            return tensor

    def _call_if_callable(self, param: Any) -> Any:
        """A hyperparameter; if it is a function, its result."""
        return param() if callable(param) else param

    def _tensor_of(self, param: Any, name: str) -> Tensor:
        """A hyperparameter as a tensor."""
        if type(param) is not float or not executing_eagerly():
            tensor: Tensor = convert_to_tensor(self._call_if_callable(param), name=name)
            return tensor
        found = self._numbers.get(name)
        if found is None or found[0] is not param:
            found = self._numbers[name] = (param, convert_to_tensor(param))
        return found[1]

    def _valid_dtypes(self) -> set[DType]:
        """The types of losses and variables that the optimizer can work with."""
        return {dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64}

    def _assert_valid_dtypes(self, tensors: Iterable[Any]) -> None:
        valid = self._valid_dtypes()
        for t in tensors:
            dtype = convert_to_tensor(t).dtype.base_dtype if not hasattr(t, "dtype") else t.dtype.base_dtype
            if dtype not in valid:
                names = ", ".join(sorted(v.name for v in valid))
                label = getattr(t, "name", t)
                raise ValueError(f"Invalid type {dtype.name} for {label}, expected: {names}.")

    # State.

    def get_slot(self, var: Any, name: str) -> Any:
        """The slot `name` of a variable; None if there is none."""
        return self._slots.get(name, {}).get(_key(var))

    def get_slot_names(self) -> list[str]:
        """The names of the slots that exist."""
        return sorted(self._slots)

    def variables(self) -> list[Any]:
        """All variables that the optimizer keeps in the default graph, by name."""
        graph = _home()
        kept = [*self._non_slot_dict.values(), *(slot for named in self._slots.values() for slot in named.values())]
        own = (var for var in kept if var.op.graph is graph and not isinstance(var, TableSlot))
        return sorted(own, key=lambda var: str(var.name))

    def _slot_dict(self, slot_name: str) -> dict[Any, Any]:
        return self._slots.setdefault(slot_name, {})

    def _slot(self, var: Any, slot_name: str, create: Callable[[], Any]) -> Any:
        named, key = self._slot_dict(slot_name), _key(var)
        if key not in named:
            named[key] = create()
        return named[key]

    def _get_or_make_slot(self, var: Any, val: Any, slot_name: str, op_name: str) -> Any:
        """The slot of a variable; created with the value `val` if it does not exist."""
        return self._slot(var, slot_name, lambda: slots.create_slot(var, val, op_name))

    def _get_or_make_slot_with_initializer(
        self, var: Any, initializer: Any, shape: Any, dtype: Any, slot_name: str, op_name: str
    ) -> Any:
        """The slot of a variable; created with the value `initializer(shape, dtype)` if it does not exist."""
        return self._slot(
            var, slot_name, lambda: slots.create_slot_with_initializer(var, initializer, shape, dtype, op_name)
        )

    def _zeros_slot(self, var: Any, slot_name: str, op_name: str) -> Any:
        """The slot of a variable; created as zeros if it does not exist."""
        return self._slot(var, slot_name, lambda: slots.create_zeros_slot(var, op_name))

    def _create_non_slot_variable(self, initial_value: Any, name: str, colocate_with: Any) -> Any:
        """A variable that belongs to no variable, such as a power of a decay; created if it does not exist."""
        key = (name, _home())
        if key not in self._non_slot_dict:
            with get_default_graph().colocate_with(colocate_with):
                self._non_slot_dict[key] = Variable(initial_value, name=name, trainable=False)
        return self._non_slot_dict[key]

    def _get_non_slot_variable(self, name: str, graph: Any = None) -> Any:
        """The variable that `_create_non_slot_variable` made; None if there is none."""
        return self._non_slot_dict.get((name, _home() if graph is None else graph))

    def _non_slot_variables(self) -> list[Any]:
        return list(self._non_slot_dict.values())


def deduplicate(values: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """Sums the rows that have the same index; returns the sums and the different indices."""
    unique = apply("Unique", indices)
    count = apply_one("StridedSlice", apply_one("Shape", unique.y), [0], [1], [1], shrink_axis_mask=1)
    return apply_one("UnsortedSegmentSum", values, unique.idx, count), unique.y


def has_distinct_elements(indices: Tensor) -> bool:
    """Whether indices are known to be all different: those of one look-up of unique ids."""
    if isinstance(indices, EagerTensor):
        return False
    while indices.op.type in ("Identity", "Reshape"):
        indices = indices.op.inputs[0]
    return (indices.op.type == "Unique" and indices.value_index == 0) or DISTINCT in indices.op.attrs


def _key(var: Any) -> Any:
    if isinstance(var, Variable) and var._eager_name is not None:
        return (eager_graph(), var.handle)  # Their names need not differ.
    return (var.op.graph, var.op.name)


def _home() -> Any:
    """The graph to which variables belong that are created now."""
    graph = get_default_graph()
    around = outermost(graph)
    return around if around._executes else graph


def _checked(grad: Any) -> Gradient:
    if grad is None:
        return None
    try:
        converted = convert_to_tensor_or_indexed_slices(grad)
    except (TypeError, ValueError) as e:
        raise TypeError(f"Gradient must be convertible to a Tensor or IndexedSlices, or None: {grad}") from e
    if not isinstance(converted, (Tensor, IndexedSlices)):
        raise TypeError(f"Gradient must be a Tensor, IndexedSlices, or None: {converted}")
    return converted


def _increment(global_step: Any, name: str) -> Operation:
    one = convert_to_tensor(1, global_step.dtype.base_dtype, name="Const")
    return apply_op("AssignAddVariableOp", global_step.handle, one, name=name)


def _is_shown(key: str, value: Any) -> bool:
    """Whether an attribute of an optimizer is one of its hyperparameters, as a number."""
    return key[:1] == "_" and type(value) in (int, float, bool) and key != "_use_locking"
