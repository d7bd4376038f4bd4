"""A loop of the graph: the variables that an iteration sets go around with it, under the names of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from thalweg.autograph.iteration import Source
from thalweg.autograph.staged_list import StagedList
from thalweg.autograph.state import UNDEFINED, Record, Slot, record, restore
from thalweg.autograph.values import (
    StagedTypeError,
    StagedValueError,
    StagingError,
    as_condition,
    as_staged,
    as_symbolic,
    can_be_staged,
    kind_of,
    place,
    same_constant,
)
from thalweg.control_flow import structures
from thalweg.control_flow.scoping import in_context
from thalweg.control_flow.while_context import WhileContext
from thalweg.control_flow.while_loop import while_loop
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape


class Leaf(NamedTuple):
    """A value within the value of a variable that goes around the loop."""

    name: str
    value: Any


class StagedLoop:
    """One loop while it is built."""

    def __init__(
        self, kept: Sequence[Slot], local: Sequence[Slot], grown: Sequence[str], options: dict[str, Any]
    ) -> None:
        """Takes the variables that go around, those that only an iteration uses, and lists that may grow."""
        self._kept = list(kept)
        self._local = local
        self._slots = [*kept, *local]
        self._options = dict(options)
        for slot in kept:
            if slot.name in grown and type(slot.read()) is list:
                slot.write(StagedList(slot.read()))
        self._before = record(self._slots)
        self._late = [slot for slot in kept if slot.read() is UNDEFINED]
        self._carried = [slot for slot in kept if slot.read() is not UNDEFINED]
        for slot in self._late:
            if not slot.is_generated:
                raise StagedValueError(
                    f"'{slot.name}' is set in a loop and used after it, or in the next iteration, but has no value if "
                    f"the loop does not run, or not yet: the number of iterations is known in a step only. Give it a "
                    f"value before the loop.{place()}"
                )
        self._entry = record(self._carried)
        self._leaves = [leaf for s, r in zip(self._carried, self._entry, strict=True) for leaf in _leaves(s.name, r)]
        self._staged = [leaf for leaf in self._leaves if can_be_staged(leaf.value)]
        self._names = [leaf.name for leaf in self._staged]
        self._context: Any = None
        self._late_records: list[Record] = []

    def run(
        self,
        test: Callable[[], Any] | None,
        body: Callable[..., Any],
        source: Source | None = None,
        first_test: Tensor | None = None,
    ) -> None:
        """Builds the loop, and gives the variables their values after it.

        Args:
            test: The condition; a tensor, or a Python value.
            body: The body; it takes the element if there is a source.
            source: What the loop goes over.
            first_test: The condition's value for the first iteration, if it shall be evaluated at the end of each
                iteration, and not at the beginning.
        """
        hidden = [] if source is None else source.start()
        extra = [] if first_test is None else [first_test]
        values = [as_staged(leaf.value) for leaf in self._staged]
        options = self._loop_options(values, len(extra) + len(hidden))
        graph = get_default_graph()
        try:
            result = while_loop(
                lambda *state: self._condition(test, source, state, len(extra), len(hidden)),
                lambda *state: self._body(test, body, source, state, len(extra), len(hidden), graph),
                [*extra, *hidden, *values],
                return_same_structure=True,
                **options,
            )
        except BaseException:
            restore(self._slots, self._before)
            raise
        restore(self._slots, self._before)
        self._assign(result[len(extra) + len(hidden) :])
        self._assign_late()

    # The state of the variables.

    def _assign(self, tensors: Sequence[Any]) -> None:
        """Gives the variables the values that go around, in the structures that they had before the loop."""
        rest = iter(tensors)
        for slot, entry in zip(self._carried, self._entry, strict=True):
            slot.write(_packed(entry, rest))

    def _condition(self, test: Any, source: Source | None, state: Sequence[Any], extra: int, hidden: int) -> Any:
        if extra:
            return state[0]
        self._assign(state[hidden:])
        going_on = None if source is None else source.more(list(state[:hidden]))
        if test is None:
            return going_on
        value = test()
        tensor = as_symbolic(value)
        condition = convert_to_tensor(bool(value)) if tensor is None else as_condition(tensor, "a loop")
        return condition if going_on is None else apply_one("LogicalAnd", going_on, condition)

    def _body(
        self, test: Any, body: Any, source: Source | None, state: Sequence[Any], extra: int, hidden: int, graph: Any
    ) -> list[Any]:
        self._context = graph._get_control_flow_context()
        for slot, before in zip(self._slots, self._before, strict=True):
            if slot not in self._carried:
                slot.write(before.restore())
        self._assign(state[extra + hidden :])
        own = list(state[extra : extra + hidden])
        try:
            if source is None:
                body()
            else:
                body(source.item(own))
                own = source.next(own)
        except (TypeError, ValueError) as e:
            self._explain(e, state[extra + hidden :])
            raise
        again: list[Any] = []
        if extra:
            assert test is not None
            value = test()
            tensor = as_symbolic(value)
            again = [convert_to_tensor(bool(value)) if tensor is None else as_condition(tensor, "a loop")]
        self._late_records = record(self._late)
        values = self._values_after(state[extra + hidden :])
        return [*again, *own, *values]

    def _explain(self, error: Exception, state: Sequence[Any]) -> None:
        """Adds to an error in the body which of Python's numbers are tensors in the loop."""
        changed = [
            f"'{leaf.name}' ({leaf.value!r} before the loop) is a tensor of type {value.dtype.base_dtype.name}"
            for leaf, value in zip(self._staged, state, strict=True)
            if isinstance(leaf.value, (int, float)) and not leaf.name.startswith("ag__")
        ]
        if changed and not isinstance(error, StagingError):
            error.add_note(f"In a loop of the graph, {', '.join(changed)}.")

    def _values_after(self, state: Sequence[Any]) -> list[Any]:
        """The values that go into the next iteration, checked against those of this one."""
        after: list[Leaf] = []
        for slot, entry in zip(self._carried, self._entry, strict=True):
            now = Record(slot.read())
            _check_structure(slot.described(), entry, now)
            after += _leaves(slot.name, now)
        rest = iter(state)
        result = []
        for before, leaf in zip(self._leaves, after, strict=True):
            if not can_be_staged(before.value):
                if not same_constant(before.value, leaf.value):
                    raise StagedTypeError(
                        f"'{leaf.name}' is {kind_of(before.value)} before the loop and {kind_of(leaf.value)} after an "
                        f"iteration: only tensors can change in a loop of the graph.{place()}"
                    )
                continue
            carried = next(rest)
            if not can_be_staged(leaf.value):
                raise StagedTypeError(
                    f"'{leaf.name}' is {kind_of(before.value)} before the loop and {kind_of(leaf.value)} after an "
                    f"iteration, which a loop of the graph cannot carry.{place()}"
                )
            value = as_staged(leaf.value, getattr(carried, "dtype", None))
            self._check(leaf.name, before.value, carried, value)
            result.append(value)
        return result

    def _check(self, name: str, before: Any, carried: Any, value: Any) -> None:
        if type(carried) is not type(value) and not (isinstance(carried, Tensor) and isinstance(value, Tensor)):
            raise StagedTypeError(
                f"'{name}' is {kind_of(carried)} before the loop and {kind_of(value)} after an iteration.{place()}"
            )
        if carried.dtype.base_dtype is not value.dtype.base_dtype:
            hint = ""
            if not isinstance(before, Tensor):
                hint = f" Start with a tensor of that type, such as tf.constant({before!r}, tf.{value.dtype.name})."
            raise StagedTypeError(
                f"'{name}' has type {carried.dtype.base_dtype.name} before the loop, but type "
                f"{value.dtype.base_dtype.name} after an iteration: a variable of a loop of the graph keeps its "
                f"type.{hint}{place()}"
            )
        if isinstance(value, Tensor) and not _within(value.shape, carried.shape):
            raise StagedValueError(
                f"'{name}' has shape {carried.shape} before the loop, but shape {value.shape} after an iteration: a "
                "variable of a loop of the graph keeps its shape, unless the loop begins with "
                f"tf.autograph.experimental.set_loop_options(shape_invariants=[({name}, tf.TensorShape(...))])"
                f"{place()}"
            )

    def _loop_options(self, values: Sequence[Any], hidden: int) -> dict[str, Any]:
        options = {key: value for key, value in self._options.items() if value is not None}
        given = options.pop("shape_invariants", None) or []
        invariants: list[Any] = []
        for leaf, value in zip(self._staged, values, strict=True):
            shape = next((shape for each, shape in given if each is leaf.value), None)
            own = value.dense_shape.shape if hasattr(value, "dense_shape") else getattr(value, "shape", None)
            invariants.append(TensorShape(own if shape is None else shape))
        if given:
            options["shape_invariants"] = [*[TensorShape([])] * hidden, *invariants]
        return options

    def _assign_late(self) -> None:
        """Gives results that only iterations set their values: nobody reads them if none was run."""
        for slot, found in zip(self._late, self._late_records, strict=True):
            slot.write(UNDEFINED if found.value is UNDEFINED else self._last(found))

    def _last(self, found: Record) -> Any:
        if found.parts is not None:
            return found.rebuilt([self._last(part) for part in found.parts])
        if not can_be_staged(found.value):
            return found.value
        context: WhileContext = self._context
        with in_context(context.graph, context):
            staged = [as_staged(found.value)]
            tensors = [context.capture(tensor) for tensor in structures.flatten(staged)]
        exits = []
        for tensor in tensors:
            with in_context(context.graph, context.outer_context):
                initial = _blank(tensor)
            exits.append(context.add_variable(initial, lambda _, value=tensor: value, tensor.shape).exit)  # type: ignore[misc]
        return structures.pack_as(staged, exits)[0]


def _blank(tensor: Tensor) -> Tensor:
    dtype = tensor.dtype.base_dtype
    shape = [0 if d is None else d for d in tensor.shape.dims_tuple or ()]
    value = np.full(shape, b"", object) if dtype.name == "string" else np.zeros(shape, dtype.as_numpy_dtype)
    return convert_to_tensor(value, dtype)


def _leaves(name: str, found: Record) -> list[Leaf]:
    """The values in a variable; the parts of lists and dicts have names like `a[0]`."""
    if isinstance(found.value, StagedList):
        return [Leaf(name, each) for each in (found.keys or [()])[0]]
    if found.parts is None:
        return [Leaf(name, found.value)]
    keys = found.keys or range(len(found.parts))
    return [leaf for key, part in zip(keys, found.parts, strict=True) for leaf in _leaves(f"{name}[{key!r}]", part)]


def _packed(entry: Record, rest: Any) -> Any:
    """A value with the structure of a record, and tensors in the place of those that can be staged."""
    if isinstance(entry.value, StagedList):
        entry.value.set_content((next(rest), next(rest)))
        return entry.value
    if entry.parts is not None:
        return entry.rebuilt([_packed(part, rest) for part in entry.parts])
    return next(rest) if can_be_staged(entry.value) else entry.value


def _check_structure(name: str, entry: Record, now: Record) -> None:
    if now.value is UNDEFINED:
        raise StagedValueError(f"{name} has a value before the loop, but is deleted in it.{place()}")
    if isinstance(entry.value, StagedList) or entry.parts is None:
        if now.parts is not None or (isinstance(entry.value, StagedList) and now.value is not entry.value):
            if not (can_be_staged(entry.value) or now.value is entry.value):
                _refuse_structure(name, entry, now)
            if now.parts is not None:
                _refuse_structure(name, entry, now)
        return
    same = now.parts is not None and type(entry.value) is type(now.value) and len(entry.parts) == len(now.parts)
    if not same or (entry.keys is not None and entry.keys != now.keys):
        _refuse_structure(name, entry, now)
    keys = entry.keys or range(len(entry.parts))
    for key, old, new in zip(keys, entry.parts, now.parts or (), strict=True):
        _check_structure(f"{name}[{key!r}]", old, new)


def _refuse_structure(name: str, entry: Record, now: Record) -> None:
    def text(each: Record) -> str:
        return (
            kind_of(each.value)
            if each.parts is None
            else f"a {type(each.value).__name__} of {len(each.parts)} elements"
        )

    hint = "" if type(entry.value) is not list else " To make a list longer in a loop, use its append."
    raise StagedTypeError(
        f"{name} is {text(entry)} before the loop, but {text(now)} after an iteration: a variable of a loop of the "
        f"graph keeps its structure.{hint}{place()}"
    )


def _within(shape: TensorShape, wanted: TensorShape) -> bool:
    """Whether a shape says at least as much as another one."""
    if wanted.dims_tuple is None:
        return True
    dims = shape.dims_tuple
    if dims is None or len(dims) != len(wanted.dims_tuple):
        return False
    return all(w is None or w == d for w, d in zip(wanted.dims_tuple, dims, strict=True))
