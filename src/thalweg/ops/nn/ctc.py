"""Connectionist temporal classification: label sequences of unknown alignment, as a loss and decoded."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply, apply_one
from thalweg.graph.composite import SparseTensor, is_sparse
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.array.constants import prevent_gradient
from thalweg.ops.math.arithmetic import multiply
from thalweg.ops.sparse.tensors import as_sparse


def _batch_of(c: ShapeContext, lengths: int) -> tuple[TensorShape, int | None]:
    inputs = shapes.with_rank(c.input(0), 3)
    assert inputs.dims_tuple is not None
    sizes = shapes.with_rank(c.input(lengths), 1).dims_tuple
    assert sizes is not None
    return inputs, shapes.merge_dims(inputs.dims_tuple[1], sizes[0])


def _loss_shape(c: ShapeContext) -> list[TensorShape]:
    inputs, batch = _batch_of(c, 3)
    rows = shapes.merge(c.input(1), TensorShape._of((None, 2))).dims_tuple
    values = shapes.with_rank(c.input(2), 1).dims_tuple
    assert rows is not None and values is not None
    shapes.merge_dims(rows[0], values[0])
    return [TensorShape._of((batch,)), inputs]


define(
    "CTCLoss",
    "inputs: T, labels_indices: int64, labels_values: int32, sequence_length: int32 -> loss: T, gradient: T",
    "preprocess_collapse_repeated: bool = false, ctc_merge_repeated: bool = true, "
    "ignore_longer_outputs_than_inputs: bool = false, T: {float, double} = float",
    shape=_loss_shape,
)


@export("nn.ctc_loss")
def ctc_loss(
    labels: Any, inputs: Any = None, sequence_length: Any = None, preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True, ignore_longer_outputs_than_inputs: bool = False, time_major: bool = True,
    logits: Any = None,
) -> Tensor:  # fmt: skip
    """Returns the negative log probability of label sequences, summed over all ways to spread them over time.

    The last class is the blank: labels must be below `num_classes - 1`.

    Args:
        labels: SparseTensor of int32 with the labels of each example in a row.
        inputs: Logits `[time, batch, classes]`.
        sequence_length: int32 vector: how many moments of each example count.
        preprocess_collapse_repeated: Whether equal neighbours among the labels are merged first.
        ctc_merge_repeated: Whether a class that is repeated from one moment to the next is one label.
        ignore_longer_outputs_than_inputs: Whether labels that need more time than there is give a loss of 0 instead of
            an error.
        time_major: Whether `inputs` are `[time, batch, classes]` rather than `[batch, time, classes]`.
        logits: The same as `inputs`.

    Returns:
        A vector with the loss of each example.
    """
    if inputs is not None and logits is not None:
        raise ValueError("Cannot specify both 'logits' and 'inputs'")
    inputs = convert_to_tensor(logits if inputs is None else inputs)
    if not is_sparse(labels):
        raise TypeError("Expected labels (first argument) to be a SparseTensor")
    labels = as_sparse(labels)
    if not time_major:
        inputs = apply_one("Transpose", inputs, [1, 0, 2])
    return apply(  # type: ignore[no-any-return]
        "CTCLoss", inputs, labels.indices, labels.values, sequence_length,
        preprocess_collapse_repeated=preprocess_collapse_repeated, ctc_merge_repeated=ctc_merge_repeated,
        ignore_longer_outputs_than_inputs=ignore_longer_outputs_than_inputs,
    ).loss  # fmt: skip


@gradient("CTCLoss")
def _loss_grad(op: Operation, grad: Tensor, _: Any) -> Any:
    slope = prevent_gradient(op.outputs[1], message="The second derivative of ctc_loss is not available.")
    column = apply_one("ExpandDims", apply_one("ExpandDims", grad, -1), 0)
    return multiply(column, slope), None, None, None


def _greedy_shape(c: ShapeContext) -> list[TensorShape]:
    _, batch = _batch_of(c, 1)
    return [TensorShape._of((None, 2)), shapes.ANY_VECTOR, TensorShape._of((2,)), TensorShape._of((batch, 1))]


define(
    "CTCGreedyDecoder",
    "inputs: T, sequence_length: int32 -> decoded_indices: int64, decoded_values: int64, decoded_shape: int64, "
    "log_probability: T",
    "merge_repeated: bool = false, blank_index: int = -1, T: {float, double} = float",
    shape=_greedy_shape,
)


def _beam_shape(c: ShapeContext) -> list[TensorShape]:
    _, batch = _batch_of(c, 1)
    paths = c.attr("top_paths")
    return [
        *[TensorShape._of((None, 2))] * paths,
        *[shapes.ANY_VECTOR] * paths,
        *[TensorShape._of((2,))] * paths,
        TensorShape._of((batch, paths)),
    ]


define(
    "CTCBeamSearchDecoder",
    "inputs: T, sequence_length: int32 -> decoded_indices: top_paths * int64, decoded_values: top_paths * int64, "
    "decoded_shape: top_paths * int64, log_probability: T",
    "beam_width: int >= 1, top_paths: int >= 1, merge_repeated: bool = true, T: {float, double} = float",
    shape=_beam_shape,
)
not_differentiable("CTCGreedyDecoder", "CTCBeamSearchDecoder")


@export("nn.ctc_greedy_decoder")
def ctc_greedy_decoder(
    inputs: Any, sequence_length: Any, merge_repeated: bool = True, blank_index: int | None = None
) -> tuple[list[SparseTensor], Tensor]:
    """Takes the most probable class at each moment, and drops repetitions and blanks.

    Args:
        inputs: Logits `[time, batch, classes]`.
        sequence_length: int32 vector: how many moments of each example count.
        merge_repeated: Whether repetitions are merged (unless a blank is between them).
        blank_index: The class that is the blank, from the end if negative; the last one if None.

    Returns:
        A list with one SparseTensor, the sequences; and `[batch, 1]`: the negative sum of the largest logits.
    """
    found = apply(
        "CTCGreedyDecoder", inputs, sequence_length, merge_repeated=merge_repeated,
        blank_index=-1 if blank_index is None else blank_index,
    )  # fmt: skip
    sequences = SparseTensor(found.decoded_indices, found.decoded_values, found.decoded_shape)
    return [sequences], found.log_probability


@export("nn.ctc_beam_search_decoder")
def ctc_beam_search_decoder(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1, merge_repeated: bool = True
) -> tuple[list[SparseTensor], Tensor]:
    """Searches for the most probable label sequences, keeping `beam_width` prefixes at each moment.

    Args:
        inputs: Logits `[time, batch, classes]`; the last class is the blank.
        sequence_length: int32 vector: how many moments of each example count.
        beam_width: How many prefixes are kept.
        top_paths: How many sequences to return, best first.
        merge_repeated: Whether equal neighbours in the *result* are merged, even those that a blank separated.

    Returns:
        A list with a SparseTensor for each of the `top_paths`, and `[batch, top_paths]`: their log probabilities.
    """
    found = apply(
        "CTCBeamSearchDecoder", inputs, sequence_length, beam_width=beam_width, top_paths=top_paths,
        merge_repeated=merge_repeated,
    )  # fmt: skip
    parts = zip(found.decoded_indices, found.decoded_values, found.decoded_shape, strict=True)
    return [SparseTensor(*part) for part in parts], found.log_probability


@export("nn.ctc_beam_search_decoder_v2")
def ctc_beam_search_decoder_v2(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[SparseTensor], Tensor]:
    """The same as `ctc_beam_search_decoder` without merging in the result."""
    return ctc_beam_search_decoder(inputs, sequence_length, beam_width, top_paths, merge_repeated=False)
