"""TPUClusterResolver: the name that programs for TPUs use; there are no TPUs here."""

from __future__ import annotations

from typing import Any

from thalweg.graph.definitions.op_registry import export


@export("contrib.cluster_resolver.TPUClusterResolver", "distribute.cluster_resolver.TPUClusterResolver")
class TPUClusterResolver:
    """Where the tasks of a TPU are. There is none here: programs that make one only for `use_tpu` run."""

    def __init__(self, tpu: Any = None, *args: Any, **kwargs: Any) -> None:
        """Raises RuntimeError, always."""
        raise RuntimeError(f"TPUClusterResolver: there is no TPU {tpu!r} here. Run the program without TPUs.")
