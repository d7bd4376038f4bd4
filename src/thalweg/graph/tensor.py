"""Tensor: one output of an operation, an edge of the graph. It has a type and a static shape, but no value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from thalweg.graph.default_stack import AnySession, get_default_session
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType
from thalweg.graph.tensor_shape import TensorShape

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph
    from thalweg.graph.operation import Operation

OVERLOADABLE_OPERATORS = frozenset(
    ("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__div__", "__rdiv__", "__truediv__",
     "__rtruediv__", "__floordiv__", "__rfloordiv__", "__mod__", "__rmod__", "__lt__", "__le__", "__gt__", "__ge__",
     "__and__", "__rand__", "__or__", "__ror__", "__xor__", "__rxor__", "__getitem__", "__pow__", "__rpow__",
     "__invert__", "__neg__", "__abs__", "__matmul__", "__rmatmul__")
)  # fmt: skip


@export("Tensor")
class Tensor:
    """A symbolic handle to one output of an Operation.

    Tensors are compared and hashed by identity, as in TensorFlow 1: use `tf.equal` for the element-wise comparison.

    Attributes:
        op: The Operation that produces it.
        value_index: Which of its outputs this is.
        dtype: The type of its elements.
    """

    # The dictionary is made when a program or library (Keras, TFLearn) first sets an attribute of its own.
    __slots__ = ("__dict__", "__weakref__", "_consumers", "_handle_data", "_shape", "dtype", "op", "value_index")

    # NumPy arrays on the left of an operator leave the operation to us.
    __array_priority__ = 100

    OVERLOADABLE_OPERATORS: ClassVar[set[str]] = set(OVERLOADABLE_OPERATORS)  # packages copy and change it

    def __init__(self, op: Operation, value_index: int, dtype: DType, shape: TensorShape) -> None:
        """Used by the graph only."""
        self.op = op
        self.value_index = value_index
        self.dtype = dtype
        self._shape = shape
        self._consumers: list[Operation] | None = None  # Made with the first consumer: most have none for a while.
        self._handle_data: Any = None

    @property
    def name(self) -> str:
        """The name by which it can be fetched and fed: `'op:0'`."""
        return f"{self.op.name}:{self.value_index}"

    @property
    def graph(self) -> Graph:
        """The Graph it belongs to."""
        return self.op.graph

    @property
    def device(self) -> str:
        """The device requested for its operation, or ''."""
        return self.op.device

    @property
    def shape(self) -> TensorShape:
        """What is known of its shape before a step runs."""
        return self._shape

    def get_shape(self) -> TensorShape:
        """The same as `shape`."""
        return self._shape

    @property
    def ndim(self) -> int | None:
        """The static rank, or None."""
        return self._shape.ndims

    def _shape_as_list(self) -> list[int | None] | None:
        dims = self._shape.dims_tuple
        return None if dims is None else list(dims)

    def set_shape(self, shape: Any) -> None:
        """Adds knowledge about the shape; it can only become more precise.

        Args:
            shape: Anything that TensorShape takes.

        Raises:
            ValueError: If `shape` contradicts what is known.
        """
        shape = shape if isinstance(shape, TensorShape) else TensorShape(shape)
        try:
            self._shape = self._shape.merge_with(shape)
        except ValueError as e:
            raise ValueError(
                f"{e} (set_shape of tensor '{self.name}': it has shape {self._shape}, got {shape})."
            ) from None

    def consumers(self) -> list[Operation]:
        """The operations that take this tensor as a data input, each once, in order of creation."""
        return list(dict.fromkeys(self._consumers or ()))

    def _add_consumer(self, op: Operation) -> None:
        if self._consumers is None:
            self._consumers = [op]
        else:
            self._consumers.append(op)

    def eval(self, feed_dict: Any = None, session: AnySession | None = None) -> Any:
        """Computes the value in `session`, or in the default session.

        Raises:
            ValueError: If there is no default session, or it runs another graph.
        """
        return _session_for(self, session, "evaluate tensor", "eval").run(self, feed_dict)

    def ref(self) -> TensorReference:
        """A hashable stand-in, for programs that cannot rely on tensors being hashable."""
        return TensorReference(self)

    experimental_ref = ref

    def _as_node_def_input(self) -> str:
        return self.op.name if self.value_index == 0 else f"{self.op.name}:{self.value_index}"

    def __repr__(self) -> str:
        return f"<tf.Tensor '{self.name}' shape={self._shape} dtype={self.dtype.name}>"

    def __str__(self) -> str:
        shape = "" if self._shape.ndims is None else f", shape={self._shape}"
        device = f", device={self.device}" if self.device else ""
        return f'Tensor("{self.name}"{shape}, dtype={self.dtype.name}{device})'

    def __len__(self) -> int:
        raise TypeError(
            f"len is not well defined for symbolic Tensors ({self.name}). Please call `x.shape` rather than "
            "`len(x)` for "
            "shape information."
        )

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(
            "Tensor objects are only iterable when eager execution is enabled. To iterate over the tensor "
            f"'{self.name}' "
            "use tf.map_fn, or split it with tf.unstack."
        )

    def __bool__(self) -> bool:
        raise TypeError(
            f"Using a `tf.Tensor` ('{self.name}') as a Python `bool` is not allowed. Use `if t is not None:` "
            "instead of "
            "`if t:` to test if a tensor is defined, and use TensorFlow ops such as tf.cond to execute subgraphs "
            "conditioned on the value of a tensor."
        )

    __nonzero__ = __bool__  # Python 2's name: packages take it from the class.

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise NotImplementedError(
            f"Cannot convert a symbolic Tensor ({self.name}) to a numpy array. Run it in a session, `sess.run(t)` or "
            "`t.eval()`, or use the `tf.` function in place of the NumPy one."
        )

    def __copy__(self) -> Tensor:
        return self

    if TYPE_CHECKING:
        # Tensors that have values have these (graph/eager_tensor.py).
        def numpy(self) -> Any: ...  # noqa: D102
        def cpu(self) -> Tensor: ...  # noqa: D102
        def __dlpack__(self, **options: Any) -> Any: ...
        def __dlpack_device__(self) -> tuple[int, int]: ...
        def __int__(self) -> int: ...
        def __float__(self) -> float: ...
        def __index__(self) -> int: ...

        # The op families install these with `override_operator`.
        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __div__(self, other: Any) -> Tensor: ...
        def __rdiv__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __floordiv__(self, other: Any) -> Tensor: ...
        def __rfloordiv__(self, other: Any) -> Tensor: ...
        def __mod__(self, other: Any) -> Tensor: ...
        def __rmod__(self, other: Any) -> Tensor: ...
        def __and__(self, other: Any) -> Tensor: ...
        def __rand__(self, other: Any) -> Tensor: ...
        def __or__(self, other: Any) -> Tensor: ...
        def __ror__(self, other: Any) -> Tensor: ...
        def __xor__(self, other: Any) -> Tensor: ...
        def __rxor__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __rpow__(self, other: Any) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __rmatmul__(self, other: Any) -> Tensor: ...
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __getitem__(self, key: Any) -> Tensor: ...

    @classmethod
    def override_operator(cls, operator: str, function: Callable[..., Any]) -> None:
        """Installs the implementation of a Python operator; op families call it beside the op they define.

        Raises:
            ValueError: If the operator is not one that can be overridden, or is already taken.
        """
        if operator not in OVERLOADABLE_OPERATORS:
            raise ValueError(f"Overriding {operator} is disallowed: it is not one of {sorted(OVERLOADABLE_OPERATORS)}.")
        if operator in cls.__dict__:
            raise ValueError(f"Operator {operator} cannot be overwritten again.")
        setattr(cls, operator, function)

    _override_operator = override_operator

    if not TYPE_CHECKING:  # A type checker is to see attributes that do not exist.

        def __getattr__(self, name: str) -> Any:
            if name == "numpy":
                raise AttributeError(
                    f"'{self.name}' has no `numpy()`: it is a tensor of a graph, or of a function while that is "
                    "traced, and gets its values in each run. Compute with it, return it, or look at it in a function "
                    "that `tf.py_function` calls."
                )
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


def name_of_op(tensor: Tensor, otherwise: str = "eager") -> str:
    """The name of the operation that computes a tensor; `otherwise` for a tensor that is in no graph."""
    op = getattr(tensor, "op", None)
    return otherwise if op is None else str(op.name)


def op_type_of(tensor: Tensor) -> str:
    """The type of the operation that computes a tensor; '' for a tensor that is in no graph."""
    op = getattr(tensor, "op", None)
    return "" if op is None else str(op.type)


class TensorReference:
    """Wraps a tensor for use as a key; equal when the tensor is the same object."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Any) -> None:
        """Keeps the tensor (or variable)."""
        self._tensor = tensor

    def deref(self) -> Any:
        """The tensor."""
        return self._tensor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorReference) and self._tensor is other._tensor

    def __hash__(self) -> int:
        return id(self._tensor)

    def __repr__(self) -> str:
        return f"<Reference wrapping {self._tensor!r}>"


def _session_for(element: Tensor | Operation, session: AnySession | None, what: str, method: str) -> AnySession:
    """The session that `element.eval()` or `.run()` uses, checked against the element's graph."""
    found = session if session is not None else get_default_session()
    if found is None:
        raise ValueError(
            f"Cannot {what} using `{method}()`: No default session is registered. Use `with "
            "sess.as_default()` or pass "
            f"an explicit session to `{method}(session=sess)`"
        )
    if found.graph is not element.graph:
        which = "The given session" if session is not None else "The default session"
        raise ValueError(f"Cannot {what} '{element.name}': {which} runs another graph than the one it belongs to.")
    return found
