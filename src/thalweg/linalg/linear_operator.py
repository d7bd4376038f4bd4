"""LinearOperator: a batch of matrices that need not exist as tensors. Classes of structure override what is cheaper."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg
from thalweg.graph.definitions.op_registry import export

tf: Any = thalweg  # The public names are bound at run time.


def adjoint_if(x: Any, condition: bool) -> Any:
    """The adjoint of a batch of matrices, or the matrices as they are."""
    return tf.linalg.adjoint(x) if condition else x


def conj_if(x: Any, condition: bool) -> Any:
    """The complex conjugate, or the value as it is."""
    return tf.conj(x) if condition and x.dtype.is_complex else x


def broadcast_batch(*matrices: Any) -> list[Any]:
    """The matrices with one shape of batch for all: those that differ are repeated."""
    known = [x.shape[:-2] for x in matrices]
    if all(shape.is_fully_defined() and shape.as_list() == known[0].as_list() for shape in known):
        return list(matrices)
    batch = tf.shape(matrices[0])[:-2]
    for x in matrices[1:]:
        batch = tf.broadcast_dynamic_shape(batch, tf.shape(x)[:-2])
    static = known[0]
    for shape in known[1:]:
        static = tf.broadcast_static_shape(static, shape)
    found = [tf.broadcast_to(x, tf.concat([batch, tf.shape(x)[-2:]], 0)) for x in matrices]
    for x, given in zip(found, matrices, strict=True):
        x.set_shape(static.concatenate(given.shape[-2:]))
    return found


def combined(values: list[bool | None]) -> bool | None:
    """Whether all hold: True or False if that is known of all, None if not."""
    if all(values):
        return True
    return None


@export("linalg.LinearOperator")
class LinearOperator:
    """A batch of matrices `A` of shape `[B1, ..., Bb, M, N]`: products, solutions, determinants.

    Subclasses define `_shape`, `_shape_tensor` and `_matmul`, or `_to_dense`; everything else follows from these, and
    is overridden where the structure makes it cheaper.

    Example:
        >>> operator = tf.linalg.LinearOperatorDiag([2.0, 4.0])
        >>> with tf.Session() as sess:
        ...     print(sess.run(operator.solvevec([2.0, 2.0])), sess.run(operator.determinant()))
        [1.  0.5] 8.0
    """

    def __init__(
        self,
        dtype: Any,
        graph_parents: Any = None,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
        parameters: Any = None,
    ) -> None:
        """For subclasses. The hints are promises: what relies on a wrong one is wrong.

        Args:
            dtype: The element type.
            graph_parents: The tensors that the operator is made of.
            is_non_singular: Whether all matrices can be inverted.
            is_self_adjoint: Whether they are their own adjoints.
            is_positive_definite: Whether `x^H A x` has a positive real part for every `x` other than 0.
            is_square: Whether they are square.
            name: A name for the nodes.
            parameters: Not used.

        Raises:
            ValueError: If hints contradict each other.
        """
        if is_positive_definite:
            if is_non_singular is False:
                raise ValueError("A positive definite matrix is always non-singular.")
            is_non_singular = True
        if is_non_singular:
            if is_square is False:
                raise ValueError("A non-singular matrix is always square.")
            is_square = True
        if is_self_adjoint:
            if is_square is False:
                raise ValueError("A self-adjoint matrix is always square.")
            is_square = True
        self._dtype = None if dtype is None else tf.as_dtype(dtype)
        self._graph_parents = list(graph_parents or [])
        self.is_non_singular = is_non_singular
        self.is_self_adjoint = is_self_adjoint
        self.is_positive_definite = is_positive_definite
        self._is_square = is_square
        self._name = name or type(self).__name__

    # Types and shapes.

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self._dtype

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    @property
    def graph_parents(self) -> list[Any]:
        """The tensors that the operator is made of."""
        return self._graph_parents

    def _shape(self) -> Any:
        raise NotImplementedError("A subclass of LinearOperator defines _shape.")

    def _shape_tensor(self) -> Any:
        raise NotImplementedError("A subclass of LinearOperator defines _shape_tensor.")

    @property
    def shape(self) -> Any:
        """The static shape `[B1, ..., Bb, M, N]`."""
        return self._shape()

    def shape_tensor(self, name: str = "shape_tensor") -> Any:
        """The shape, when a step runs."""
        if self.shape.is_fully_defined():
            return tf.constant(self.shape.as_list(), tf.int32, name=name)
        return self._shape_tensor()

    @property
    def batch_shape(self) -> Any:
        """The static shape of the batch."""
        return self.shape[:-2]

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Any:
        """The shape of the batch, when a step runs."""
        return self.shape_tensor()[:-2]

    @property
    def tensor_rank(self) -> Any:
        """The number of axes, those of the batch included."""
        return self.shape.ndims

    def tensor_rank_tensor(self, name: str = "tensor_rank_tensor") -> Any:
        """The number of axes, when a step runs."""
        return tf.size(self.shape_tensor())

    @property
    def range_dimension(self) -> Any:
        """The number of rows."""
        return self.shape[-2]

    @property
    def domain_dimension(self) -> Any:
        """The number of columns."""
        return self.shape[-1]

    def range_dimension_tensor(self, name: str = "range_dimension_tensor") -> Any:
        """The number of rows, when a step runs."""
        return self.shape_tensor()[-2]

    def domain_dimension_tensor(self, name: str = "domain_dimension_tensor") -> Any:
        """The number of columns, when a step runs."""
        return self.shape_tensor()[-1]

    @property
    def is_square(self) -> bool | None:
        """Whether the matrices are square; None if that is not known."""
        rows, columns = (tf.dimension_value(size) for size in (self.range_dimension, self.domain_dimension))
        if self._is_square is None and rows is not None and columns is not None:
            return bool(rows == columns)
        return self._is_square

    def _require_square(self, what: str) -> None:
        if self.is_square is False:
            raise NotImplementedError(f"{what} of {self._name} needs square matrices, its shape is {self.shape}.")

    # What operators do to vectors.

    def _argument(self, x: Any, name: str) -> Any:
        return tf.convert_to_tensor(x, dtype=self.dtype, name=name)

    def _matmul(self, x: Any, adjoint: bool = False) -> Any:
        return tf.matmul(self.to_dense(), x, adjoint_a=adjoint)

    def matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul") -> Any:
        """`A x`, or with the adjoint of either; of another operator, the operator of the product."""
        with tf.name_scope(f"{self._name}/{name}"):
            if isinstance(x, LinearOperator):
                left, right = self.adjoint() if adjoint else self, x.adjoint() if adjoint_arg else x
                return tf.linalg.LinearOperatorComposition([left, right])
            return self._matmul(adjoint_if(self._argument(x, "x"), adjoint_arg), adjoint)

    def __matmul__(self, other: Any) -> Any:
        return self.matmul(other)

    def matvec(self, x: Any, adjoint: bool = False, name: str = "matvec") -> Any:
        """`A x` of vectors."""
        return tf.squeeze(self.matmul(self._argument(x, "x")[..., None], adjoint=adjoint, name=name), -1)

    def _solve(self, rhs: Any, adjoint: bool = False) -> Any:
        return tf.matrix_solve(*broadcast_batch(self.to_dense(), rhs), adjoint=adjoint)

    def solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve") -> Any:
        """`X` of `A X = rhs`.

        Raises:
            NotImplementedError: If the matrices are known to be singular or not square.
        """
        if self.is_non_singular is False:
            raise NotImplementedError("Exact solve not implemented for an operator that is expected to be singular.")
        self._require_square("solve")
        with tf.name_scope(f"{self._name}/{name}"):
            if isinstance(rhs, LinearOperator):
                left = self.inverse().adjoint() if adjoint else self.inverse()
                return left.matmul(rhs, adjoint_arg=adjoint_arg)
            return self._solve(adjoint_if(self._argument(rhs, "rhs"), adjoint_arg), adjoint)

    def solvevec(self, rhs: Any, adjoint: bool = False, name: str = "solve") -> Any:
        """`x` of `A x = rhs`, of vectors."""
        return tf.squeeze(self.solve(self._argument(rhs, "rhs")[..., None], adjoint=adjoint, name=name), -1)

    # The matrices themselves.

    def _to_dense(self) -> Any:
        batch, size = self.batch_shape_tensor(), self.domain_dimension_tensor()
        return self._matmul(tf.eye(size, batch_shape=batch, dtype=self.dtype))

    def to_dense(self, name: str = "to_dense") -> Any:
        """The matrices as a tensor."""
        with tf.name_scope(f"{self._name}/{name}"):
            dense = self._to_dense()
            dense.set_shape(self.shape)
            return dense

    def _diag_part(self) -> Any:
        return tf.matrix_diag_part(self.to_dense())

    def diag_part(self, name: str = "diag_part") -> Any:
        """The diagonals."""
        return self._diag_part()

    def trace(self, name: str = "trace") -> Any:
        """The sums of the diagonals."""
        return tf.reduce_sum(self.diag_part(), -1)

    def add_to_tensor(self, x: Any, name: str = "add_to_tensor") -> Any:
        """`A + x`."""
        return self._argument(x, "x") + self.to_dense()

    def _determinant(self) -> Any:
        return tf.matrix_determinant(self.to_dense())

    def determinant(self, name: str = "det") -> Any:
        """The determinants."""
        self._require_square("determinant")
        return self._determinant()

    def _log_abs_determinant(self) -> Any:
        return tf.linalg.slogdet(self.to_dense())[1]

    def log_abs_determinant(self, name: str = "log_abs_det") -> Any:
        """The logarithms of the absolute values of the determinants."""
        self._require_square("log_abs_determinant")
        return self._log_abs_determinant()

    def eigvals(self, name: str = "eigvals") -> Any:
        """The eigenvalues of self-adjoint matrices."""
        if not self.is_self_adjoint:
            raise NotImplementedError("Only self-adjoint matrices are supported.")
        return tf.linalg.eigvalsh(self.to_dense())

    def cond(self, name: str = "cond") -> Any:
        """The condition numbers: the largest singular value over the smallest."""
        self._require_square("cond")
        values = tf.svd(self.to_dense(), compute_uv=False)
        return tf.reduce_max(values, -1) / tf.reduce_min(values, -1)

    # Other operators.

    def _adjoint(self) -> LinearOperator:
        found: LinearOperator = tf.linalg.LinearOperatorAdjoint(self)
        return found

    def adjoint(self, name: str = "adjoint") -> Any:
        """The operator of the adjoint matrices."""
        return self if self.is_self_adjoint else self._adjoint()

    H = property(adjoint, None)

    def _inverse(self) -> Any:
        return tf.linalg.LinearOperatorInversion(self)

    def inverse(self, name: str = "inverse") -> Any:
        """The operator of the inverse matrices.

        Raises:
            ValueError: If the matrices are known to be singular or not square.
        """
        if self.is_square is False or self.is_non_singular is False:
            raise ValueError("Cannot take the inverse: this operator is not square, or represents a singular matrix.")
        return self._inverse()

    def _cholesky(self) -> Any:
        return tf.linalg.LinearOperatorLowerTriangular(tf.cholesky(self.to_dense()), is_non_singular=True)

    def cholesky(self, name: str = "cholesky") -> Any:
        """The operator `L` of `A = L L^H`.

        Raises:
            ValueError: If the matrices are not said to be positive definite and self-adjoint.
        """
        if not (self.is_positive_definite and self.is_self_adjoint):
            raise ValueError("Cannot take the Cholesky decomposition: Not a positive definite self adjoint matrix.")
        return self._cholesky()

    # Checks.

    def _smallest(self, values: Any) -> Any:
        """The smallest absolute value of a singular matrix is below this, relative to the largest."""
        kind = values.dtype.real_dtype
        size = tf.cast(self.domain_dimension_tensor(), kind)
        return size * tf.cast(np.finfo(kind.as_numpy_dtype).eps, kind)

    def assert_non_singular(self, name: str = "assert_non_singular") -> Any:
        """An operation that fails if a matrix is singular."""
        values = tf.svd(self.to_dense(), compute_uv=False)
        limit = self._smallest(values)
        least, most = tf.reduce_min(values, -1), tf.reduce_max(values, -1)
        return tf.assert_greater(least, limit * most, message=f"Singular matrix encountered in {self._name}.")

    def assert_positive_definite(self, name: str = "assert_positive_definite") -> Any:
        """An operation that fails if a matrix is not positive definite; they must be self-adjoint."""
        least = tf.reduce_min(tf.linalg.eigvalsh(self.to_dense()), -1)
        return tf.assert_positive(least, message=f"{self._name} was not positive definite.")

    def assert_self_adjoint(self, name: str = "assert_self_adjoint") -> Any:
        """An operation that fails if a matrix differs from its adjoint."""
        dense = self.to_dense()
        return tf.assert_equal(dense, tf.linalg.adjoint(dense), message=f"{self._name} was not equal to its adjoint.")
