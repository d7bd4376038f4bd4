"""EmbeddingOptions: when rows of an embedding variable come and go, and how and where they are kept."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.state.initializers import Constant, Ones, RandomNormal, RandomUniform, TruncatedNormal, Zeros

_PRECISIONS = ("float32", "bfloat16", "int8")


@export("EmbeddingOptions")
@dataclass(frozen=True)
class EmbeddingOptions:
    """The options of `tf.get_embedding_variable`. A step is one update of the variable (of the part on one task).

    Attributes:
        precision: How values are kept: 'float32', 'bfloat16', or 'int8' with a scale for each row. Slots of
            optimizers are float32.
        seed: Of the first values of rows; that of the initializer, or one made of the variable's name, if None.
        admit_after: A key gets a row when it occurs in an update for the n-th time (at most 255).
        filter_bytes: The memory for counting keys without a row, if `admit_after` is more than 1.
        steps_to_live: Rows without an update for so many steps leave; 0: never.
        min_count: Rows with fewer updates than that leave, once they have been idle for `idle_steps`.
        min_norm: Rows whose value has a smaller 2-norm leave, once they have been idle for `idle_steps`.
        idle_steps: For the two above.
        max_rows: The most rows there are: beyond, the least frequently updated leave.
        ram_bytes: The memory for rows; those that are used least are on disk beyond it. 0: no limit.
        folder: Where; needed with `ram_bytes`.
    """

    precision: str = "float32"
    seed: int | None = None
    admit_after: int = 1
    filter_bytes: int = 1 << 20
    steps_to_live: int = 0
    min_count: int = 0
    min_norm: float = 0.0
    idle_steps: int = 1000
    max_rows: int = 0
    ram_bytes: int = 0
    folder: str = ""

    def __post_init__(self) -> None:
        """Checks them.

        Raises:
            ValueError: If one is out of range.
        """
        if self.precision not in _PRECISIONS:
            raise ValueError(f"precision must be one of {', '.join(_PRECISIONS)}, got {self.precision!r}.")
        if not 1 <= self.admit_after <= 255:
            raise ValueError(f"admit_after must be between 1 and 255, got {self.admit_after}.")
        for name in ("filter_bytes", "steps_to_live", "min_count", "min_norm", "idle_steps", "max_rows", "ram_bytes"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}.")
        if self.ram_bytes and not self.folder:
            raise ValueError("ram_bytes needs a folder for the rows beyond it.")

    def attrs(self) -> dict[str, Any]:
        """The attributes of the handle's op, without the seed."""
        return {
            "precision": self.precision, "admit_after": self.admit_after, "filter_bytes": self.filter_bytes,
            "steps_to_live": self.steps_to_live, "min_count": self.min_count, "min_norm": self.min_norm,
            "idle_steps": self.idle_steps, "max_rows": self.max_rows, "ram_bytes": self.ram_bytes,
            "folder": self.folder,
        }  # fmt: skip


def first_value_attrs(initializer: Any, dim: int, seed: int | None, name: str) -> dict[str, Any]:
    """The attributes that say what the first value of a row is.

    Raises:
        ValueError: If the initializer is not a function of the key and a seed.
    """
    if initializer is None:
        initializer = TruncatedNormal(stddev=1.0 / math.sqrt(dim))
    if isinstance(initializer, type):
        initializer = initializer()
    if isinstance(initializer, (int, float)):
        initializer = Constant(float(initializer))
    if isinstance(initializer, (Zeros, Ones, Constant)):
        value = constant_of(initializer)
        kind: tuple[str, float, float] = ("constant", value, 0.0)
    elif isinstance(initializer, RandomUniform):
        kind = ("uniform", initializer.minval, 1.0 if initializer.maxval is None else initializer.maxval)
    elif isinstance(initializer, RandomNormal):
        kind = ("normal", initializer.mean, initializer.stddev)
    elif isinstance(initializer, TruncatedNormal):
        kind = ("truncated_normal", initializer.mean, initializer.stddev)
    else:
        raise ValueError(
            "The initializer of an embedding variable must be a number or one of zeros, ones, constant, "
            f"random_uniform, random_normal and truncated_normal, got {initializer!r}."
        )
    if seed is None:
        seed = getattr(initializer, "seed", None)
    if seed is None:
        # All workers, and all runs, agree on the first value of a row.
        seed = zlib.crc32(name.encode())
    return {"initializer": kind[0], "initializer_a": float(kind[1]), "initializer_b": float(kind[2]), "seed": seed}


def constant_of(initializer: Any) -> float:
    """The number that an initializer fills a row with.

    Raises:
        ValueError: If it is not one number.
    """
    if isinstance(initializer, type):
        initializer = initializer()
    if isinstance(initializer, Zeros):
        return 0.0
    if isinstance(initializer, Ones):
        return 1.0
    if isinstance(initializer, Constant) and isinstance(initializer.value, (int, float)):
        return float(initializer.value)
    raise ValueError(f"Rows of an embedding variable can only be filled with one number, got {initializer!r}.")
