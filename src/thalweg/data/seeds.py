"""The seeds of datasets: those of random ops, as tensors, so that they can be computed by the graph."""

from __future__ import annotations

from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import get_default_graph, get_seed
from thalweg.graph.tensor import Tensor


def seed_tensors(seed: Any) -> tuple[Tensor, Tensor]:
    """The two seeds; (0, 0), which asks for a different order in each run, only where no seed was given."""
    if isinstance(seed, Tensor):
        given = seed if seed.dtype is dtypes.int64 else apply_one("Cast", seed, DstT=dtypes.int64)
        first = get_default_graph().seed
        # A zero would make the pair (0, 0) if the given seed is zero, too: a fixed seed was asked for.
        return convert_to_tensor(87654321 if not first else int(first), dtypes.int64, name="seed"), given
    first, second = get_seed(seed)
    return (
        convert_to_tensor(first or 0, dtypes.int64, name="seed"),
        convert_to_tensor(second or 0, dtypes.int64, name="seed2"),
    )
