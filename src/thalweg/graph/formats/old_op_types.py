"""Op types that others took the place of, with the same inputs and attributes: how graphs that have them are read."""

from __future__ import annotations

from typing import Final

from thalweg.graph.definitions.op_registry import is_defined

# Before version 0.8 ops of one matrix, and those of many, were different ones.
_OF_MANY_MATRICES: Final = frozenset({
    "Cholesky", "CholeskyGrad", "FFT", "FFT2D", "FFT3D", "IFFT", "IFFT2D", "IFFT3D", "MatrixBandPart",
    "MatrixDeterminant", "MatrixDiag", "MatrixDiagPart", "MatrixInverse", "MatrixSetDiag", "MatrixSolve",
    "MatrixSolveLs", "MatrixTriangularSolve", "SelfAdjointEigV2", "Svd",
})  # fmt: skip


def current_op_type(op_type: str) -> str:
    """The op type that computes what an old one did; the same one if there is none.

    Example:
        >>> current_op_type("BatchCholesky"), current_op_type("BatchToSpace")
        ('Cholesky', 'BatchToSpace')
    """
    for prefix in ("Batch", "Experimental"):
        rest = op_type.removeprefix(prefix)
        if rest != op_type and (rest in _OF_MANY_MATRICES if prefix == "Batch" else rest.endswith("Dataset")):
            return rest if is_defined(rest) else op_type
    return op_type
