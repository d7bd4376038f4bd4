"""Conjugate gradients for equations and least squares, and Lanczos' bidiagonalization, of operators."""

from __future__ import annotations

import collections
from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export, export_value

_Solution = collections.namedtuple("_Solution", ["i", "x", "r", "p", "gamma"])
_Operator = collections.namedtuple("_Operator", ["shape", "dtype", "apply", "apply_adjoint"])


@export("contrib.solvers.util.create_operator")
def create_operator(matrix: Any) -> Any:
    """An operator, as the solvers take it, of a matrix."""
    matrix = tf.convert_to_tensor(matrix, name="matrix")
    return _Operator(
        matrix.shape if matrix.shape.is_fully_defined() else tf.shape(matrix), matrix.dtype,
        lambda v: tf.matmul(matrix, v), lambda v: tf.matmul(matrix, v, adjoint_a=True),
    )  # fmt: skip


@export("contrib.solvers.util.identity_operator")
def identity_operator(matrix: Any) -> Any:
    """The identity of the size of a matrix's rows."""
    matrix = tf.convert_to_tensor(matrix, name="matrix")
    shape = matrix.shape if matrix.shape.is_fully_defined() else tf.shape(matrix)
    return _Operator(shape, matrix.dtype, lambda v: v, lambda v: v)


@export("contrib.solvers.util.dot")
def dot(x: Any, y: Any) -> Any:
    """The inner product of columns."""
    return tf.reduce_sum(tf.math.conj(x) * y)


@export("contrib.solvers.util.l2norm_squared")
def l2norm_squared(v: Any) -> Any:
    """The squared norm of a vector, as a tensor of one element."""
    return tf.constant(2, dtype=v.dtype.base_dtype) * tf.nn.l2_loss(v)


@export("contrib.solvers.util.l2norm")
def l2norm(v: Any) -> Any:
    """The norm of a vector."""
    return tf.sqrt(l2norm_squared(v))


@export("contrib.solvers.util.l2normalize")
def l2normalize(v: Any) -> tuple[Any, Any]:
    """A vector of norm 1, and the norm that it had."""
    norm = l2norm(v)
    return v / norm, norm


for _name in ("linear_equations.util", "least_squares.util", "lanczos.util"):
    for _function in (create_operator, identity_operator, dot, l2norm_squared, l2norm, l2normalize):
        export_value(_function, f"contrib.solvers.{_name}.{_function.__name__}")


def _squeezed(found: Any) -> Any:
    """The end of a solver's loop, with vectors in place of columns."""
    i, x, r, p, gamma = found
    return _Solution(i, tf.squeeze(x), tf.squeeze(r), tf.squeeze(p), gamma)


@export("contrib.solvers.linear_equations.conjugate_gradient")
def conjugate_gradient(
    operator: Any, rhs: Any, preconditioner: Any = None, x: Any = None, tol: float = 1e-4, max_iter: int = 20,
    name: str = "conjugate_gradient",
) -> Any:  # fmt: skip
    """Solves `A x = rhs` for a positive definite operator.

    Args:
        operator: Has `shape`, `dtype`, `apply` and `apply_adjoint`.
        rhs: A vector.
        preconditioner: An operator near the inverse of `operator`.
        x: Where to begin; 0 if None.
        tol: Ends when the residual is this small beside that of the beginning.
        max_iter: Ends after so many iterations at the latest.
        name: The name scope.

    Returns:
        A tuple: iterations `i`, solution `x`, residual `r`, search direction `p`, and `gamma`, the product of the
        residual and its preconditioned self.
    """
    with tf.name_scope(name):
        column = tf.expand_dims(rhs, -1)
        precondition = (lambda v: v) if preconditioner is None else preconditioner.apply
        start = tf.zeros_like(column) if x is None else tf.expand_dims(x, -1)
        residual = column if x is None else column - operator.apply(start)
        direction = precondition(residual)
        limit = tol * l2norm(residual)
        state = _Solution(tf.constant(0, tf.int32), start, residual, direction, dot(residual, direction))

        def step(i: Any, x: Any, r: Any, p: Any, gamma: Any) -> Any:
            z = operator.apply(p)
            alpha = gamma / dot(p, z)
            x = x + alpha * p
            r = r - alpha * z
            q = precondition(r)
            new = dot(r, q)
            return _Solution(i + 1, x, r, q + new / gamma * p, new)

        found = tf.while_loop(
            lambda i, x, r, p, gamma: (i < max_iter) & (l2norm(r) > limit), lambda *each: step(*each), state
        )
        return _squeezed(found)


@export("contrib.solvers.least_squares.cgls")
def cgls(operator: Any, rhs: Any, tol: float = 1e-6, max_iter: int = 20, name: str = "cgls") -> Any:
    """Minimizes the norm of `A x - rhs` by conjugate gradients on the normal equations.

    Returns:
        A tuple: iterations `i`, solution `x`, residual `r`, search direction `p`, and `gamma`, the squared norm of
        the gradient.
    """
    with tf.name_scope(name):
        size = operator.shape.as_list()[1:] if hasattr(operator.shape, "as_list") else operator.shape[-1:]
        column = tf.expand_dims(rhs, -1)
        start = tf.expand_dims(tf.zeros(size, dtype=rhs.dtype.base_dtype), 1)
        gradient = operator.apply_adjoint(column)
        limit = tol * l2norm(gradient)
        state = _Solution(tf.constant(0, tf.int32), start, column, gradient, l2norm_squared(gradient))

        def step(i: Any, x: Any, r: Any, p: Any, gamma: Any) -> Any:
            q = operator.apply(p)
            alpha = gamma / l2norm_squared(q)
            x = x + alpha * p
            r = r - alpha * q
            s = operator.apply_adjoint(r)
            new = l2norm_squared(s)
            return _Solution(i + 1, x, r, s + new / gamma * p, new)

        found = tf.while_loop(
            lambda i, x, r, p, gamma: (i < max_iter) & (tf.sqrt(gamma) > limit), lambda *each: step(*each), state
        )
        return _squeezed(found)


_Bidiagonal = collections.namedtuple("_Bidiagonal", ["u", "v", "alpha", "beta"])


@export("contrib.solvers.lanczos.lanczos_bidiag")
def lanczos_bidiag(
    operator: Any, k: int, orthogonalize: bool = True, starting_vector: Any = None, name: str = "lanczos_bidiag"
) -> Any:
    """Golub and Kahan's bidiagonalization: `A V = U B`, with orthonormal columns of `u` and `v`.

    Args:
        operator: Has `shape`, `dtype`, `apply` and `apply_adjoint`.
        k: The number of steps.
        orthogonalize: Whether to keep columns orthogonal to all before.
        starting_vector: Where to begin; random numbers if None.
        name: The name scope.

    Returns:
        A tuple: `u`, `v`, and the diagonal `alpha` and sub-diagonal `beta` of B.
    """
    with tf.name_scope(name):
        if starting_vector is None:
            size = tf.convert_to_tensor(operator.shape)[0]
            starting_vector = tf.random_uniform([size], -1, 1, dtype=operator.dtype)
        u, _ = l2normalize(tf.expand_dims(starting_vector, -1))
        left: list[Any] = [u]
        right: list[Any] = []
        alphas: list[Any] = []
        betas: list[Any] = []
        beta: Any = None
        for _ in range(k):
            v = operator.apply_adjoint(left[-1])
            if beta is not None:
                v -= beta * right[-1]
            v, alpha = l2normalize(_orthogonal(v, right) if orthogonalize else v)
            right.append(v)
            u = operator.apply(v) - alpha * left[-1]
            u, beta = l2normalize(_orthogonal(u, left) if orthogonalize else u)
            left.append(u)
            alphas.append(alpha)
            betas.append(beta)
        return _Bidiagonal(tf.concat(left, 1), tf.concat(right, 1), tf.stack(alphas), tf.stack(betas))


def _orthogonal(vector: Any, columns: list[Any]) -> Any:
    """Without what it has of the columns; twice, since rounding leaves some."""
    if columns:
        basis = tf.concat(columns, 1)
        for _ in range(2):
            vector -= tf.matmul(basis, tf.matmul(basis, vector, adjoint_a=True))
    return vector
