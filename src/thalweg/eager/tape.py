"""tf.GradientTape: records what runs, and differentiates it afterwards; works in graphs and functions, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from thalweg.autodiff.gradients import UnconnectedGradients
from thalweg.autodiff.recording import recorded_by, tapes
from thalweg.autodiff.zeros import zeros_for
from thalweg.eager.backpropagation import backpropagate, new_tape
from thalweg.eager.graph_tape import GraphTape
from thalweg.eager.jacobians import batch_jacobian, jacobian
from thalweg.graph import dtypes, nest
from thalweg.graph.apply import apply_one
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.eager_tensor import EagerTensor
from thalweg.graph.handle_data import handle_data
from thalweg.graph.tensor import Tensor
from thalweg.ops.plain_gradients import set_recorded
from thalweg.platform import logging


@export("GradientTape")
class GradientTape:
    """Records the operations of its block, to differentiate their results.

    Trainable variables are watched by themselves, tensors by `watch`. What the tape keeps is given back while it
    computes gradients, or, if it is persistent, when it goes itself.

    Example:
        >>> with tf.eager():
        ...     x = tf.constant(3.0)
        ...     with tf.GradientTape() as tape:
        ...         tape.watch(x)
        ...         y = x * x
        ...     print(tape.gradient(y, x).numpy())
        6.0
    """

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        """Makes a tape.

        Args:
            persistent: Whether gradients can be asked for more than once.
            watch_accessed_variables: Whether trainable variables are watched as soon as they are read.
        """
        self._persistent = persistent
        self._watches_variables = watch_accessed_variables
        self._recording = False
        self._used = False
        self._recorded = new_tape(watch_accessed_variables)
        self._clear()

    def _clear(self) -> None:
        self._recorded.clear()
        self._graph_tape = GraphTape(self._watches_variables)

    # Recording.

    def __enter__(self) -> GradientTape:
        self._begin()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._recording:
            self._end()

    def _begin(self) -> None:
        if self._recording:
            raise ValueError("Tape is already recording.")
        tapes.open = (*tapes.open, self._recorded)
        self._recording = True
        self._graph_tape.begin(get_default_graph())

    def _end(self) -> None:
        if not self._recording:
            raise ValueError("Tape is not recording.")
        tapes.open = tuple(tape for tape in tapes.open if tape is not self._recorded)
        self._recording = False
        self._graph_tape.end(get_default_graph())

    def watch(self, tensor: Any) -> None:
        """Lets the tape record what depends on a tensor, a variable, or a nesting of these.

        Raises:
            ValueError: If the tape does not record.
        """
        for each in [tensor] if type(tensor) is EagerTensor else nest.flatten(tensor, expand_composites=True):
            if type(each) is not EagerTensor and hasattr(each, "handle"):
                if type(each.handle) is EagerTensor:
                    self._recorded.watch_variable(each, each.handle)
                else:
                    self._graph_tape.watch(each.handle, each)
                continue
            if not isinstance(each, Tensor):
                raise ValueError(f"Passed in object of type {type(each)}, not tf.Tensor")
            if not (each.dtype.is_floating or each.dtype.is_complex):
                logging.warn("The dtype of the watched tensor must be floating (e.g. tf.float32), got %r", each.dtype)
            if type(each) is EagerTensor:
                self._recorded.watch(each)
            self._graph_tape.watch(each)

    @contextmanager
    def stop_recording(self) -> Iterator[None]:
        """A block in which the tape records nothing.

        Raises:
            RuntimeError: If it does not record anyway.
        """
        if not self._recording:
            raise RuntimeError("Trying to stop recording a tape which is not recording.")
        self._end()
        try:
            yield
        finally:
            self._begin()

    def reset(self) -> None:
        """Forgets everything that it has recorded."""
        recording = self._recording
        if recording:
            self._end()
        self._clear()
        self._used = False
        if recording:
            self._begin()

    def watched_variables(self) -> tuple[Any, ...]:
        """The variables that it watches, in the order in which they were first read."""
        return (*self._recorded.variables.values(), *self._graph_tape.variables(get_default_graph()))

    # Gradients.

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any:
        """The derivatives of the sum of the targets.

        Args:
            target: A tensor, or a nesting of tensors.
            sources: A tensor or variable, or a nesting of these, that the tape has watched.
            output_gradients: Gradients of the targets to start from: ones where None.
            unconnected_gradients: What to return where no target depends on a source: a `tf.UnconnectedGradients`.

        Returns:
            The structure of `sources`: a tensor, an IndexedSlices or None for each.

        Raises:
            RuntimeError: If the tape is not persistent and has been used.
            ValueError: If an argument does not make sense.
        """
        self._use()
        if self._recording and not self._persistent:
            self._end()
        return self._gradient(target, sources, output_gradients, unconnected_gradients, self._persistent)

    def _use(self) -> None:
        if self._used and not self._persistent:
            raise RuntimeError(
                "GradientTape.gradient can only be called once on non-persistent tapes. Make it persistent: "
                "tf.GradientTape(persistent=True)."
            )
        self._used = True

    def _gradient(self, target: Any, sources: Any, output_gradients: Any, unconnected: Any, keep: bool) -> Any:
        if type(unconnected) is not UnconnectedGradients:
            try:
                unconnected = UnconnectedGradients(unconnected)
            except ValueError:
                raise ValueError(f"Unknown value for unconnected_gradients: {unconnected!r}") from None
        targets = [_target(each) for each in _flat(target)]
        flat = _flat(sources)
        tensors = [_source(each) for each in flat]
        given = [None] * len(targets) if output_gradients is None else nest.flatten(output_gradients)
        if len(given) != len(targets):
            raise ValueError(f"There are {len(given)} output_gradients for {len(targets)} targets.")
        if any(type(each) is not EagerTensor for each in targets):
            found = self._graph_tape.gradient(targets, tensors, given, get_default_graph())
        else:
            seeds = [_seed(each, grad) for each, grad in zip(targets, given, strict=True)]
            # With the tapes around this one only, if it still records: it need not see its own gradient, unless it is
            # persistent.
            around = tapes.open if keep else tuple(tape for tape in tapes.open if tape is not self._recorded)
            with recorded_by(*around):
                found = backpropagate(self._recorded, targets, seeds, tensors, keep)
        if unconnected is UnconnectedGradients.ZERO:
            found = [zeros_for(x) if grad is None else grad for x, grad in zip(tensors, found, strict=True)]
        return found[0] if type(sources) is EagerTensor else nest.pack_sequence_as(sources, found)

    def jacobian(
        self, target: Any, sources: Any, unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None, experimental_use_pfor: bool = True,
    ) -> Any:  # fmt: skip
        """The derivatives of each element of `target`: for each source a tensor of shape target.shape + source.shape.

        Args:
            target: A tensor.
            sources: A tensor or variable, or a nesting of these.
            unconnected_gradients: What to return where `target` does not depend on a source.
            parallel_iterations: Ignored.
            experimental_use_pfor: Ignored.

        Example:
            >>> with tf.eager(), tf.GradientTape() as tape:
            ...     x = tf.constant([1.0, 2.0])
            ...     tape.watch(x)
            ...     y = x * x
            ...     print(tape.jacobian(y, x).numpy().tolist())
            [[2.0, 0.0], [0.0, 4.0]]
        """
        self._use()
        if self._recording and not self._persistent:
            self._end()
        result = jacobian(self._one_row, target, sources, unconnected_gradients)
        if not self._persistent:
            self._clear()
        return result

    def batch_jacobian(
        self, target: Any, source: Any, unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None, experimental_use_pfor: bool = True,
    ) -> Any:  # fmt: skip
        """The Jacobian of each example: `target[i]` by `source[i]`, where it depends on no other example.

        Args:
            target: A tensor of shape [batch, ...].
            source: A tensor of shape [batch, ...].
            unconnected_gradients: What to return where `target` does not depend on `source`.
            parallel_iterations: Ignored.
            experimental_use_pfor: Ignored.

        Returns:
            A tensor of shape [batch] + target.shape[1:] + source.shape[1:].
        """
        self._use()
        if self._recording and not self._persistent:
            self._end()
        result = batch_jacobian(self._one_row, target, source, unconnected_gradients)
        if not self._persistent:
            self._clear()
        return result

    def _one_row(self, target: Any, sources: Any, seed: Any, unconnected: Any) -> Any:
        return self._gradient(target, sources, seed, unconnected, True)


def _flat(structure: Any) -> list[Any]:
    return [structure] if type(structure) is EagerTensor else nest.flatten(structure)


def _target(target: Any) -> Tensor:
    if type(target) is EagerTensor:
        return target
    if type(getattr(target, "handle", None)) is EagerTensor:
        return target.handle  # type: ignore[no-any-return]  # Of a variable: its gradient by itself is one.
    if isinstance(target, IndexedSlices):
        return target.values
    if target is None:
        raise TypeError("A target of a gradient is None.")
    return convert_to_tensor(target)


def _source(source: Any) -> Tensor:
    if type(source) is EagerTensor:
        return source
    handle = getattr(source, "handle", None)
    if isinstance(handle, Tensor):
        return handle
    if isinstance(source, IndexedSlices):
        return source.values
    if isinstance(source, Tensor):
        return source
    raise TypeError(
        f"A source of a gradient must be a tensor or a variable that the tape has watched, not {type(source).__name__}."
    )


def _seed(target: Tensor, given: Any) -> Any:
    if target.dtype is dtypes.resource:
        return given if given is not None else _ones_like_variable(target)
    dtype = target.dtype.base_dtype
    if given is not None:
        return given if isinstance(given, IndexedSlices) else convert_to_tensor(given, dtype)
    if not (dtype.is_floating or dtype.is_complex):
        logging.warn("The dtype of the target tensor must be floating (e.g. tf.float32), got %r", dtype)
        return None
    return apply_one("OnesLike", target)


def _ones_like_variable(handle: Tensor) -> Any:
    known = handle_data(handle)
    if known is None or not (known.dtype.is_floating or known.dtype.is_complex):
        return None
    with recorded_by():
        return apply_one("OnesLike", apply_one("ReadVariableOp", handle, dtype=known.dtype))


def _recorded(build: Callable[[], Any], xs: Sequence[Any], outer: bool) -> tuple[Any, Callable[..., list[Any]]]:
    """See `ops.plain_gradients.recorded`."""
    with recorded_by(*(tapes.open if outer else ())), GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(xs)
        ys = build()

    def backward(*grads: Any) -> list[Any]:
        pairs = [(y, grad) for y, grad in zip(ys, grads, strict=False) if grad is not None]
        return list(tape.gradient([y for y, _ in pairs], list(xs), [grad for _, grad in pairs]))

    return ys, backward


set_recorded(_recorded)
