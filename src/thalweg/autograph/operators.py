"""The operators of converted code: each looks at its values, and lets Python or the graph do the work."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

from thalweg.autograph.iteration import source_of
from thalweg.autograph.staged_if import staged_if
from thalweg.autograph.staged_loop import StagedLoop
from thalweg.autograph.state import UNDEFINED, Slot, slots
from thalweg.autograph.values import StagedTypeError, StagedValueError, as_condition, as_symbolic, place
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.tensor import Tensor
from thalweg.ops.flow.printing import Assert

Names = Sequence[str]
Options = Callable[[], dict[str, Any]] | None

_MOST_UNROLLED: Final = 100_000


def if_(test: Any, then: Any, otherwise: Any, kept: Names, local: Names) -> None:
    """An `if` statement."""
    tensor = as_symbolic(test)
    if tensor is None:
        if test:
            then()
        elif otherwise is not None:
            otherwise()
        return
    functions = (then, otherwise)
    staged_if(tensor, then, otherwise, slots(kept, functions), slots(local, functions))


def while_(
    test: Any, body: Any, kept: Names, local: Names, grown: Names, options: Options, test_changes_state: bool
) -> None:
    """A `while` statement: Python's as long as the condition is not a tensor."""
    while True:
        before = get_default_graph()._last_id
        value = test()
        tensor = as_symbolic(value)
        if tensor is not None:
            break
        if not value:
            return
        body()
    functions = (test, body)
    at_end = test_changes_state or _has_effects(before)
    loop = StagedLoop(slots(kept, functions), slots(local, functions), grown, options() if options else {})
    loop.run(test, body, first_test=as_condition(tensor, "`while`") if at_end else None)


def _has_effects(before: int) -> bool:
    """Whether operations that were made since then do more than compute."""
    graph = get_default_graph()
    made = graph._last_id - before
    return made > 0 and any(op.op_def.effect.must_run for op in graph.get_operations()[-made:])


def for_(iterated: Any, test: Any, body: Any, kept: Names, local: Names, grown: Names, options: Options) -> None:
    """A `for` statement; `test` says whether to go on, if there are jumps out of the loop."""
    source = source_of(iterated)
    functions = (body, test)
    if source is None:
        _for_in_python(iterated, test, body, kept, local)
        return
    if test is not None and as_symbolic(value := test()) is None and not value:
        return
    loop = StagedLoop(slots(kept, functions), slots(local, functions), grown, options() if options else {})
    loop.run(test, body, source)


def _for_in_python(iterated: Any, test: Any, body: Any, kept: Names, local: Names) -> None:
    staged = 0
    for item in iterated:
        if test is not None:
            value = test()
            tensor = as_symbolic(value)
            if tensor is not None:
                # A jump that a tensor decides: what is left of the loop runs under a condition each time.
                staged += 1
                if staged > _MOST_UNROLLED:
                    raise StagedValueError(
                        f"A `for` over Python values has run {staged} times in a graph, and what ends it is a tensor: "
                        f"use tf.range or another tensor to loop in the graph.{place()}"
                    )
                functions = (body, test)
                staged_if(tensor, functools.partial(body, item), None, slots(kept, functions), slots(local, functions))
                continue
            if not value:
                return
        body(item)


def if_expression(test: Any, then: Any, otherwise: Any) -> Any:
    """A conditional expression."""
    tensor = as_symbolic(test)
    if tensor is None:
        return then() if test else otherwise()
    return _chosen(tensor, then, otherwise, "a conditional expression")


def _chosen(test: Tensor, then: Any, otherwise: Any, what: str) -> Any:
    """The value of one of two functions."""
    value: list[Any] = [UNDEFINED]

    def write(new: Any) -> None:
        value[0] = new

    slot = Slot(what, lambda: value[0], write)
    slot.described = lambda: f"the value of {what}"  # type: ignore[method-assign]
    staged_if(test, lambda: write(then()), lambda: write(otherwise()), [slot], [], what)
    return value[0]


def and_(first: Any, *rest: Any) -> Any:
    """`and`: later operands are functions, called only if they are needed."""
    if not rest:
        return first
    tensor = as_symbolic(first)
    if tensor is None:
        return and_(rest[0](), *rest[1:]) if first else first
    left = as_condition(tensor, "`and`")
    return _chosen(left, lambda: _truth(and_(rest[0](), *rest[1:])), lambda: convert_to_tensor(False), "`and`")


def or_(first: Any, *rest: Any) -> Any:
    """`or`: later operands are functions, called only if they are needed."""
    if not rest:
        return first
    tensor = as_symbolic(first)
    if tensor is None:
        return first if first else or_(rest[0](), *rest[1:])
    left = as_condition(tensor, "`or`")
    return _chosen(left, lambda: convert_to_tensor(True), lambda: _truth(or_(rest[0](), *rest[1:])), "`or`")


def _truth(value: Any) -> Tensor:
    tensor = as_symbolic(value)
    return convert_to_tensor(bool(value)) if tensor is None else as_condition(tensor, "`and` or `or`")


def not_(value: Any) -> Any:
    """`not`."""
    tensor = as_symbolic(value)
    if tensor is None:
        return not value
    if tensor.dtype.base_dtype.name != "bool":
        tensor = as_condition(tensor, "`not`")
    return apply_one("LogicalNot", tensor)


def equal(first: Any, second: Any) -> Any:
    """`==`: of tensors, element by element."""
    return _compared("Equal", first, second, lambda: first == second, False)


def not_equal(first: Any, second: Any) -> Any:
    """`!=`: of tensors, element by element."""
    return _compared("NotEqual", first, second, lambda: first != second, True)


def _compared(op_type: str, first: Any, second: Any, in_python: Callable[[], Any], if_unlike: bool) -> Any:
    tensor = as_symbolic(first)
    other = as_symbolic(second)
    if tensor is None and other is None:
        return in_python()
    if first is None or second is None or isinstance(first, type) or isinstance(second, type):
        return if_unlike
    known: Any = tensor if tensor is not None else other
    values = [each if each is not None else value for each, value in ((tensor, first), (other, second))]
    try:
        left, right = (
            each if isinstance(each, Tensor) else convert_to_tensor(each, known.dtype.base_dtype) for each in values
        )
    except (TypeError, ValueError):
        return in_python()
    return apply_one(op_type, left, right)


def contains(item: Any, container: Any) -> Any:
    """`in`: of tensors, whether any element is equal."""
    elements = as_symbolic(container)
    if elements is None and as_symbolic(item) is None:
        return item in container
    if elements is not None:
        return _any(equal(item, elements))
    if isinstance(container, (list, tuple, set, frozenset, range, dict)):
        found = [equal(item, each) for each in container]
        if not any(as_symbolic(each) is not None for each in found):
            return any(found)
        result = convert_to_tensor(False)
        for each in found:
            result = apply_one("LogicalOr", result, _any(each) if as_symbolic(each) is not None else bool(each))
        return result
    return item in container


def _any(matches: Any) -> Any:
    tensor = as_symbolic(matches)
    if tensor is None or tensor.shape.ndims == 0:
        return matches
    return apply_one("Any", tensor, apply_one("Range", 0, apply_one("Rank", tensor), 1))


def lacks(item: Any, container: Any) -> Any:
    """`not in`."""
    return not_(contains(item, container))


def assert_(test: Any, message: Any, text: str) -> None:
    """An `assert` statement: of a tensor, the step checks it."""
    tensor = as_symbolic(test)
    if tensor is None:
        if not test:
            raise AssertionError(*(() if message is None else (message(),)))
        return
    said = f"assert {text}" if message is None else message()
    data = list(said) if isinstance(said, (list, tuple)) else [said]
    if tensor.shape.ndims not in (None, 0):
        raise StagedValueError(
            f"`assert {text}` needs a scalar, got a tensor of shape {tensor.shape}: use tf.reduce_all.{place()}"
        )
    Assert(as_condition(tensor, "`assert`"), [f"{each}" if not isinstance(each, Tensor) else each for each in data])


def known_bool(value: Any) -> Any:
    """The condition of a comprehension or a pattern, which only Python can decide.

    Raises:
        StagedTypeError: If it is a tensor.
    """
    if as_symbolic(value) is not None:
        raise StagedTypeError(
            "The condition of a comprehension or of a pattern is a tensor, but only Python can decide it: write it as "
            f"an `if` statement in a `for` loop, or use tf.boolean_mask.{place()}"
        )
    return value


def matched(value: Any) -> Any:
    """The subject of a `match` statement, which only Python can compare with patterns.

    Raises:
        StagedTypeError: If it is a tensor.
    """
    if as_symbolic(value) is not None:
        raise StagedTypeError(
            f"`match` compares Python values with patterns, and got a tensor: use `if` and `elif`.{place()}"
        )
    return value


def elements(value: Any) -> Any:
    """What a comprehension goes over: for tensors, their elements, if their number is known."""
    source = source_of(value)
    return value if source is None else source


def bind(read: Any, value: Any) -> Any:
    """A name bound within an expression: `read` is a function that reads it."""
    cells = read.__closure__
    if cells:
        cells[0].cell_contents = value
    else:
        read.__globals__[read.__code__.co_names[0]] = value
    return value


def loop_options(
    parallel_iterations: Any = None, back_prop: Any = None, swap_memory: Any = None, maximum_iterations: Any = None,
    shape_invariants: Any = None,
) -> dict[str, Any]:  # fmt: skip
    """The arguments of `set_loop_options`."""
    return {
        "parallel_iterations": parallel_iterations,
        "back_prop": back_prop,
        "swap_memory": swap_memory,
        "maximum_iterations": maximum_iterations,
        "shape_invariants": shape_invariants,
    }
