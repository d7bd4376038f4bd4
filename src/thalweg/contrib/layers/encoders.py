"""Embeddings of sequences: embed_sequence, bow_encoder, embedding_lookup_unique."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.framework.variables import model_variable
from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


def _table(
    vocab_size: Any, embed_dim: Any, initializer: Any, regularizer: Any, trainable: bool, initial: Any = None
) -> Any:
    shape = [vocab_size, embed_dim]
    if initial is not None:
        return model_variable(
            "embeddings", shape=shape if vocab_size else None, initializer=initial, trainable=trainable,
            regularizer=regularizer,
        )  # fmt: skip
    return model_variable(
        "embeddings", shape=shape, initializer=initializer, regularizer=regularizer, trainable=trainable
    )


@export("contrib.layers.bow_encoder")
def bow_encoder(
    ids: Any,
    vocab_size: int,
    embed_dim: int,
    sparse_lookup: bool = True,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Any = None,
) -> Any:
    """The mean of the embeddings of each example's symbols: [batch, embed_dim].

    Raises:
        TypeError: If `ids` is sparse and `sparse_lookup` is False.
    """
    with tf.variable_scope(scope, "bow_encoder", [ids], reuse=reuse):
        embeddings = _table(vocab_size, embed_dim, initializer, regularizer, trainable)
        if sparse_lookup:
            sparse = ids if isinstance(ids, tf.SparseTensor) else tf.contrib.layers.dense_to_sparse(ids)
            return tf.contrib.layers.safe_embedding_lookup_sparse([embeddings], sparse, combiner="mean", default_id=0)
        if isinstance(ids, tf.SparseTensor):
            raise TypeError("ids are expected to be dense Tensor, got: %s", ids)
        return tf.reduce_mean(tf.nn.embedding_lookup(embeddings, ids), axis=1)


@export("contrib.layers.embed_sequence")
def embed_sequence(
    ids: Any,
    vocab_size: int | None = None,
    embed_dim: int | None = None,
    unique: bool = False,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Any = None,
) -> Any:
    """The embedding of each symbol: [batch, length, embed_dim].

    Args:
        ids: Integers [batch, length].
        vocab_size: The number of symbols.
        embed_dim: The size of an embedding.
        unique: Whether each symbol is looked up once.
        initializer: First value of the embeddings; a tensor has to go without `vocab_size` and `embed_dim`.
        regularizer: A function of the embeddings that gives a loss.
        trainable: Whether optimizers change them.
        scope: The variable scope; 'EmbedSequence' by default.
        reuse: Whether the variable is found instead of created; needs a scope.

    Returns:
        The embeddings of the symbols.

    Raises:
        ValueError: If sizes are missing, or `reuse` has no scope.
    """
    if not (reuse or (vocab_size and embed_dim)):
        raise ValueError(
            f"Must specify vocab size and embedding dimension when not reusing. "
            f"Got vocab_size={vocab_size} and embed_dim={embed_dim}"
        )
    if reuse and scope is None:
        raise ValueError("Must specify scope name when reusing.")
    with tf.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = [vocab_size, embed_dim]
        if (reuse and vocab_size is None) or (reuse and embed_dim is None):
            shape = None  # type: ignore[assignment]
        embeddings = model_variable(
            "embeddings", shape=shape, initializer=initializer, regularizer=regularizer, trainable=trainable
        )
        lookup = embedding_lookup_unique if unique else tf.nn.embedding_lookup
        return lookup(embeddings, ids)


@export("contrib.layers.embedding_lookup_unique")
def embedding_lookup_unique(params: Any, ids: Any, partition_strategy: str = "mod", name: str | None = None) -> Any:
    """`tf.nn.embedding_lookup` that looks each id up once."""
    with tf.name_scope(name, "EmbeddingLookupUnique", [params, ids]):
        ids = tf.convert_to_tensor(ids)
        unique, index = tf.unique(tf.reshape(ids, [-1]))
        rows = tf.nn.embedding_lookup(params, unique, partition_strategy)
        flat = tf.gather(rows, index)
        result = tf.reshape(flat, tf.concat([tf.shape(ids), tf.shape(rows)[1:]], 0))
        result.set_shape(ids.shape.concatenate(rows.shape[1:]))
        return result
