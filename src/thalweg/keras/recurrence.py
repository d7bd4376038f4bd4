"""tf.keras.backend.rnn: a function of a step, over all steps of sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.keras.public_names import tf


@export("keras.backend.rnn")
def rnn(
    step_function: Callable[[Any, Any], tuple[Any, Any]],
    inputs: Any,
    initial_states: Any,
    go_backwards: bool = False,
    mask: Any = None,
    constants: Any = None,
    unroll: bool = False,
    input_length: Any = None,
    time_major: bool = False,
    zero_output_for_mask: bool = False,
) -> tuple[Any, Any, Any]:
    """Runs a function of a step over sequences.

    Args:
        step_function: Takes the input of a step and the states, and returns its output and the new states.
        inputs: [batch, steps, ...], or [steps, batch, ...] with `time_major`.
        initial_states: A structure of tensors.
        go_backwards: Whether the last step comes first.
        mask: [batch, steps]: where it is False, states stay, and the output is that of the step before.
        constants: A list that follows the states in every call.
        unroll: Whether every step becomes nodes of its own; the number of steps has to be known.
        input_length: Has no effect.
        time_major: Whether steps are the first axis.
        zero_output_for_mask: Whether outputs of masked steps are zero.

    Returns:
        The last output, all outputs, and the last states.
    """
    steps = inputs if time_major else _turn(inputs)
    if mask is not None:
        mask = tf.cast(mask, tf.bool)
        mask = mask[:, :, 0] if mask.shape.ndims == 3 else mask
        mask = mask if time_major else tf.transpose(mask)
    if go_backwards:
        steps = tf.reverse(steps, [0])
        mask = None if mask is None else tf.reverse(mask, [0])
    further = list(constants or ())
    states = tf.nest.map_structure(tf.convert_to_tensor, initial_states)

    def one(x: Any, counts: Any, states: Any, before: Any) -> tuple[Any, Any]:
        output, new = step_function(x, [*states, *further])
        new = tf.nest.pack_sequence_as(states, tf.nest.flatten(new))
        if counts is None:
            return output, new
        other = tf.zeros_like(output) if before is None or zero_output_for_mask else before
        output = _select(counts, output, other)
        return output, tf.nest.map_structure(lambda a, b: _select(counts, a, b), new, states)

    count = steps.shape.as_list()[0]
    if unroll:
        if count is None:
            raise ValueError("Unrolling requires a fixed number of timesteps.")
        outputs: list[Any] = []
        for i in range(count):
            each, states = one(steps[i], None if mask is None else mask[i], states, outputs[-1] if outputs else None)
            outputs.append(each)
        every, last = tf.stack(outputs), outputs[-1]
    else:
        every, last, states = _loop(one, steps, mask, states)
    every.set_shape([count, *every.shape.as_list()[1:]])
    return last, every if time_major else _turn(every), states


def _turn(x: Any) -> Any:
    return tf.transpose(x, [1, 0, *range(2, x.shape.ndims)])


def _select(counts: Any, a: Any, b: Any) -> Any:
    wide = tf.reshape(counts, tf.concat([tf.shape(counts), [1] * (a.shape.ndims - 1)], axis=0))
    return tf.where(tf.broadcast_to(wide, tf.shape(a)), a, b)


def _loop(one: Any, steps: Any, mask: Any, states: Any) -> tuple[Any, Any, Any]:
    number = tf.shape(steps)[0]
    source = tf.TensorArray(steps.dtype, number).unstack(steps)
    masks = None if mask is None else tf.TensorArray(tf.bool, number).unstack(mask)
    probe, _ = one(steps[0], None, states, None)  # Only for the shape and type of an output: no step needs it.
    written = tf.TensorArray(probe.dtype, number)
    flat = tf.nest.flatten(states)

    def body(i: Any, written: Any, before: Any, *flat: Any) -> Any:
        kept = tf.nest.pack_sequence_as(states, list(flat))
        output, new = one(source.read(i), None if masks is None else masks.read(i), kept, before)
        for value, old in zip(tf.nest.flatten(new), flat, strict=True):
            value.set_shape(old.shape.merge_with(value.shape))
        output.set_shape(probe.shape)
        return i + 1, written.write(i, output), output, *tf.nest.flatten(new)

    start = tf.zeros_like(probe)
    loop = tf.while_loop(
        lambda i, *_: i < number, body, (tf.constant(0), written, start, *flat),
        shape_invariants=(
            tf.TensorShape([]), tf.TensorShape(None), probe.shape, *(each.shape for each in flat),
        ),
    )  # fmt: skip
    every = loop[1].stack()
    every.set_shape([None, *probe.shape.as_list()])
    return every, loop[2], tf.nest.pack_sequence_as(states, list(loop[3:]))
