"""Operators made of others: adjoints, inverses, products, Kronecker products, blocks, updates of low rank."""

from __future__ import annotations

import functools
import itertools
from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.linalg.linear_operator import LinearOperator, adjoint_if, broadcast_batch, combined, tf


def _check_operators(operators: Any) -> list[Any]:
    found = list(operators)
    if not found:
        raise ValueError("Expected a non-empty list of operators. Found: []")
    if any(each.dtype != found[0].dtype for each in found):
        names = [(each.name, each.dtype) for each in found]
        raise TypeError(f"Expected all operators to have the same dtype. Found: {names}")
    return found


def _shared(operators: list[Any], hint: str, given: Any) -> Any:
    """A hint that holds of the whole if it holds of all parts."""
    return given if given is not None else combined([getattr(each, hint) for each in operators])


def _all_shared(operators: list[Any], *given: Any) -> tuple[Any, ...]:
    """The same for the hints that an operator of several parts has if they all have them."""
    names = ("is_non_singular", "is_self_adjoint", "is_positive_definite")
    return tuple(_shared(operators, name, value) for name, value in zip(names, given, strict=True))


def _joint_batch(operators: list[Any]) -> tuple[Any, Any]:
    """The static and the actual shape of the batch of several operators."""
    static = functools.reduce(tf.broadcast_static_shape, [each.batch_shape for each in operators])
    actual = functools.reduce(tf.broadcast_dynamic_shape, [each.batch_shape_tensor() for each in operators])
    return static, actual


def _known(size: Any) -> Any:
    return tf.dimension_value(size)


def _total(sizes: Any, join: Any) -> Any:
    """The sum or product of static sizes; None if one is unknown."""
    values = [_known(size) for size in sizes]
    return None if any(value is None for value in values) else functools.reduce(join, values)


class _OfOne(LinearOperator):
    """An operator made of one other, with its hints unless others are given."""

    def __init__(self, operator: Any, hints: tuple[Any, ...], suffix: str, name: str | None) -> None:
        names = ("is_non_singular", "is_self_adjoint", "is_positive_definite", "is_square")
        joint = {
            key: getattr(operator, key) if given is None else given for key, given in zip(names, hints, strict=True)
        }
        self._operator = operator
        super().__init__(operator.dtype, operator.graph_parents, name=name or f"{operator.name}_{suffix}", **joint)

    @property
    def operator(self) -> Any:
        """The operator that this one is made of."""
        return self._operator

    def _shape(self) -> Any:
        inner = self._operator.shape
        return inner if inner.ndims is None else inner[:-2].concatenate([inner[-1], inner[-2]])

    def _shape_tensor(self) -> Any:
        inner = self._operator.shape_tensor()
        return tf.concat([inner[:-2], inner[-1:], inner[-2:-1]], 0)


@export("linalg.LinearOperatorAdjoint")
class LinearOperatorAdjoint(_OfOne):
    """The adjoints of the matrices of an operator."""

    def __init__(
        self, operator: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None, is_square: bool | None = None, name: str | None = None,
    ) -> None:  # fmt: skip
        """Takes the operator; hints that are not given are the operator's."""
        hints = (is_non_singular, is_self_adjoint, is_positive_definite, is_square)
        super().__init__(operator, hints, "adjoint", name)

    def _matmul(self, x: Any, adjoint: bool = False) -> Any:
        return self._operator._matmul(x, not adjoint)

    def _solve(self, rhs: Any, adjoint: bool = False) -> Any:
        return self._operator._solve(rhs, not adjoint)

    def _to_dense(self) -> Any:
        return tf.linalg.adjoint(self._operator.to_dense())

    def _determinant(self) -> Any:
        return tf.conj(self._operator.determinant())

    def _log_abs_determinant(self) -> Any:
        return self._operator.log_abs_determinant()

    def _adjoint(self) -> Any:
        return self._operator


@export("linalg.LinearOperatorInversion")
class LinearOperatorInversion(_OfOne):
    """The inverses of the matrices of an operator."""

    def __init__(
        self, operator: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None, is_square: bool | None = None, name: str | None = None,
    ) -> None:  # fmt: skip
        """Takes the operator; hints that are not given are the operator's."""
        if operator.is_non_singular is False or is_non_singular is False:
            raise ValueError("operator and its inverse must be non-singular.")
        if operator.is_square is False or is_square is False:
            raise ValueError("operator and its inverse must be square.")
        super().__init__(operator, (True, is_self_adjoint, is_positive_definite, True), "inverse", name)

    def _matmul(self, x: Any, adjoint: bool = False) -> Any:
        return self._operator._solve(x, adjoint)

    def _solve(self, rhs: Any, adjoint: bool = False) -> Any:
        return self._operator._matmul(rhs, adjoint)

    def _determinant(self) -> Any:
        return 1 / self._operator.determinant()

    def _log_abs_determinant(self) -> Any:
        return -self._operator.log_abs_determinant()

    def _inverse(self) -> Any:
        return self._operator


class _OfSeveral(LinearOperator):
    """An operator made of several others."""

    def __init__(self, operators: Any, hints: tuple[Any, ...], name: str | None, separator: str) -> None:
        self._operators = _check_operators(operators)
        keys = ("is_non_singular", "is_self_adjoint", "is_positive_definite", "is_square")
        super().__init__(
            self._operators[0].dtype,
            [parent for each in self._operators for parent in each.graph_parents],
            name=name or separator.join(each.name for each in self._operators),
            **dict(zip(keys, hints, strict=True)),
        )

    @property
    def operators(self) -> list[Any]:
        """The operators that this one is made of."""
        return self._operators

    def _sum_of_parts(self, method: str) -> Any:
        return functools.reduce(lambda a, b: a + b, [getattr(each, method)() for each in self._operators])


@export("linalg.LinearOperatorComposition")
class LinearOperatorComposition(_OfSeveral):
    """The product of operators: the last acts first."""

    def __init__(
        self, operators: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None, is_square: bool | None = None, name: str | None = None,
    ) -> None:  # fmt: skip
        """Takes the operators, and hints about the product."""
        found = _check_operators(operators)
        for left, right in itertools.pairwise(found):
            sizes = _known(left.domain_dimension), _known(right.range_dimension)
            if None not in sizes and sizes[0] != sizes[1]:
                raise ValueError(f"Operators are incompatible: {left.name} {left.shape}, {right.name} {right.shape}.")
        non_singular = _shared(found, "is_non_singular", is_non_singular)
        super().__init__(found, (non_singular, is_self_adjoint, is_positive_definite, is_square), name, "_o_")

    def _shape(self) -> Any:
        batch, _ = _joint_batch(self._operators)
        return batch.concatenate([self._operators[0].range_dimension, self._operators[-1].domain_dimension])

    def _shape_tensor(self) -> Any:
        _, batch = _joint_batch(self._operators)
        first, last = self._operators[0], self._operators[-1]
        return tf.concat([batch, [first.range_dimension_tensor(), last.domain_dimension_tensor()]], 0)

    def _matmul(self, x: Any, adjoint: bool = False) -> Any:
        for each in self._operators if adjoint else reversed(self._operators):
            x = each._matmul(x, adjoint)
        return x

    def _solve(self, rhs: Any, adjoint: bool = False) -> Any:
        for each in reversed(self._operators) if adjoint else self._operators:
            rhs = each._solve(rhs, adjoint)
        return rhs

    def _determinant(self) -> Any:
        return functools.reduce(lambda a, b: a * b, [each.determinant() for each in self._operators])

    def _log_abs_determinant(self) -> Any:
        return self._sum_of_parts("log_abs_determinant")


@export("linalg.LinearOperatorKronecker")
class LinearOperatorKronecker(_OfSeveral):
    """The Kronecker product of operators."""

    def __init__(
        self, operators: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None, is_square: bool | None = None, name: str | None = None,
    ) -> None:  # fmt: skip
        """Takes the operators, and hints about the product."""
        found = _check_operators(operators)
        hints = _all_shared(found, is_non_singular, is_self_adjoint, is_positive_definite)
        super().__init__(found, (*hints, _shared(found, "is_square", is_square)), name, "_x_")

    def _shape(self) -> Any:
        batch, _ = _joint_batch(self._operators)
        sizes = [[each.shape[axis] for each in self._operators] for axis in (-2, -1)]
        return batch.concatenate([_total(axis, lambda a, b: a * b) for axis in sizes])

    def _shape_tensor(self) -> Any:
        _, batch = _joint_batch(self._operators)
        return tf.concat([batch, tf.reduce_prod([each.shape_tensor()[-2:] for each in self._operators], 0)], 0)

    def _each(self, x: Any, adjoint: bool, method: str) -> Any:
        """Applies each operator along its own axis of `x`, whose rows are those of all operators."""
        columns = tf.shape(x)[-1:]
        for each in self._operators:
            # Rows of this operator first, then those of all others: after every operator has had its turn the order is
            # as before.
            rows = each.shape_tensor()[-2 if adjoint == (method == "_matmul") else -1]
            batch = tf.shape(x)[:-2]
            x = tf.reshape(x, tf.concat([batch, rows[None], [-1]], 0))
            x = getattr(each, method)(x, adjoint)
            batch = tf.shape(x)[:-2]
            done = tf.shape(x)[-2:-1]
            x = tf.reshape(x, tf.concat([batch, done, [-1], columns], 0))
            x = tf.reshape(_swapped(x), tf.concat([batch, [-1], columns], 0))
        return x

    def _matmul(self, x: Any, adjoint: bool = False) -> Any:
        return self._each(x, adjoint, "_matmul")

    def _solve(self, rhs: Any, adjoint: bool = False) -> Any:
        return self._each(rhs, adjoint, "_solve")

    def _log_abs_determinant(self) -> Any:
        size = tf.cast(self.domain_dimension_tensor(), self.dtype)
        parts = [
            each.log_abs_determinant() * (size / tf.cast(each.domain_dimension_tensor(), self.dtype))
            for each in self._operators
        ]
        return functools.reduce(lambda a, b: a + b, parts)

    def _determinant(self) -> Any:
        size = self.domain_dimension_tensor()
        parts = [
            tf.pow(each.determinant(), tf.cast(size // each.domain_dimension_tensor(), self.dtype))
            for each in self._operators
        ]
        return functools.reduce(lambda a, b: a * b, parts)


def _swapped(x: Any) -> Any:
    """Swaps the third and second axes from the end."""
    rank = x.shape.ndims
    order = tf.range(tf.rank(x)) if rank is None else list(range(rank))
    if rank is None:
        return tf.transpose(x, tf.concat([order[:-3], [order[-2]], [order[-3]], order[-1:]], 0))
    return tf.transpose(x, [*order[:-3], order[-2], order[-3], order[-1]])


class _OfRows(_OfSeveral):
    """An operator whose diagonal consists of blocks: the shape, and cutting arguments into the rows of each block."""

    def _shape(self) -> Any:
        batch, _ = _joint_batch(self._operators)
        sizes = [[each.shape[axis] for each in self._operators] for axis in (-2, -1)]
        return batch.concatenate([_total(axis, lambda a, b: a + b) for axis in sizes])

    def _shape_tensor(self) -> Any:
        _, batch = _joint_batch(self._operators)
        return tf.concat([batch, tf.reduce_sum([each.shape_tensor()[-2:] for each in self._operators], 0)], 0)

    def _pieces(self, x: Any, is_range: bool) -> list[Any]:
        axis = -2 if is_range else -1
        return list(tf.split(x, [each.shape_tensor()[axis] for each in self._operators], axis=-2))

    def _joined(self, pieces: list[Any]) -> Any:
        return tf.concat(broadcast_batch(*pieces), -2)

    def _determinant(self) -> Any:
        return functools.reduce(lambda a, b: a * b, [each.determinant() for each in self._operators])

    def _log_abs_determinant(self) -> Any:
        return self._sum_of_parts("log_abs_determinant")


@export("linalg.LinearOperatorBlockDiag")
class LinearOperatorBlockDiag(_OfRows):
    """Operators as the blocks of a diagonal."""

    def __init__(
        self, operators: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None, is_square: bool | None = True, name: str | None = None,
    ) -> None:  # fmt: skip
        """Takes the blocks, and hints about the whole."""
        found = _check_operators(operators)
        hints = _all_shared(found, is_non_singular, is_self_adjoint, is_positive_definite)
        super().__init__(found, (*hints, is_square), name, "_ds_")

    def _matmul(self, x: Any, adjoint: bool = False) -> Any:
        pieces = self._pieces(x, is_range=adjoint)
        return self._joined([each._matmul(p, adjoint) for each, p in zip(self._operators, pieces, strict=True)])

    def _solve(self, rhs: Any, adjoint: bool = False) -> Any:
        pieces = self._pieces(rhs, is_range=not adjoint)
        return self._joined([each._solve(p, adjoint) for each, p in zip(self._operators, pieces, strict=True)])


@export("linalg.LinearOperatorBlockLowerTriangular")
class LinearOperatorBlockLowerTriangular(_OfRows):
    """Operators as the blocks of a lower triangle."""

    def __init__(
        self, operators: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None, is_square: bool | None = None,
        name: str = "LinearOperatorBlockLowerTriangular",
    ) -> None:  # fmt: skip
        """Takes the blocks, row by row: one, two, three and so on; those at the ends of rows must be square."""
        rows = [list(row) for row in operators]
        for i, row in enumerate(rows):
            if len(row) != i + 1:
                raise ValueError(f"The `i`-th row-partition (row) must have `i + 1` blocks. Row {i} has {len(row)}.")
        self._rows = rows
        diagonal = [row[-1] for row in rows]
        non_singular = _shared(diagonal, "is_non_singular", is_non_singular)
        hints = (non_singular, is_self_adjoint, is_positive_definite, True if is_square is None else is_square)
        super().__init__(diagonal, hints, name, "_")

    def _matmul(self, x: Any, adjoint: bool = False) -> Any:
        pieces = self._pieces(x, is_range=adjoint)
        count = len(self._rows)
        parts: list[list[Any]] = [[] for _ in range(count)]
        for i, row in enumerate(self._rows):
            for j, block in enumerate(row):
                to, source = (j, i) if adjoint else (i, j)
                parts[to].append(block._matmul(pieces[source], adjoint))
        return self._joined([functools.reduce(lambda a, b: a + b, part) for part in parts])

    def _solve(self, rhs: Any, adjoint: bool = False) -> Any:
        pieces = self._pieces(rhs, is_range=not adjoint)
        found: dict[int, Any] = {}
        order = range(len(self._rows))
        for i in reversed(order) if adjoint else order:
            rest = pieces[i]
            for j, known in found.items():
                block = self._rows[j][i] if adjoint else self._rows[i][j]
                rest = rest - block._matmul(known, adjoint)
            found[i] = self._rows[i][i]._solve(rest, adjoint)
        return self._joined([found[i] for i in order])


@export("linalg.LinearOperatorLowRankUpdate")
class LinearOperatorLowRankUpdate(LinearOperator):
    """`L + U D V^H`: an operator with an update of low rank."""

    def __init__(
        self, base_operator: Any, u: Any, diag_update: Any = None, v: Any = None,
        is_diag_update_positive: bool | None = None, is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None, is_square: bool | None = None,
        name: str = "LinearOperatorLowRankUpdate",
    ) -> None:  # fmt: skip
        """Takes `L`, `U`, the diagonal of `D` (ones if None) and `V` (`U` if None)."""
        with tf.name_scope(name):
            self._u = tf.convert_to_tensor(u, name="u")
            self._v = self._u if v is None else tf.convert_to_tensor(v, name="v")
            self._diag = None if diag_update is None else tf.convert_to_tensor(diag_update, name="diag_update")
        self._base = base_operator
        is_positive = diag_update is None or bool(is_diag_update_positive)
        if v is None and is_positive and base_operator.is_positive_definite and base_operator.is_self_adjoint:
            is_positive_definite = True if is_positive_definite is None else is_positive_definite
            is_self_adjoint = True if is_self_adjoint is None else is_self_adjoint
        if v is None and base_operator.is_self_adjoint and not self._u.dtype.is_complex:
            is_self_adjoint = True if is_self_adjoint is None else is_self_adjoint
        parents = [*base_operator.graph_parents, self._u, self._v]
        super().__init__(
            base_operator.dtype, parents, is_non_singular, is_self_adjoint, is_positive_definite, is_square, name
        )

    @property
    def base_operator(self) -> Any:
        """`L`."""
        return self._base

    @property
    def u(self) -> Any:
        """`U`."""
        return self._u

    @property
    def v(self) -> Any:
        """`V`."""
        return self._v

    @property
    def diag_operator(self) -> Any:
        """`D`."""
        if self._diag is not None:
            return tf.linalg.LinearOperatorDiag(self._diag)
        return tf.linalg.LinearOperatorIdentity(tf.shape(self._u)[-1], dtype=self.dtype)

    def _shape(self) -> Any:
        batch = tf.broadcast_static_shape(self._base.batch_shape, self._u.shape[:-2])
        return batch.concatenate(self._base.shape[-2:])

    def _shape_tensor(self) -> Any:
        batch = tf.broadcast_dynamic_shape(self._base.batch_shape_tensor(), tf.shape(self._u)[:-2])
        return tf.concat([batch, self._base.shape_tensor()[-2:]], 0)

    def _matmul(self, x: Any, adjoint: bool = False) -> Any:
        left, right = (self._v, self._u) if adjoint else (self._u, self._v)
        update = self.diag_operator._matmul(tf.matmul(right, x, adjoint_a=True), adjoint)
        return self._base._matmul(x, adjoint) + tf.matmul(left, update)

    def _capacitance(self, adjoint: bool) -> Any:
        """`D^-1 + V^H L^-1 U`, whose solutions correct those of `L` (Woodbury)."""
        left, right = (self._v, self._u) if adjoint else (self._u, self._v)
        inverse = adjoint_if(self.diag_operator.inverse().to_dense(), adjoint)
        return inverse + tf.matmul(right, self._base._solve(left, adjoint), adjoint_a=True)

    def _solve(self, rhs: Any, adjoint: bool = False) -> Any:
        left, right = (self._v, self._u) if adjoint else (self._u, self._v)
        plain = self._base._solve(rhs, adjoint)
        small = tf.matrix_solve(*broadcast_batch(self._capacitance(adjoint), tf.matmul(right, plain, adjoint_a=True)))
        return plain - self._base._solve(tf.matmul(left, small), adjoint)

    def _determinant(self) -> Any:
        small = tf.matrix_determinant(self._capacitance(False))
        return small * self.diag_operator.determinant() * self._base.determinant()

    def _log_abs_determinant(self) -> Any:
        small = tf.linalg.slogdet(self._capacitance(False))[1]
        return small + self.diag_operator.log_abs_determinant() + self._base.log_abs_determinant()
