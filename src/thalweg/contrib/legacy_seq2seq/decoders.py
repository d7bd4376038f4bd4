"""Decoders of unrolled steps: plain, tied, with embeddings, with attention (Sutskever 2014, Vinyals 2014)."""

from __future__ import annotations

import copy
from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.contrib.rnn.linear import Linear, linear
from thalweg.graph import nest
from thalweg.graph.definitions.op_registry import export


def _loop_function(embedding: Any, output_projection: Any = None, update_embedding: bool = True) -> Any:
    """A function that embeds the most likely symbol of the output before."""

    def loop(previous: Any, _: Any) -> Any:
        if output_projection is not None:
            previous = tf.nn.xw_plus_b(previous, output_projection[0], output_projection[1])
        symbol = tf.argmax(previous, 1)
        embedded = tf.nn.embedding_lookup(embedding, symbol)
        return embedded if update_embedding else tf.stop_gradient(embedded)

    return loop


@export("contrib.legacy_seq2seq.rnn_decoder")
def rnn_decoder(
    decoder_inputs: Any, initial_state: Any, cell: Any, loop_function: Any = None, scope: Any = None
) -> Any:
    """Runs a cell over inputs; with a loop function, each input but the first is made of the output before.

    Args:
        decoder_inputs: A list of tensors [batch, size].
        initial_state: The first state.
        cell: The cell.
        loop_function: A function of (output, number of the step) that gives the next input, or None.
        scope: The variable scope; 'rnn_decoder' by default.

    Returns:
        The list of outputs, and the last state.
    """
    with tf.variable_scope(scope or "rnn_decoder"):
        state, outputs, previous = initial_state, [], None
        for i, given in enumerate(decoder_inputs):
            if loop_function is not None and previous is not None:
                with tf.variable_scope("loop_function", reuse=True):
                    given = loop_function(previous, i)
            if i > 0:
                tf.get_variable_scope().reuse_variables()
            output, state = cell(given, state)
            outputs.append(output)
            if loop_function is not None:
                previous = output
    return outputs, state


@export("contrib.legacy_seq2seq.basic_rnn_seq2seq")
def basic_rnn_seq2seq(
    encoder_inputs: Any, decoder_inputs: Any, cell: Any, dtype: Any = tf.float32, scope: Any = None
) -> Any:
    """An encoder and a decoder with cells of the same kind and variables of their own."""
    with tf.variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = tf.nn.static_rnn(copy.deepcopy(cell), encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


@export("contrib.legacy_seq2seq.tied_rnn_seq2seq")
def tied_rnn_seq2seq(
    encoder_inputs: Any,
    decoder_inputs: Any,
    cell: Any,
    loop_function: Any = None,
    dtype: Any = tf.float32,
    scope: Any = None,
) -> Any:
    """An encoder and a decoder that share their variables."""
    with tf.variable_scope("combined_tied_rnn_seq2seq"):
        scope = scope or "tied_rnn_seq2seq"
        _, state = tf.nn.static_rnn(cell, encoder_inputs, dtype=dtype, scope=scope)
        tf.get_variable_scope().reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function=loop_function, scope=scope)


def _check_projection(output_projection: Any, num_symbols: int) -> None:
    if output_projection is None:
        return
    weights, biases = (tf.convert_to_tensor(each, dtype=tf.float32) for each in output_projection)
    weights.shape.assert_is_compatible_with([None, num_symbols])
    biases.shape.assert_is_compatible_with([num_symbols])


@export("contrib.legacy_seq2seq.embedding_rnn_decoder")
def embedding_rnn_decoder(
    decoder_inputs: Any, initial_state: Any, cell: Any, num_symbols: int, embedding_size: int,
    output_projection: Any = None,
    feed_previous: bool = False, update_embedding_for_previous: bool = True, scope: Any = None,
) -> Any:  # fmt: skip
    """A decoder of symbols, which are embedded; with `feed_previous` only the first symbol is taken of the inputs."""
    with tf.variable_scope(scope or "embedding_rnn_decoder") as sc:
        if output_projection is not None:
            tf.convert_to_tensor(output_projection[1], dtype=sc.dtype).shape.assert_is_compatible_with([num_symbols])
        embedding = tf.get_variable("embedding", [num_symbols, embedding_size])
        loop = _loop_function(embedding, output_projection, update_embedding_for_previous) if feed_previous else None
        embedded = [tf.nn.embedding_lookup(embedding, symbols) for symbols in decoder_inputs]
        return rnn_decoder(embedded, initial_state, cell, loop_function=loop)


def _branches(feed_previous: Any, decoder: Any, state: Any) -> Any:
    """Both forms of a decoder, of which a tensor chooses one; they share their variables."""

    def run(feed: bool) -> list[Any]:
        with tf.variable_scope(tf.get_variable_scope(), reuse=None if feed else True):
            outputs, last = decoder(feed)
            return [*outputs, *nest.flatten(last)]

    flat = tf.cond(feed_previous, lambda: run(True), lambda: run(False))
    count = len(flat) - len(nest.flatten(state))
    return list(flat[:count]), nest.pack_sequence_as(state, list(flat[count:]))


@export("contrib.legacy_seq2seq.embedding_rnn_seq2seq")
def embedding_rnn_seq2seq(
    encoder_inputs: Any, decoder_inputs: Any, cell: Any, num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int, output_projection: Any = None, feed_previous: Any = False, dtype: Any = None,
    scope: Any = None,
) -> Any:  # fmt: skip
    """An encoder and a decoder of symbols; without a projection, outputs are logits."""
    with tf.variable_scope(scope or "embedding_rnn_seq2seq", dtype=dtype) as sc:
        encoder_cell = tf.contrib.rnn.EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        _, state = tf.nn.static_rnn(encoder_cell, encoder_inputs, dtype=sc.dtype)
        if output_projection is None:
            cell = tf.contrib.rnn.OutputProjectionWrapper(cell, num_decoder_symbols)

        def decoder(feed: bool) -> Any:
            return embedding_rnn_decoder(
                decoder_inputs, state, cell, num_decoder_symbols, embedding_size, output_projection, feed
            )

        return decoder(feed_previous) if isinstance(feed_previous, bool) else _branches(feed_previous, decoder, state)


@export("contrib.legacy_seq2seq.embedding_tied_rnn_seq2seq")
def embedding_tied_rnn_seq2seq(
    encoder_inputs: Any, decoder_inputs: Any, cell: Any, num_symbols: int, embedding_size: int,
    num_decoder_symbols: int | None = None, output_projection: Any = None, feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> Any:  # fmt: skip
    """The same with one embedding and one cell for both sides."""
    with tf.variable_scope(scope or "embedding_tied_rnn_seq2seq", dtype=dtype) as sc:
        embedding = tf.get_variable("embedding", [num_symbols, embedding_size], dtype=sc.dtype)
        encoder = [tf.nn.embedding_lookup(embedding, x) for x in encoder_inputs]
        decoder = [tf.nn.embedding_lookup(embedding, x) for x in decoder_inputs]
        size = num_symbols if num_decoder_symbols is None else num_decoder_symbols
        if output_projection is None:
            cell = tf.contrib.rnn.OutputProjectionWrapper(cell, size)

        def run(feed: bool) -> Any:
            loop = _loop_function(embedding, output_projection) if feed else None
            return tied_rnn_seq2seq(encoder, decoder, cell, loop_function=loop, dtype=sc.dtype)

        if isinstance(feed_previous, bool):
            return run(feed_previous)
        state = cell.zero_state(tf.shape(encoder_inputs[0])[0], sc.dtype)
        return _branches(feed_previous, run, state)


@export("contrib.legacy_seq2seq.attention_decoder")
def attention_decoder(
    decoder_inputs: Any, initial_state: Any, attention_states: Any, cell: Any, output_size: int | None = None,
    num_heads: int = 1, loop_function: Any = None, dtype: Any = None, scope: Any = None,
    initial_state_attention: bool = False,
) -> Any:  # fmt: skip
    """A decoder that attends to the states of an encoder, [batch, length, size] (Bahdanau et al., 2014).

    Raises:
        ValueError: If there are no inputs, no heads, or the size of the states is unknown.
    """
    if not decoder_inputs:
        raise ValueError("Must provide at least 1 input to attention decoder.")
    if num_heads < 1:
        raise ValueError("With less than 1 heads, use a non-attention decoder.")
    if attention_states.shape.as_list()[2] is None:
        raise ValueError(f"Shape[2] of attention_states must be known: {attention_states.shape}")
    output_size = cell.output_size if output_size is None else output_size
    with tf.variable_scope(scope or "attention_decoder", dtype=dtype) as sc:
        kind = sc.dtype
        batch = tf.shape(decoder_inputs[0])[0]
        length = attention_states.shape.as_list()[1]
        length = tf.shape(attention_states)[1] if length is None else length
        size = attention_states.shape.as_list()[2]
        hidden = tf.reshape(attention_states, [-1, length, 1, size])
        features, vectors = [], []
        for a in range(num_heads):
            k = tf.get_variable(f"AttnW_{a}", [1, 1, size, size], dtype=kind)
            features.append(tf.nn.conv2d(hidden, k, [1, 1, 1, 1], "SAME"))
            vectors.append(tf.get_variable(f"AttnV_{a}", [size], dtype=kind))

        def attend(state: Any) -> list[Any]:
            query = state
            if nest.is_nested(query):
                query = tf.concat(nest.flatten(query), 1)
            read = []
            for a in range(num_heads):
                with tf.variable_scope(f"Attention_{a}"):
                    y = tf.cast(tf.reshape(linear(query, size, True), [-1, 1, 1, size]), kind)
                    weights = tf.nn.softmax(tf.reduce_sum(vectors[a] * tf.tanh(features[a] + y), [2, 3]))
                    drawn = tf.reduce_sum(tf.reshape(weights, [-1, length, 1, 1]) * hidden, [1, 2])
                    read.append(tf.reshape(drawn, [-1, size]))
            return read

        attns = []
        for _ in range(num_heads):
            zero = tf.zeros(tf.stack([batch, size]), dtype=kind)
            zero.set_shape([None, size])
            attns.append(zero)
        state = initial_state
        if initial_state_attention:
            attns = attend(initial_state)
        outputs, previous = [], None
        for i, given in enumerate(decoder_inputs):
            if i > 0:
                tf.get_variable_scope().reuse_variables()
            if loop_function is not None and previous is not None:
                with tf.variable_scope("loop_function", reuse=True):
                    given = loop_function(previous, i)
            width = given.shape.as_list()[1]
            if width is None:
                raise ValueError(f"Could not infer input size from input: {given.name}")
            x = linear([tf.cast(given, kind), *attns], width, True)
            cell_output, state = cell(x, state)
            if i == 0 and initial_state_attention:
                with tf.variable_scope(tf.get_variable_scope(), reuse=True):
                    attns = attend(state)
            else:
                attns = attend(state)
            with tf.variable_scope("AttnOutputProjection"):
                output = Linear([tf.cast(cell_output, kind), *attns], output_size, True)(
                    [tf.cast(cell_output, kind), *attns]
                )
            if loop_function is not None:
                previous = output
            outputs.append(output)
    return outputs, state


@export("contrib.legacy_seq2seq.embedding_attention_decoder")
def embedding_attention_decoder(
    decoder_inputs: Any, initial_state: Any, attention_states: Any, cell: Any, num_symbols: int, embedding_size: int,
    num_heads: int = 1, output_size: int | None = None, output_projection: Any = None, feed_previous: bool = False,
    update_embedding_for_previous: bool = True, dtype: Any = None, scope: Any = None,
    initial_state_attention: bool = False,
) -> Any:  # fmt: skip
    """An attention decoder of symbols, which are embedded."""
    output_size = cell.output_size if output_size is None else output_size
    if output_projection is not None:
        tf.convert_to_tensor(output_projection[1]).shape.assert_is_compatible_with([num_symbols])
    with tf.variable_scope(scope or "embedding_attention_decoder", dtype=dtype):
        embedding = tf.get_variable("embedding", [num_symbols, embedding_size])
        loop = _loop_function(embedding, output_projection, update_embedding_for_previous) if feed_previous else None
        embedded = [tf.nn.embedding_lookup(embedding, symbols) for symbols in decoder_inputs]
        return attention_decoder(
            embedded, initial_state, attention_states, cell, output_size, num_heads, loop,
            initial_state_attention=initial_state_attention,
        )  # fmt: skip


@export("contrib.legacy_seq2seq.embedding_attention_seq2seq")
def embedding_attention_seq2seq(
    encoder_inputs: Any, decoder_inputs: Any, cell: Any, num_encoder_symbols: int, num_decoder_symbols: int,
    embedding_size: int, num_heads: int = 1, output_projection: Any = None, feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None, initial_state_attention: bool = False,
) -> Any:  # fmt: skip
    """An encoder and an attention decoder of symbols; without a projection, outputs are logits."""
    with tf.variable_scope(scope or "embedding_attention_seq2seq", dtype=dtype) as sc:
        encoder_cell = tf.contrib.rnn.EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        encoder_outputs, state = tf.nn.static_rnn(encoder_cell, encoder_inputs, dtype=sc.dtype)
        states = tf.concat([tf.reshape(e, [-1, 1, cell.output_size]) for e in encoder_outputs], 1)
        size = None
        if output_projection is None:
            cell = tf.contrib.rnn.OutputProjectionWrapper(cell, num_decoder_symbols)
            size = num_decoder_symbols

        def decoder(feed: bool) -> Any:
            return embedding_attention_decoder(
                decoder_inputs, state, states, cell, num_decoder_symbols, embedding_size, num_heads, size,
                output_projection, feed, initial_state_attention=initial_state_attention,
            )  # fmt: skip

        return decoder(feed_previous) if isinstance(feed_previous, bool) else _branches(feed_previous, decoder, state)
