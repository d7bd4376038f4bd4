"""Solving with the factors of `tf.linalg.lu`, norms taken out, and the method of conjugate gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

from thalweg.graph.definitions.op_registry import export
from thalweg.linalg.linear_operator import broadcast_batch, tf


@export("linalg.lu_solve")
def lu_solve(lower_upper: Any, perm: Any, rhs: Any, validate_args: bool = False, name: str | None = None) -> Any:
    """Solves `A X = rhs` with the factors of `tf.linalg.lu`.

    Args:
        lower_upper: The factors of `A` in one matrix.
        perm: The permutation.
        rhs: The right sides `[..., M, K]`.
        validate_args: Whether to check the shapes when a step runs; they are checked anyway.
        name: A name for the nodes.

    Returns:
        `X`.

    Example:
        >>> lu, p = tf.linalg.lu([[1.0, 2.0], [3.0, 4.0]])
        >>> with tf.Session() as sess:
        ...     print(sess.run(tf.linalg.lu_solve(lu, p, [[3.0], [7.0]])).round(4).tolist())
        [[1.0], [1.0]]
    """
    with tf.name_scope(name, "lu_solve"):
        lu = tf.convert_to_tensor(lower_upper, name="lower_upper")
        rhs = tf.convert_to_tensor(rhs, dtype=lu.dtype, name="rhs")
        order = tf.one_hot(perm, tf.shape(lu)[-1], dtype=lu.dtype)
        lu, permuted = broadcast_batch(lu, tf.matmul(order, rhs))
        lower = tf.linalg.set_diag(tf.matrix_band_part(lu, -1, 0), tf.ones_like(tf.matrix_diag_part(lu)))
        return tf.matrix_triangular_solve(lu, tf.matrix_triangular_solve(lower, permuted), lower=False)


@export("linalg.lu_matrix_inverse")
def lu_matrix_inverse(lower_upper: Any, perm: Any, validate_args: bool = False, name: str | None = None) -> Any:
    """The inverse of a matrix, with the factors of `tf.linalg.lu`."""
    with tf.name_scope(name, "lu_matrix_inverse"):
        lu = tf.convert_to_tensor(lower_upper, name="lower_upper")
        sizes = tf.shape(lu)
        return lu_solve(lu, perm, tf.eye(sizes[-1], batch_shape=sizes[:-2], dtype=lu.dtype))


@export("linalg.lu_reconstruct")
def lu_reconstruct(lower_upper: Any, perm: Any, validate_args: bool = False, name: str | None = None) -> Any:
    """The matrix whose factors `tf.linalg.lu` returned."""
    with tf.name_scope(name, "lu_reconstruct"):
        lu = tf.convert_to_tensor(lower_upper, name="lower_upper")
        lower = tf.linalg.set_diag(tf.matrix_band_part(lu, -1, 0), tf.ones_like(tf.matrix_diag_part(lu)))
        order = tf.one_hot(perm, tf.shape(lu)[-1], dtype=lu.dtype)
        return tf.matmul(order, tf.matmul(lower, tf.matrix_band_part(lu, 0, -1)), transpose_a=True)


@export("linalg.normalize")
def normalize(tensor: Any, ord: Any = "euclidean", axis: Any = None, name: str | None = None) -> Any:
    """The tensor divided by its norm, and the norm.

    Args:
        tensor: Of real or complex numbers.
        ord: The order of the norm, as `tf.norm` takes it.
        axis: The axis of vectors, or the two of matrices; all elements as one vector if None.
        name: A name for the nodes.

    Returns:
        The normalized tensor, and the norm with axes of size 1.
    """
    with tf.name_scope(name, "normalize"):
        tensor = tf.convert_to_tensor(tensor)
        norm = tf.cast(tf.norm(tensor, ord, axis, keepdims=True), tensor.dtype)
        return tensor / norm, norm


class _State(NamedTuple):
    """What a step of the method of conjugate gradients leaves."""

    i: Any
    x: Any
    r: Any
    p: Any
    gamma: Any


@export("linalg.experimental.conjugate_gradient")
def conjugate_gradient(
    operator: Any, rhs: Any, preconditioner: Any = None, x: Any = None, tol: float = 1e-5, max_iter: int = 20,
    name: str = "conjugate_gradient",
) -> Any:  # fmt: skip
    """Solves `A x = rhs` for a self-adjoint, positive definite operator, by products with it only.

    Args:
        operator: A LinearOperator.
        rhs: The right sides `[..., N]`.
        preconditioner: A LinearOperator near the inverse of `A`.
        x: Where to begin; 0 if None.
        tol: Ends when no residual is longer than `tol` times its right side.
        max_iter: Ends after so many steps.
        name: A name for the nodes.

    Returns:
        A namedtuple: `i`, the steps; `x`, the solution; `r`, the residual; `p`, the direction; `gamma`, the square of
        the residual's length.

    Raises:
        ValueError: If the operator is not said to be self-adjoint and positive definite.
    """
    if not (operator.is_self_adjoint and operator.is_positive_definite):
        raise ValueError("Expected a self-adjoint, positive definite operator.")

    def dot(a: Any, b: Any) -> Any:
        return tf.reduce_sum(tf.conj(a) * b if a.dtype.is_complex else a * b, -1)

    def towards(residual: Any) -> Any:
        return residual if preconditioner is None else preconditioner.matvec(residual)

    with tf.name_scope(name):
        rhs = tf.convert_to_tensor(rhs, name="rhs")
        limit = tol * tf.norm(rhs, axis=-1)
        start = tf.zeros_like(rhs) if x is None else tf.convert_to_tensor(x, dtype=rhs.dtype)
        residual = rhs if x is None else rhs - operator.matvec(start)
        direction = towards(residual)
        first = _State(tf.constant(0), start, residual, direction, dot(residual, direction))

        def goes_on(s: Any) -> Any:
            return tf.logical_and(s.i < max_iter, tf.reduce_any(tf.norm(s.r, axis=-1) > limit))

        def step(s: Any) -> Any:
            product = operator.matvec(s.p)
            size = (s.gamma / dot(s.p, product))[..., None]
            r = s.r - size * product
            q = towards(r)
            gamma = dot(r, q)
            return (_State(s.i + 1, s.x + size * s.p, r, q + (gamma / s.gamma)[..., None] * s.p, gamma),)

        return tf.while_loop(goes_on, step, [first])
