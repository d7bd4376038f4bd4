"""The arguments of convolution functions: steps as numbers or lists, paddings as names or lists, old names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thalweg.platform.deprecation import deprecated_argument_lookup


def one_of(new_name: str, new: Any, old_name: str, old: Any) -> Any:
    """The argument that was given under one of its two names.

    Raises:
        ValueError: If both were given.
        TypeError: If neither was.
    """
    value = deprecated_argument_lookup(new_name, new, old_name, old)
    if value is None:
        raise TypeError(f"Missing required argument '{old_name}' (or '{new_name}').")
    return value


def required(**arguments: Any) -> None:
    """Refuses None where a default stands only for the sake of the old order of arguments."""
    for name, value in arguments.items():
        if value is None:
            raise TypeError(f"Missing required argument '{name}'.")


def steps(value: Any, spatial: int, channels_first: bool, name: str) -> list[int]:
    """Strides or dilations, one per dimension: from a number, one per spatial dimension, or all of them.

    Raises:
        ValueError: For a list of any other length.
    """
    if value is None:
        value = 1
    values = list(value) if isinstance(value, Sequence) or hasattr(value, "__iter__") else [value]
    values = [int(v) for v in values]
    if len(values) == spatial + 2:
        return values
    if len(values) not in (1, spatial):
        raise ValueError(f"{name} should be of length 1, {spatial} or {spatial + 2} but was {len(values)}")
    if len(values) == 1:
        values *= spatial
    return [1, 1, *values] if channels_first else [1, *values, 1]


def paddings(padding: Any, spatial: int = 2) -> tuple[str, list[int]]:
    """The attributes `padding` and `explicit_paddings`, from a name or from [before, after] for each dimension.

    Raises:
        ValueError: If it is neither.
    """
    if isinstance(padding, (str, bytes)):
        name = padding.decode() if isinstance(padding, bytes) else padding
        if name == "EXPLICIT":
            raise ValueError(
                '"EXPLICIT" is not a valid value for the padding parameter. To use explicit padding, the padding '
                "parameter must be a list."
            )
        return name, []
    if padding is None:
        raise TypeError("Missing required argument 'padding'.")
    pairs = [list(pair) if hasattr(pair, "__iter__") else pair for pair in padding]
    if len(pairs) != spatial + 2 or any(not isinstance(pair, list) or len(pair) != 2 for pair in pairs):
        raise ValueError(f"padding must be a name, or a list of {spatial + 2} pairs of numbers, got {padding!r}")
    flat = [int(n) for pair in pairs for n in pair]
    # Explicit paddings of zero are 'VALID': the attribute has no form for an empty explicit padding.
    return ("EXPLICIT", flat) if any(flat) else ("VALID", [])


def unmixed(strides: Any, rate: Any, dilations: Any) -> Any:
    """The dilations, given under one of two names; None if they are 1.

    Raises:
        ValueError: If both strides and dilations are greater than 1.
    """
    rate = deprecated_argument_lookup("dilations", dilations, "rate", rate)
    if rate is not None and np.max(rate) > 1 and strides is not None and np.max(strides) > 1:
        raise ValueError(f"strides > 1 not supported in conjunction with a rate > 1, got {strides} and {rate}")
    return rate
