"""tf.get_embedding_variable: finds or creates the embedding variable of a name, whole or in parts."""

from __future__ import annotations

from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_list, apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.operation import Operation
from thalweg.ops.array.constants import group
from thalweg.state.embedding_options import EmbeddingOptions
from thalweg.state.embedding_variable import EmbeddingVariable
from thalweg.state.partitioned_variable import PartitionedVariable
from thalweg.state.variable_scope import get_variable_scope
from thalweg.state.variable_store import store_of_default_graph

# For partitioners that go by size: the number of rows that they are told.
_MANY_ROWS = 1 << 40
_MOST_PARTS = 4096


@export("get_embedding_variable")
def get_embedding_variable(
    name: str,
    embedding_dim: int,
    key_dtype: Any = dtypes.int64,
    initializer: Any = None,
    trainable: bool | None = None,
    collections: Any = None,
    partitioner: Any = None,
    options: EmbeddingOptions | None = None,
) -> Any:
    """Finds or creates an embedding variable with open ids in the current variable scope.

    Args:
        name: Its name below the scope.
        embedding_dim: The number of elements of a row.
        key_dtype: The type of ids: int64 or string.
        initializer: The first values of rows, as a function of id and seed: a number, or one of TensorFlow's
            initializers zeros, ones, constant, random_uniform, random_normal, truncated_normal. By default a truncated
            normal distribution with standard deviation `1 / sqrt(embedding_dim)`.
        trainable: Whether optimizers change it by default: yes if None.
        collections: The collections to join; GraphKeys.GLOBAL_VARIABLES if None.
        partitioner: Says into how many parts to cut it, such as `tf.fixed_size_partitioner(4)`; that of the scope if
            None. Ids are spread over parts by their hashes.
        options: When rows come and go, how and where they are kept.

    Returns:
        An EmbeddingVariable, or a PartitionedVariable of several.

    Raises:
        ValueError: If it exists and may not be reused, does not exist and should, or has another form.

    Example:
        >>> users = tf.get_embedding_variable("users", 4, tf.string, initializer=tf.zeros_initializer())
        >>> loss = tf.reduce_sum(tf.nn.embedding_lookup(users, ["ann", "bob"]))
        >>> step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
        >>> with tf.Session() as sess:
        ...     sess.run(tf.global_variables_initializer())
        ...     sess.run(step)
        ...     print(sess.run(tf.nn.embedding_lookup(users, ["bob", "eve"])), sess.run(users.size()))
        [[-0.5 -0.5 -0.5 -0.5]
         [ 0.   0.   0.   0. ]] 2
    """
    scope = get_variable_scope()
    full = f"{scope.name}/{name}" if scope.name else name
    partitioner = scope.partitioner if partitioner is None else partitioner
    store = store_of_default_graph()
    found = store.partitioned.get(full, store.vars.get(full))
    if found is not None:
        return _checked(found, full, scope.reuse, embedding_dim, key_dtype)
    if scope.reuse is True:
        raise ValueError(f"Embedding variable {full} does not exist. Did you mean to set reuse=tf.AUTO_REUSE?")
    given = {
        "embedding_dim": embedding_dim, "key_dtype": key_dtype, "trainable": trainable, "collections": collections,
        "initializer": scope.initializer if initializer is None else initializer, "options": options,
    }  # fmt: skip
    with name_scope(None):
        if partitioner is None:
            store.vars[full] = EmbeddingVariable(full, **given)
            return store.vars[full]
        parts = _parts(partitioner, embedding_dim, full)
        made = [
            EmbeddingVariable(f"{full}/part_{i}", full_name=full, part=i, num_parts=parts, **given)
            for i in range(parts)
        ]
    for part in made:
        store.vars[part.op.name] = part
    whole = PartitionedVariable(full, [None, embedding_dim], dtypes.float32, made, [parts, 1])
    store.partitioned[full] = whole
    return whole


def _parts(partitioner: Any, dim: int, name: str) -> int:
    parts = list(partitioner(shape=[_MANY_ROWS, dim], dtype=dtypes.float32))
    if len(parts) != 2 or parts[1] != 1 or not 1 <= parts[0] <= _MOST_PARTS:
        raise ValueError(
            f"The partitioner of embedding variable {name} must return [n, 1] with n from 1 to {_MOST_PARTS}, "
            f"got {parts}; fixed_size_partitioner(n) does."
        )
    return int(parts[0])


def _checked(found: Any, name: str, reuse: Any, dim: int, key_dtype: Any) -> Any:
    first = found._get_variable_list()[0] if isinstance(found, PartitionedVariable) else found
    if not isinstance(first, EmbeddingVariable):
        raise ValueError(f"Variable {name} exists, and is not an embedding variable.")
    if not reuse:
        raise ValueError(
            f"Embedding variable {name} already exists, disallowed. Did you mean to set reuse=True or "
            "reuse=tf.AUTO_REUSE in VarScope?"
        )
    if first.embedding_dim != dim or first.key_dtype is not as_dtype(key_dtype):
        raise ValueError(
            f"Embedding variable {name} has keys of type {first.key_dtype.name} and rows of {first.embedding_dim} "
            f"elements; asked for {as_dtype(key_dtype).name} and {dim}."
        )
    return found


def parts_of(variable: Any) -> list[EmbeddingVariable]:
    """The parts of an embedding variable.

    Raises:
        TypeError: If it is something else.
    """
    parts = variable._get_variable_list() if isinstance(variable, PartitionedVariable) else [variable]
    if not all(isinstance(part, EmbeddingVariable) for part in parts):
        raise TypeError(f"Expected an embedding variable, got {variable!r}.")
    return parts


def _per_part(variable: Any, keys: Any, act: Any) -> Operation:
    """Does something for each part with its keys; `act(part, keys, places)` returns the operation."""
    parts = parts_of(variable)
    wanted = apply_one("Reshape", parts[0].keys_tensor(keys), [-1])
    if len(parts) == 1:
        return group(act(parts[0], wanted, None))
    where = parts[0].part_of(wanted, len(parts))
    mine = apply_list("DynamicPartition", wanted, where, num_partitions=len(parts))
    numbers = apply_one("Range", 0, apply_one("Size", wanted), 1)
    places = apply_list("DynamicPartition", numbers, where, num_partitions=len(parts))
    return group(*(act(part, own, at) for part, own, at in zip(parts, mine, places, strict=True)))


@export("nn.prefetch_rows")
def prefetch_rows(variable: Any, ids: Any, name: str | None = None) -> Operation:
    """Starts to fetch the rows of coming ids from disk, and does not wait for them.

    Run it for the ids of the next batch, while a step works on this one.

    Args:
        variable: An embedding variable, whole or in parts.
        ids: A tensor of ids, or the values of a SparseTensor.
        name: A name for the operation.
    """
    with name_scope(name, "prefetch_rows"):
        return _per_part(variable, getattr(ids, "values", ids), lambda part, keys, places: part.prefetch(keys))


@export("nn.insert_rows")
def insert_rows(variable: Any, ids: Any, values: Any, name: str | None = None) -> Operation:
    """Gives ids rows with these values: a warm start from another model, such as one with a fixed vocabulary.

    Args:
        variable: An embedding variable, whole or in parts.
        ids: A vector of ids.
        values: A row for each.
        name: A name for the operation.
    """
    with name_scope(name, "insert_rows"):
        rows = convert_to_tensor(values, dtypes.float32)

        def insert(part: EmbeddingVariable, keys: Any, places: Any) -> Operation:
            return part.insert(keys, rows if places is None else apply_one("GatherV2", rows, places, 0))

        return _per_part(variable, ids, insert)
