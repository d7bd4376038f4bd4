"""Operators of full, triangular and diagonal matrices, of multiples of the identity, and of zeros."""

from __future__ import annotations

from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.linalg.linear_operator import LinearOperator, broadcast_batch, conj_if, tf


class _OfTensor(LinearOperator):
    """An operator of matrices that are one tensor."""

    def __init__(self, matrix: Any, hints: dict[str, Any], name: str) -> None:
        with tf.name_scope(name):
            self._matrix = tf.convert_to_tensor(matrix, name="matrix")
        if self._matrix.shape.ndims is not None and self._matrix.shape.ndims < 2:
            raise ValueError(f"Argument must have at least 2 dimensions. Found: {self._matrix}")
        super().__init__(self._matrix.dtype, [self._matrix], name=name, **hints)

    def _shape(self) -> Any:
        return self._matrix.shape

    def _shape_tensor(self) -> Any:
        return tf.shape(self._matrix)

    def _to_dense(self) -> Any:
        return tf.identity(self._matrix)

    def _matmul(self, x: Any, adjoint: bool = False) -> Any:
        return tf.matmul(self._matrix, x, adjoint_a=adjoint)


def _hints(non_singular: Any, self_adjoint: Any, positive_definite: Any, square: Any) -> dict[str, Any]:
    return {
        "is_non_singular": non_singular, "is_self_adjoint": self_adjoint, "is_positive_definite": positive_definite,
        "is_square": square,
    }  # fmt: skip


@export("linalg.LinearOperatorFullMatrix")
class LinearOperatorFullMatrix(_OfTensor):
    """Matrices without structure."""

    def __init__(
        self, matrix: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None, is_square: bool | None = None,
        name: str = "LinearOperatorFullMatrix",
    ) -> None:  # fmt: skip
        """Takes the matrices, and hints about them."""
        super().__init__(matrix, _hints(is_non_singular, is_self_adjoint, is_positive_definite, is_square), name)

    @property
    def matrix(self) -> Any:
        """The matrices."""
        return self._matrix

    def _solve(self, rhs: Any, adjoint: bool = False) -> Any:
        if self.is_positive_definite and self.is_self_adjoint:
            return tf.cholesky_solve(*broadcast_batch(tf.cholesky(self._matrix), rhs))
        return super()._solve(rhs, adjoint)


@export("linalg.LinearOperatorLowerTriangular")
class LinearOperatorLowerTriangular(_OfTensor):
    """Lower triangular matrices; what is above the diagonal is not read."""

    def __init__(
        self, tril: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None, is_square: bool | None = None,
        name: str = "LinearOperatorLowerTriangular",
    ) -> None:  # fmt: skip
        """Takes the matrices, and hints about them."""
        if is_square is False:
            raise ValueError("Only square lower triangular operators supported at this time.")
        super().__init__(
            tf.matrix_band_part(tf.convert_to_tensor(tril), -1, 0),
            _hints(is_non_singular, is_self_adjoint, is_positive_definite, True),
            name,
        )

    @property
    def tril(self) -> Any:
        """The matrices."""
        return self._matrix

    def _solve(self, rhs: Any, adjoint: bool = False) -> Any:
        return tf.matrix_triangular_solve(*broadcast_batch(self._matrix, rhs), lower=True, adjoint=adjoint)

    def _determinant(self) -> Any:
        return tf.reduce_prod(self.diag_part(), -1)

    def _log_abs_determinant(self) -> Any:
        return tf.reduce_sum(tf.log(tf.abs(self.diag_part())), -1)


class _Diagonal(LinearOperator):
    """Operators that multiply each row of their argument by one number, `self._factors` (or one per matrix)."""

    _factors: Any

    def _matmul(self, x: Any, adjoint: bool = False) -> Any:
        return conj_if(self._factors, adjoint)[..., None] * x

    def _solve(self, rhs: Any, adjoint: bool = False) -> Any:
        return rhs / conj_if(self._factors, adjoint)[..., None]

    def _to_dense(self) -> Any:
        return tf.matrix_diag(self.diag_part())

    def _determinant(self) -> Any:
        return tf.reduce_prod(self.diag_part(), -1)

    def _log_abs_determinant(self) -> Any:
        return tf.reduce_sum(tf.log(tf.abs(self.diag_part())), -1)

    def _of(self, factors: Any) -> Any:
        return LinearOperatorDiag(
            factors, is_non_singular=self.is_non_singular, is_self_adjoint=self.is_self_adjoint,
            is_positive_definite=self.is_positive_definite, is_square=True,
        )  # fmt: skip

    def _adjoint(self) -> Any:
        return self._of(conj_if(self.diag_part(), True))

    def _inverse(self) -> Any:
        return self._of(1 / self.diag_part())

    def _cholesky(self) -> Any:
        return self._of(tf.sqrt(self.diag_part()))

    def eigvals(self, name: str = "eigvals") -> Any:
        """The diagonal."""
        return tf.convert_to_tensor(self.diag_part())

    def cond(self, name: str = "cond") -> Any:
        """The largest absolute value of the diagonal over the smallest."""
        sizes = tf.abs(self.diag_part())
        return tf.reduce_max(sizes, -1) / tf.reduce_min(sizes, -1)


@export("linalg.LinearOperatorDiag")
class LinearOperatorDiag(_Diagonal):
    """Diagonal matrices."""

    def __init__(
        self, diag: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None, is_square: bool | None = None, name: str = "LinearOperatorDiag",
    ) -> None:  # fmt: skip
        """Takes the diagonals, and hints about the matrices."""
        with tf.name_scope(name):
            self._factors = tf.convert_to_tensor(diag, name="diag")
        if self._factors.shape.ndims == 0:
            raise ValueError(f"Argument diag must have at least 1 dimension. Found: {self._factors}")
        if not self._factors.dtype.is_complex:
            if is_self_adjoint is False:
                raise ValueError("A real diagonal operator is always self adjoint.")
            is_self_adjoint = True
        if is_square is False:
            raise ValueError("Only square diagonal operators supported at this time.")
        hints = _hints(is_non_singular, is_self_adjoint, is_positive_definite, True)
        super().__init__(self._factors.dtype, [self._factors], name=name, **hints)

    @property
    def diag(self) -> Any:
        """The diagonals."""
        return self._factors

    def _shape(self) -> Any:
        return self._factors.shape.concatenate(self._factors.shape[-1:])

    def _shape_tensor(self) -> Any:
        sizes = tf.shape(self._factors)
        return tf.concat([sizes, sizes[-1:]], 0)

    def _diag_part(self) -> Any:
        return self._factors


class _Sized(_Diagonal):
    """Operators of a number of rows and a shape of batch that are given."""

    def _set_sizes(self, num_rows: Any, num_columns: Any, batch_shape: Any) -> None:
        self._sizes = [tf.convert_to_tensor(size, tf.int32) for size in (num_rows, num_columns)]
        for size in self._sizes:
            known = tf.get_static_value(size)
            if size.shape.ndims != 0:
                raise ValueError(f"Argument num_rows must be a 0-D Tensor. Found: {size}")
            if known is not None and known < 0:
                raise ValueError(f"Argument num_rows must be non-negative. Found: {known}")
        self._batch = tf.reshape(tf.convert_to_tensor([] if batch_shape is None else batch_shape, tf.int32), [-1])

    def _shape(self) -> Any:
        batch = tf.get_static_value(self._batch)
        found = tf.TensorShape(None if batch is None else batch.tolist())
        sizes = [tf.get_static_value(size) for size in self._sizes]
        return found.concatenate([None if size is None else int(size) for size in sizes])

    def _shape_tensor(self) -> Any:
        return tf.concat([self._batch, tf.stack(self._sizes)], 0)

    def _in_batch(self, x: Any) -> Any:
        """The argument, repeated for the operators of the batch."""
        if self.batch_shape.ndims == 0:
            return tf.identity(x)
        return x + tf.zeros(tf.concat([self.batch_shape_tensor(), [1, 1]], 0), x.dtype)


@export("linalg.LinearOperatorIdentity")
class LinearOperatorIdentity(_Sized):
    """Identity matrices."""

    def __init__(
        self, num_rows: Any, batch_shape: Any = None, dtype: Any = None, is_non_singular: bool = True,
        is_self_adjoint: bool = True, is_positive_definite: bool = True, is_square: bool = True,
        assert_proper_shapes: bool = False, name: str = "LinearOperatorIdentity",
    ) -> None:  # fmt: skip
        """Takes the sizes, and the element type (float32 by default)."""
        if not (is_non_singular and is_self_adjoint and is_square):
            raise ValueError("An identity operator is always self-adjoint, non-singular and square.")
        self._set_sizes(num_rows, num_rows, batch_shape)
        hints = _hints(True, True, is_positive_definite, True)
        super().__init__(dtype or tf.float32, self._sizes[:1], name=name, **hints)

    def _matmul(self, x: Any, adjoint: bool = False) -> Any:
        return self._in_batch(x)

    def _solve(self, rhs: Any, adjoint: bool = False) -> Any:
        return self._in_batch(rhs)

    def _diag_part(self) -> Any:
        return tf.ones(self.shape_tensor()[:-1], self.dtype)

    def _adjoint(self) -> Any:
        return self

    _inverse = _cholesky = _adjoint


@export("linalg.LinearOperatorScaledIdentity")
class LinearOperatorScaledIdentity(_Sized):
    """Multiples of identity matrices."""

    def __init__(
        self, num_rows: Any, multiplier: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None, is_square: bool = True, assert_proper_shapes: bool = False,
        name: str = "LinearOperatorScaledIdentity",
    ) -> None:  # fmt: skip
        """Takes the size, and the factors, whose shape is that of the batch."""
        if not is_square:
            raise ValueError("A ScaledIdentity operator is always square.")
        with tf.name_scope(name):
            self._multiplier = tf.convert_to_tensor(multiplier, name="multiplier")
        if not self._multiplier.dtype.is_complex:
            if is_self_adjoint is False:
                raise ValueError("A real multiple of the identity is always self adjoint.")
            is_self_adjoint = True
        self._set_sizes(num_rows, num_rows, tf.shape(self._multiplier))
        self._factors = self._multiplier[..., None]
        hints = _hints(is_non_singular, is_self_adjoint, is_positive_definite, True)
        super().__init__(self._multiplier.dtype, [self._multiplier], name=name, **hints)

    @property
    def multiplier(self) -> Any:
        """The factors."""
        return self._multiplier

    def _shape(self) -> Any:
        rows = tf.get_static_value(self._sizes[0])
        size = None if rows is None else int(rows)
        return self._multiplier.shape.concatenate([size, size])

    def _diag_part(self) -> Any:
        return self._multiplier[..., None] * tf.ones(self.range_dimension_tensor()[None], self.dtype)

    def _scaled(self, multiplier: Any) -> Any:
        return LinearOperatorScaledIdentity(
            self._sizes[0], multiplier, self.is_non_singular, self.is_self_adjoint, self.is_positive_definite
        )

    def _adjoint(self) -> Any:
        return self._scaled(conj_if(self._multiplier, True))

    def _inverse(self) -> Any:
        return self._scaled(1 / self._multiplier)

    def _cholesky(self) -> Any:
        return self._scaled(tf.sqrt(self._multiplier))


@export("linalg.LinearOperatorZeros")
class LinearOperatorZeros(_Sized):
    """Matrices of zeros."""

    def __init__(
        self, num_rows: Any, num_columns: Any = None, batch_shape: Any = None, dtype: Any = None,
        is_non_singular: bool = False, is_self_adjoint: bool = True, is_positive_definite: bool = False,
        is_square: bool = True, assert_proper_shapes: bool = False, name: str = "LinearOperatorZeros",
    ) -> None:  # fmt: skip
        """Takes the sizes, and the element type (float32 by default)."""
        if is_non_singular or is_positive_definite:
            raise ValueError("A zeros operator is always singular, and never positive definite.")
        self._set_sizes(num_rows, num_rows if num_columns is None else num_columns, batch_shape)
        hints = _hints(False, is_self_adjoint, False, is_square)
        super().__init__(dtype or tf.float32, self._sizes, name=name, **hints)

    def _matmul(self, x: Any, adjoint: bool = False) -> Any:
        rows = self.domain_dimension_tensor() if adjoint else self.range_dimension_tensor()
        batch = tf.broadcast_dynamic_shape(self.batch_shape_tensor(), tf.shape(x)[:-2])
        return tf.zeros(tf.concat([batch, rows[None], tf.shape(x)[-1:]], 0), x.dtype)

    def _to_dense(self) -> Any:
        return tf.zeros(self.shape_tensor(), self.dtype)

    def _diag_part(self) -> Any:
        size = tf.minimum(self.range_dimension_tensor(), self.domain_dimension_tensor())
        return tf.zeros(tf.concat([self.batch_shape_tensor(), size[None]], 0), self.dtype)

    def _determinant(self) -> Any:
        return tf.zeros(self.batch_shape_tensor(), self.dtype)

    def _adjoint(self) -> Any:
        return LinearOperatorZeros(
            self._sizes[1], self._sizes[0], self._batch, self.dtype, is_self_adjoint=bool(self.is_self_adjoint),
            is_square=bool(self.is_square),
        )  # fmt: skip
