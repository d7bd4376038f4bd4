"""What loops of the graph go over: elements of tensors, ranges, TensorArrays, lists, and combinations of them.

A source of elements is a state machine of tensors, which a loop carries: `start` gives the state, `more` says whether
there is another element, `item` is that element, `next` the state after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from thalweg.autograph.staged_list import StagedList
from thalweg.autograph.values import as_symbolic, place
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.ops.state.tensor_array import TensorArray

State = list[Any]


class Source:
    """Elements that a loop of the graph goes over."""

    def start(self) -> State:
        """The state before the first element; called outside of the loop."""
        raise NotImplementedError

    def more(self, state: State) -> Tensor:
        """Whether there is another element: a bool scalar."""
        raise NotImplementedError

    def item(self, state: State) -> Any:
        """The element; called in the loop."""
        raise NotImplementedError

    def next(self, state: State) -> State:
        """The state after that element."""
        raise NotImplementedError

    def known_count(self) -> int | None:
        """How many elements there are, if that is known while the graph is built."""
        return None

    def __iter__(self) -> Iterator[Any]:
        count = self.known_count()
        if count is None:
            raise TypeError(
                "Elements that are known in a step only can be gone over by a `for` statement of converted code, not "
                f"by a comprehension or a function of Python: write a `for` loop, or use tf.map_fn.{place()}"
            )
        state = self.start()
        for _ in range(count):
            yield self.item(state)
            state = self.next(state)


class _Counted(Source):
    """Elements with an index and a length."""

    def __init__(self, count: Any) -> None:
        self.count = count

    def start(self) -> State:
        return [convert_to_tensor(0, dtypes.int32)]

    def more(self, state: State) -> Tensor:
        return apply_one("Less", state[0], self.count)

    def next(self, state: State) -> State:
        return [apply_one("AddV2", state[0], 1)]

    def known_count(self) -> int | None:
        value = constant_value(convert_to_tensor(self.count))
        return None if value is None else int(value)


class Elements(_Counted):
    """The elements of a tensor along its first dimension."""

    def __init__(self, tensor: Tensor) -> None:
        """Takes the tensor.

        Raises:
            TypeError: If it is known to be a scalar.
        """
        dims = tensor.shape.dims_tuple
        if dims == ():
            raise TypeError(f"Cannot iterate over a scalar tensor ('{tensor.name}'){place()}.")
        super().__init__(length_of(tensor))
        self._tensor = tensor
        self._array: TensorArray | None = None

    def start(self) -> State:
        """See `Source.start`."""
        array = TensorArray(self._tensor.dtype.base_dtype, size=self.count, element_shape=self._tensor.shape[1:])
        self._array = array.unstack(self._tensor)
        return super().start()

    def item(self, state: State) -> Any:
        """See `Source.item`."""
        assert self._array is not None
        return self._array.read(state[0])


class ArrayElements(_Counted):
    """The elements of a TensorArray, or of a list of the graph."""

    def __init__(self, array: Any) -> None:
        """Takes the array or list."""
        is_list = isinstance(array, StagedList)
        super().__init__(array.length if is_list else array.size())
        self._state = array.content() if is_list else None
        self._array = array

    def item(self, state: State) -> Any:
        """See `Source.item`."""
        if self._state is None:
            return self._array.read(state[0])
        now = self._array.content()
        self._array.set_content(self._state)  # The elements at the start of the loop.
        try:
            return self._array[state[0]]
        finally:
            self._array.set_content(now)


class Range(Source):
    """The numbers of a range."""

    def __init__(self, first: Any, limit: Any, step: Any) -> None:
        """Takes tensors of one type; `step` is a constant, and not zero."""
        self.first, self.limit, self.step = first, limit, step
        self._rises = bool(constant_value(convert_to_tensor(step)) > 0)

    def start(self) -> State:
        """See `Source.start`."""
        return [self.first]

    def more(self, state: State) -> Tensor:
        """See `Source.more`."""
        return apply_one("Less" if self._rises else "Greater", state[0], self.limit)

    def item(self, state: State) -> Any:
        """See `Source.item`."""
        return state[0]

    def next(self, state: State) -> State:
        """See `Source.next`."""
        return [apply_one("AddV2", state[0], self.step)]

    def known_count(self) -> int | None:
        """See `Source.known_count`."""
        values = [constant_value(convert_to_tensor(each)) for each in (self.first, self.limit, self.step)]
        if any(value is None for value in values):
            return None
        return len(range(*(int(value) for value in values)))


class Joined(Source):
    """Elements of several sources side by side, until the first of them ends: what `zip` gives."""

    def __init__(self, sources: Sequence[Source]) -> None:
        """Takes the sources."""
        self._sources = sources
        self._places: list[slice] = []

    def start(self) -> State:
        """See `Source.start`."""
        state: State = []
        self._places = []
        for source in self._sources:
            own = source.start()
            self._places.append(slice(len(state), len(state) + len(own)))
            state += own
        return state

    def _parts(self, state: State) -> list[tuple[Source, State]]:
        return [(source, state[place]) for source, place in zip(self._sources, self._places, strict=True)]

    def more(self, state: State) -> Tensor:
        """See `Source.more`."""
        tests = [source.more(own) for source, own in self._parts(state)]
        both = tests[0]
        for test in tests[1:]:
            both = apply_one("LogicalAnd", both, test)
        return both

    def item(self, state: State) -> Any:
        """See `Source.item`."""
        return tuple(source.item(own) for source, own in self._parts(state))

    def next(self, state: State) -> State:
        """See `Source.next`."""
        return [part for source, own in self._parts(state) for part in source.next(own)]

    def known_count(self) -> int | None:
        """See `Source.known_count`."""
        counts = [source.known_count() for source in self._sources]
        return None if None in counts else min(count for count in counts if count is not None)


class Numbers(Range):
    """All numbers from one on: what `enumerate` puts before its elements."""

    def __init__(self, first: Any) -> None:
        """Takes the first one."""
        super().__init__(convert_to_tensor(first), convert_to_tensor(first), convert_to_tensor(1))
        self.step = convert_to_tensor(1, self.first.dtype)

    def more(self, state: State) -> Tensor:
        """See `Source.more`."""
        return convert_to_tensor(True)

    def known_count(self) -> int | None:
        """See `Source.known_count`."""
        return 1 << 62


class Mapped(Source):
    """Elements of a source, each passed through a function."""

    def __init__(self, function: Callable[..., Any], source: Source, spread: bool) -> None:
        """`spread` says that elements are tuples of arguments."""
        self._function, self._source, self._spread = function, source, spread
        self.start, self.more, self.next = source.start, source.more, source.next  # type: ignore[method-assign]
        self.known_count = source.known_count  # type: ignore[method-assign]

    def item(self, state: State) -> Any:
        """See `Source.item`."""
        item = self._source.item(state)
        return self._function(*item) if self._spread else self._function(item)


_factories: Final[list[tuple[type, Callable[[Any], Source | None]]]] = []


def register_source(kind: type, factory: Callable[[Any], Source | None]) -> None:
    """Makes loops go over values of a class; `factory` returns None for those that Python itself can iterate over."""
    _factories.append((kind, factory))


def source_of(value: Any) -> Source | None:
    """The source of the elements of a value, if they are known in a step only; None for Python's own iterables."""
    if isinstance(value, Source):
        return value
    if isinstance(value, (list, tuple, dict, range, str)):
        return None
    if isinstance(value, (StagedList, TensorArray)):
        return ArrayElements(value)
    for kind, factory in _factories:
        if isinstance(value, kind):
            return factory(value)
    tensor = as_symbolic(value)
    if tensor is None:
        return None
    if tensor.op.type == "Range" and tensor.dtype.is_integer and constant_value(tensor.op.inputs[2]):
        return Range(*tensor.op.inputs)
    return Elements(tensor)


def length_of(tensor: Tensor) -> Any:
    """The first dimension of a tensor: an int if it is known, else an int32 tensor."""
    dims = tensor.shape.dims_tuple
    if dims and dims[0] is not None:
        return dims[0]
    return apply_one("StridedSlice", apply_one("Shape", tensor), [0], [1], [1], shrink_axis_mask=1)
