"""How messages of checks name a tensor."""

from __future__ import annotations

from thalweg.graph.eager_tensor import EagerTensor
from thalweg.graph.tensor import Tensor


def named(tensor: Tensor) -> str:
    """The name of a tensor of a graph; type and shape of one that has a value instead."""
    return f"{tensor.dtype.name}{tensor.shape}" if isinstance(tensor, EagerTensor) else tensor.name
