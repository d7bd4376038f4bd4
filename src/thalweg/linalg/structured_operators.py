"""Operators of circulant, Toeplitz, tridiagonal, permutation and Householder matrices."""

from __future__ import annotations

from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.linalg.linear_operator import LinearOperator, broadcast_batch, conj_if, tf


class _Circulant(LinearOperator):
    """Matrices that the Fourier transform of `_axes` dimensions makes diagonal; the spectrum is that diagonal."""

    _axes: int

    def __init__(
        self, spectrum: Any, input_output_dtype: Any = "complex64", is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None, is_square: bool | None = True,
        name: str | None = None,
    ) -> None:  # fmt: skip
        """Takes the spectrum, the type of arguments and results, and hints."""
        name = name or type(self).__name__
        dtype = tf.as_dtype(input_output_dtype)
        with tf.name_scope(name):
            self._spectrum = tf.convert_to_tensor(spectrum, name="spectrum")
        rank = self._spectrum.shape.ndims
        if rank is not None and rank < self._axes:
            raise ValueError(f"Argument spectrum must have at least {self._axes} dimensions. Found: {self._spectrum}")
        if not self._spectrum.dtype.is_complex:
            if is_self_adjoint is False:
                raise ValueError("A real spectrum always corresponds to a self-adjoint operator.")
            is_self_adjoint = True
        if is_square is False:
            raise ValueError("A circulant operator is always square.")
        self._complex = tf.complex128 if dtype.real_dtype == tf.float64 else tf.complex64
        self._transforms = ((tf.fft, tf.ifft), (tf.fft2d, tf.ifft2d), (tf.fft3d, tf.ifft3d))[self._axes - 1]
        super().__init__(dtype, [self._spectrum], is_non_singular, is_self_adjoint, is_positive_definite, True, name)

    @property
    def spectrum(self) -> Any:
        """The eigenvalues, in the order of the Fourier transform."""
        return self._spectrum

    @property
    def block_depth(self) -> int:
        """The number of dimensions of the transform."""
        return self._axes

    @property
    def block_shape(self) -> Any:
        """The static sizes of these dimensions."""
        return self._spectrum.shape[-self._axes :]

    def convolution_kernel(self, name: str = "convolution_kernel") -> Any:
        """The inverse transform of the spectrum: the first column, as a block."""
        kernel = self._transforms[1](tf.cast(self._spectrum, self._complex))
        return tf.cast(kernel, self.dtype)

    def _shape(self) -> Any:
        shape = self._spectrum.shape
        if shape.ndims is None:
            return shape
        size = shape[-self._axes :].num_elements()
        return shape[: -self._axes].concatenate([size, size])

    def _shape_tensor(self) -> Any:
        sizes = tf.shape(self._spectrum)
        total = tf.reduce_prod(sizes[-self._axes :])
        return tf.concat([sizes[: -self._axes], [total, total]], 0)

    def _filtered(self, x: Any, factors: Any) -> Any:
        """Multiplies the transform of each column by factors."""
        columns = tf.cast(tf.linalg.transpose(x), self._complex)
        block = tf.shape(self._spectrum)[-self._axes :]
        columns = tf.reshape(columns, tf.concat([tf.shape(columns)[:-1], block], 0))
        # The columns are an axis before those of the block, as a batch of one is in the spectrum.
        spectrum = tf.expand_dims(tf.cast(factors, self._complex), -self._axes - 1)
        found = self._transforms[1](spectrum * self._transforms[0](columns))
        found = tf.reshape(found, tf.concat([tf.shape(found)[: -self._axes], [-1]], 0))
        return tf.cast(tf.linalg.transpose(found), self.dtype)

    def _matmul(self, x: Any, adjoint: bool = False) -> Any:
        return self._filtered(x, conj_if(self._spectrum, adjoint))

    def _solve(self, rhs: Any, adjoint: bool = False) -> Any:
        return self._filtered(rhs, 1 / conj_if(self._spectrum, adjoint))

    def _over_block(self, reduce: Any, values: Any) -> Any:
        return reduce(values, axis=list(range(-self._axes, 0)))

    def _determinant(self) -> Any:
        return tf.cast(self._over_block(tf.reduce_prod, self._spectrum), self.dtype)

    def _log_abs_determinant(self) -> Any:
        return tf.cast(self._over_block(tf.reduce_sum, tf.log(tf.abs(self._spectrum))), self.dtype)

    def trace(self, name: str = "trace") -> Any:
        """The sums of the spectra."""
        return tf.cast(self._over_block(tf.reduce_sum, self._spectrum), self.dtype)

    def _diag_part(self) -> Any:
        size = self.domain_dimension_tensor()
        mean = self.trace() / tf.cast(size, self.dtype)
        return mean[..., None] * tf.ones(size[None], self.dtype)


@export("linalg.LinearOperatorCirculant")
class LinearOperatorCirculant(_Circulant):
    """Circulant matrices, of a spectrum `[..., N]`: each row is the one above, moved on by one."""

    _axes = 1


@export("linalg.LinearOperatorCirculant2D")
class LinearOperatorCirculant2D(_Circulant):
    """Circulant matrices of circulant blocks, of a spectrum `[..., N0, N1]`."""

    _axes = 2


@export("linalg.LinearOperatorCirculant3D")
class LinearOperatorCirculant3D(_Circulant):
    """Circulant matrices of blocks that are circulant in two dimensions, of a spectrum `[..., N0, N1, N2]`."""

    _axes = 3


class _OfVector(LinearOperator):
    """Square operators whose size is that of the last axis of a tensor."""

    _vector: Any

    def _shape(self) -> Any:
        return self._vector.shape.concatenate(self._vector.shape[-1:])

    def _shape_tensor(self) -> Any:
        sizes = tf.shape(self._vector)
        return tf.concat([sizes, sizes[-1:]], 0)


@export("linalg.LinearOperatorHouseholder")
class LinearOperatorHouseholder(_OfVector):
    """Reflections at the plane through 0 whose normal is the given axis."""

    def __init__(
        self, reflection_axis: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None, is_square: bool | None = None,
        name: str = "LinearOperatorHouseholder",
    ) -> None:  # fmt: skip
        """Takes the axes `[..., N]`, of any length but 0."""
        if is_self_adjoint is False or is_non_singular is False or is_square is False:
            raise ValueError("A Householder operator is always self-adjoint, non-singular and square.")
        if is_positive_definite:
            raise ValueError("A Householder operator is always non-positive definite.")
        with tf.name_scope(name):
            self._vector = tf.convert_to_tensor(reflection_axis, name="reflection_axis")
        super().__init__(self._vector.dtype, [self._vector], True, True, False, True, name)

    @property
    def reflection_axis(self) -> Any:
        """The normals of the planes."""
        return self._vector

    def _matmul(self, x: Any, adjoint: bool = False) -> Any:
        normal = tf.nn.l2_normalize(self._vector, axis=-1)[..., None]
        return x - 2 * normal * tf.matmul(normal, x, adjoint_a=True)

    def _solve(self, rhs: Any, adjoint: bool = False) -> Any:
        return self._matmul(rhs)  # A reflection is its own inverse.

    def _determinant(self) -> Any:
        return -tf.ones(self.batch_shape_tensor(), self.dtype)

    def _log_abs_determinant(self) -> Any:
        return tf.zeros(self.batch_shape_tensor(), self.dtype)


@export("linalg.LinearOperatorPermutation")
class LinearOperatorPermutation(_OfVector):
    """Permutations: row `i` of the result is row `perm[i]` of the argument."""

    def __init__(
        self, perm: Any, dtype: Any = None, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None, is_square: bool | None = None,
        name: str = "LinearOperatorPermutation",
    ) -> None:  # fmt: skip
        """Takes the permutations `[..., N]`, and the element type (float32 by default)."""
        if is_non_singular is False or is_square is False:
            raise ValueError("A Permutation operator is always non-singular and square.")
        with tf.name_scope(name):
            self._vector = tf.convert_to_tensor(perm, name="perm")
        if not self._vector.dtype.is_integer:
            raise TypeError(f"perm must be integers, got {self._vector.dtype.name}.")
        super().__init__(dtype or tf.float32, [self._vector], True, is_self_adjoint, is_positive_definite, True, name)

    @property
    def perm(self) -> Any:
        """The permutations."""
        return self._vector

    def _to_dense(self) -> Any:
        return tf.one_hot(self._vector, self.domain_dimension_tensor(), dtype=self.dtype)

    def _solve(self, rhs: Any, adjoint: bool = False) -> Any:
        return self._matmul(rhs, not adjoint)

    def _log_abs_determinant(self) -> Any:
        return tf.zeros(self.batch_shape_tensor(), self.dtype)


@export("linalg.LinearOperatorToeplitz")
class LinearOperatorToeplitz(_OfVector):
    """Matrices with one number along each diagonal."""

    def __init__(
        self, col: Any, row: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None, is_square: bool | None = None, name: str = "LinearOperatorToeplitz",
    ) -> None:  # fmt: skip
        """Takes the first columns and the first rows `[..., N]`; their first elements must be equal."""
        if is_square is False:
            raise ValueError("A Toeplitz operator is always square.")
        with tf.name_scope(name):
            self._vector = tf.convert_to_tensor(row, name="row")
            self._column = tf.convert_to_tensor(col, name="col")
        super().__init__(
            self._vector.dtype, [self._vector, self._column], is_non_singular, is_self_adjoint, is_positive_definite,
            True, name,
        )  # fmt: skip

    @property
    def col(self) -> Any:
        """The first columns."""
        return self._column

    @property
    def row(self) -> Any:
        """The first rows."""
        return self._vector

    def _shape(self) -> Any:
        joint = tf.broadcast_static_shape(self._vector.shape, self._column.shape)
        return joint.concatenate(joint[-1:])

    def _shape_tensor(self) -> Any:
        joint = tf.broadcast_dynamic_shape(tf.shape(self._vector), tf.shape(self._column))
        return tf.concat([joint, joint[-1:]], 0)

    def _to_dense(self) -> Any:
        size = self.domain_dimension_tensor()
        column, row = (x[..., None, :] for x in (self._column, self._vector))
        column, row = broadcast_batch(column, row)
        # All diagonals in a line, from the lower left corner to the upper right one.
        line = tf.concat([tf.reverse(column, [-1]), row[..., 1:]], -1)[..., 0, :]
        places = tf.range(size)[None, :] - tf.range(size)[:, None] + size - 1
        return tf.gather(line, places, axis=-1)


@export("linalg.LinearOperatorTridiag")
class LinearOperatorTridiag(LinearOperator):
    """Matrices with a diagonal and those beside it."""

    def __init__(
        self, diagonals: Any, diagonals_format: str = "compact", is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None, is_square: bool | None = None,
        name: str = "LinearOperatorTridiag",
    ) -> None:  # fmt: skip
        """Takes the diagonals.

        Args:
            diagonals: For 'compact' `[..., 3, N]`: the diagonal above (its last element is not read), the main one,
                and the one below (its first is not read); for 'sequence' a list of these three; for 'matrix' matrices.
            diagonals_format: 'compact', 'sequence' or 'matrix'.
            is_non_singular: A hint.
            is_self_adjoint: A hint.
            is_positive_definite: A hint.
            is_square: A hint; always true.
            name: A name for the nodes.

        Raises:
            ValueError: For another format.
        """
        if is_square is False:
            raise ValueError("A tridiagonal operator is always square.")
        with tf.name_scope(name):
            if diagonals_format == "sequence":
                self._diagonals: Any = [tf.convert_to_tensor(each) for each in diagonals]
                joined = tf.stack(self._diagonals, -2)
            elif diagonals_format == "compact":
                self._diagonals = joined = tf.convert_to_tensor(diagonals, name="diagonals")
            elif diagonals_format == "matrix":
                self._diagonals = tf.convert_to_tensor(diagonals, name="diagonals")
                joined = _compact(self._diagonals)
            else:
                raise ValueError(f"Expected diagonals_format to be compact, matrix or sequence: {diagonals_format!r}.")
        self._compact = joined
        self._format = diagonals_format
        super().__init__(joined.dtype, [joined], is_non_singular, is_self_adjoint, is_positive_definite, True, name)

    @property
    def diagonals(self) -> Any:
        """The diagonals, as given."""
        return self._diagonals

    @property
    def diagonals_format(self) -> str:
        """The format."""
        return self._format

    def _shape(self) -> Any:
        shape = self._compact.shape
        return shape if shape.ndims is None else shape[:-2].concatenate([shape[-1], shape[-1]])

    def _shape_tensor(self) -> Any:
        sizes = tf.shape(self._compact)
        return tf.concat([sizes[:-2], sizes[-1:], sizes[-1:]], 0)

    def _parts(self, adjoint: bool) -> tuple[Any, Any, Any]:
        """The diagonals above, in the middle and below, with zeros for what is not read."""
        above, main, below = (conj_if(self._compact[..., i, :], adjoint) for i in range(3))
        zero = tf.zeros_like(main[..., :1])
        inner_above, inner_below = above[..., :-1], below[..., 1:]
        if adjoint:
            inner_above, inner_below = inner_below, inner_above
        return tf.concat([inner_above, zero], -1), main, tf.concat([zero, inner_below], -1)

    def _matmul(self, x: Any, adjoint: bool = False) -> Any:
        above, main, below = (part[..., None] for part in self._parts(adjoint))
        zero = tf.zeros_like(x[..., :1, :])
        later, earlier = tf.concat([x[..., 1:, :], zero], -2), tf.concat([zero, x[..., :-1, :]], -2)
        return above * later + main * x + below * earlier

    def _solve(self, rhs: Any, adjoint: bool = False) -> Any:
        diagonals = tf.stack(self._parts(adjoint), -2)
        return tf.linalg.tridiagonal_solve(*broadcast_batch(diagonals, rhs), diagonals_format="compact")

    def _diag_part(self) -> Any:
        return self._compact[..., 1, :]


def _compact(matrix: Any) -> Any:
    """The three diagonals of matrices."""
    main = tf.matrix_diag_part(matrix)
    zero = tf.zeros_like(main[..., :1])
    above = tf.concat([tf.matrix_diag_part(matrix[..., :-1, 1:]), zero], -1)
    below = tf.concat([zero, tf.matrix_diag_part(matrix[..., 1:, :-1])], -1)
    return tf.stack([above, main, below], -2)
