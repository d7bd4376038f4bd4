"""A conditional of the graph: both branches are traced, and the variables that they set become its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from thalweg.autograph.staged_list import StagedList
from thalweg.autograph.state import UNDEFINED, Record, Slot, record, restore
from thalweg.autograph.values import (
    StagedTypeError,
    StagedValueError,
    as_condition,
    as_staged,
    can_be_staged,
    kind_of,
    place,
    same_constant,
)
from thalweg.control_flow import structures
from thalweg.control_flow.cond import open_conditional
from thalweg.control_flow.cond_context import CondContext
from thalweg.graph import dtypes
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.tensor import Tensor


def staged_if(
    predicate: Tensor,
    then: Callable[[], Any],
    otherwise: Callable[[], Any] | None,
    kept: Sequence[Slot],
    local: Sequence[Slot],
    what: str = "`if`",
) -> None:
    """Traces both branches; the slots in `kept` get the merged values, those in `local` keep what they had.

    Raises:
        StagedValueError: If a variable that is used later gets a value on one path only.
        StagedTypeError: If the values of the two branches do not fit together.
    """
    slots = [*kept, *local]
    before = record(slots)
    with name_scope(None, "if", [predicate]) as scope:
        if_true, if_false, conditional = open_conditional(as_condition(predicate, what), scope)
        branches = (if_false, if_true)
        ends: list[list[Record]] = []
        for context, function in ((if_true, then), (if_false, otherwise)):
            try:
                with context:
                    if function is not None:
                        function()
                ends.append(record(kept))
            finally:
                restore(slots, before)
        merging = _Merging(branches, conditional)
        for slot, at_true, at_false, old in zip(kept, *ends, before, strict=False):
            slot.write(merging.value(slot, slot.described(), at_false, at_true, old))


class _Merging:
    def __init__(self, branches: tuple[CondContext, CondContext], conditional: Any) -> None:
        self._branches = branches
        self._conditional = conditional

    def value(self, slot: Slot, name: str, at_false: Record, at_true: Record, old: Record | None = None) -> Any:
        """One value of the values at the ends of the two branches."""
        first, second = at_true.value, at_false.value
        if isinstance(first, StagedList) is not isinstance(second, StagedList) and list in (type(first), type(second)):
            return self._list_and_staged_list(name, at_false, at_true)
        if first is UNDEFINED or second is UNDEFINED:
            return self._where_undefined(slot, name, at_false, at_true)
        if isinstance(first, StagedList) or isinstance(second, StagedList):
            return self._lists(name, at_false, at_true)
        if at_true.parts is None and at_false.parts is None:
            if type(first) is set and first is second and at_true.keys != at_false.keys:
                raise self._differ(name, "sets with different elements", "")
            return first if at_true.keys is None and same_constant(first, second) else self._leaf(name, first, second)
        if (
            at_true.parts is None
            or at_false.parts is None
            or type(first) is not type(second)
            or len(at_true.parts) != len(at_false.parts)
            or set(at_true.keys or ()) != set(at_false.keys or ())
        ):
            raise self._differ(name, "", "", at_true, at_false)
        others = at_false.parts
        if at_true.keys is not None and at_false.keys is not None:
            others = [others[at_false.keys.index(key)] for key in at_true.keys]
        keys = at_true.keys or range(len(others))
        parts = [
            self.value(slot, f"{name}[{key!r}]", f, t) for key, f, t in zip(keys, others, at_true.parts, strict=True)
        ]
        if isinstance(first, tuple) and all(p is t.value for p, t in zip(parts, at_true.parts, strict=True)):
            return first
        return at_true.rebuilt(parts) if first is second or isinstance(first, tuple) else _new(at_true, parts)

    def _differ(self, name: str, first: str, second: str, *records: Record) -> StagedTypeError:
        if records:
            first, second = (_described(each) for each in records)
        hint = " Return a value on both paths." if "None" in (first, second) else ""
        return StagedTypeError(
            f"{name} is {first} if the condition holds, and {second} if not: both branches of a condition that is a "
            f"tensor must give it one type and structure.{hint}{place()}"
        )

    def _where_undefined(self, slot: Slot, name: str, at_false: Record, at_true: Record) -> Any:
        if at_false.value is at_true.value:
            return UNDEFINED
        if not slot.is_generated:
            missing = "not" if at_false.value is UNDEFINED else "is true"
            missing = "is false" if missing == "not" else missing
            raise StagedValueError(
                f"{name} has no value if the condition {missing}, but is used later: the condition is a tensor, so "
                f"that both branches must set it. Give it a value before the `if`, or in the other branch.{place()}"
            )
        defined = at_true if at_false.value is UNDEFINED else at_false
        context = self._branches[0] if defined is at_true else self._branches[1]
        return self._filled(slot, defined, context)

    def _filled(self, slot: Slot, defined: Record, context: CondContext) -> Any:
        """The result of a function that has returned on one path: on the other one something that nobody reads."""
        if defined.parts is not None:
            return _new(defined, [self._filled(slot, part, context) for part in defined.parts])
        value = defined.value
        if not can_be_staged(value):
            return value
        with self._branches[1 - context.branch]:
            staged = as_staged(value)
        with context:
            other = structures.pack_as([staged], [_blank(part) for part in structures.flatten([staged])])[0]
        at_true = context.branch == 0
        return self._merged(*((other, staged) if at_true else (staged, other)))

    def _lists(self, name: str, at_false: Record, at_true: Record) -> Any:
        if type(at_true.value) is not StagedList or at_true.value is not at_false.value:
            raise self._differ(name, kind_of(at_true.value), kind_of(at_false.value))
        states: list[Any] = [(each.keys or [()])[0] for each in (at_false, at_true)]
        if states[0] is not states[1]:
            at_true.value.set_content(tuple(self._merged(f, t) for f, t in zip(*states, strict=True)))
        return at_true.value

    def _list_and_staged_list(self, name: str, at_false: Record, at_true: Record) -> StagedList:
        """One branch has a list of Python, the other one that a loop in it has made one of the graph."""
        staged = at_true if isinstance(at_true.value, StagedList) else at_false
        plain, context = (at_false, self._branches[0]) if staged is at_true else (at_true, self._branches[1])
        with context:
            other = staged.value.like([part.value for part in plain.parts or ()])
        staged_content, content = (staged.keys or [()])[0], other.content()
        pairs = (
            zip(content, staged_content, strict=True)
            if staged is at_true
            else zip(staged_content, content, strict=True)
        )
        other.set_content(tuple(self._merged(f, t) for f, t in pairs))
        return other  # type: ignore[no-any-return]

    def _leaf(self, name: str, first: Any, second: Any) -> Any:
        if not (can_be_staged(first) and can_be_staged(second)):
            raise self._differ(name, kind_of(first), kind_of(second))
        with self._branches[1]:
            like = second.dtype.base_dtype if isinstance(second, Tensor) else _joint(first, second)
            at_true = as_staged(first, like)
        with self._branches[0]:
            at_false = as_staged(second, getattr(at_true, "dtype", None))
        kinds = [type(each).__name__ if not isinstance(each, Tensor) else "" for each in (at_true, at_false)]
        if kinds[0] != kinds[1] or at_true.dtype.base_dtype is not at_false.dtype.base_dtype:
            raise self._differ(name, kind_of(at_true), kind_of(at_false))
        return self._merged(at_false, at_true)

    def _merged(self, at_false: Any, at_true: Any) -> Any:
        flat = []
        for context, value in zip(self._branches, (at_false, at_true), strict=True):
            with context:
                flat.append([context.capture(each) for each in structures.flatten([value])])
        merged = [self._conditional.add_output(f, t) for f, t in zip(*flat, strict=True)]
        return structures.pack_as([at_true], merged)[0]


def _described(found: Record) -> str:
    if found.parts is None:
        return kind_of(found.value)
    keys = "" if found.keys is None else f" with keys {sorted(map(str, found.keys))}"
    return f"a {type(found.value).__name__} of {len(found.parts)} elements{keys}"


def _joint(first: Any, second: Any) -> Any:
    """The type of two Python numbers, if one is an int and the other is not."""
    if type(first) is int and isinstance(second, float):
        return dtypes.float32
    return None


def _new(like: Record, parts: list[Any]) -> Any:
    if type(like.value) is list:
        return parts
    if type(like.value) is dict:
        return dict(zip(like.keys or (), parts, strict=True))
    return like.rebuilt(parts)


def _blank(tensor: Tensor) -> Tensor:
    dtype = tensor.dtype.base_dtype
    dims = tensor.shape.dims_tuple
    shape = [0 if d is None else d for d in dims or ()]
    if dtype is dtypes.string:
        return convert_to_tensor(np.full(shape, b"", object), dtype)
    return convert_to_tensor(np.zeros(shape, dtype.as_numpy_dtype), dtype)
