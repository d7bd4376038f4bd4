"""`tensorflow.python.ops.linalg.linear_operator_util`: batches of matrices whose batch shapes broadcast."""

from __future__ import annotations

from typing import Any

import thalweg

tf: Any = thalweg


def broadcast_matrix_batch_dims(batch_matrices: Any, name: str | None = None) -> list[Any]:
    """The matrices with one common batch shape.

    Raises:
        ValueError: If one of them has fewer than two dimensions.
    """
    with tf.name_scope(name, "broadcast_matrix_batch_dims", batch_matrices):
        matrices = [tf.convert_to_tensor(each) for each in batch_matrices]
        for each in matrices:
            if each.shape.ndims is not None and each.shape.ndims < 2:
                raise ValueError(f"Tensor {each.name} of shape {each.shape} is not a batch of matrices")
        if len(matrices) < 2:
            return matrices
        static = [each.shape[:-2] for each in matrices]
        if all(s.is_fully_defined() and s == static[0] for s in static):
            return matrices
        batch = tf.shape(matrices[0])[:-2]
        for each in matrices[1:]:
            batch = tf.broadcast_dynamic_shape(batch, tf.shape(each)[:-2])
        return [tf.broadcast_to(each, tf.concat([batch, tf.shape(each)[-2:]], 0)) for each in matrices]


def matmul_with_broadcast(
    a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, adjoint_a: bool = False,
    adjoint_b: bool = False, a_is_sparse: bool = False, b_is_sparse: bool = False, name: str | None = None,
) -> Any:  # fmt: skip
    """`matmul`, which broadcasts by itself."""
    return tf.matmul(a, b, transpose_a, transpose_b, adjoint_a, adjoint_b, a_is_sparse, b_is_sparse, name)


def matrix_solve_with_broadcast(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Any:
    """`matrix_solve` of batches that broadcast."""
    return tf.matrix_solve(*broadcast_matrix_batch_dims([matrix, rhs]), adjoint=adjoint, name=name)


def cholesky_solve_with_broadcast(chol: Any, rhs: Any, name: str | None = None) -> Any:
    """`cholesky_solve` of batches that broadcast."""
    return tf.cholesky_solve(*broadcast_matrix_batch_dims([chol, rhs]), name=name)


def matrix_triangular_solve_with_broadcast(
    matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Any:
    """`matrix_triangular_solve` of batches that broadcast."""
    pair = broadcast_matrix_batch_dims([matrix, rhs])
    return tf.matrix_triangular_solve(*pair, lower=lower, adjoint=adjoint, name=name)


def shape_tensor(shape: Any, name: str | None = None) -> Any:
    """A shape as an int32 tensor."""
    dtype = tf.int32 if isinstance(shape, (tuple, list)) and not shape else None
    return tf.convert_to_tensor(shape, dtype=dtype, name=name)
