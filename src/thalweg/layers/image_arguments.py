"""The arguments that convolution and pooling layers share: windows, paddings and layouts."""

from __future__ import annotations

from typing import Any


def window(value: Any, rank: int, name: str) -> tuple[int, ...]:
    """A size per spatial axis, from one number or a sequence of them.

    Raises:
        ValueError: If it is not `rank` positive integers.
    """
    try:
        sizes = tuple(int(size) for size in value) if not isinstance(value, int) else (value,) * rank
    except (TypeError, ValueError):
        raise ValueError(f"The `{name}` argument must be a tuple of {rank} integers. Received: {value!r}") from None
    if len(sizes) != rank or any(size <= 0 for size in sizes):
        raise ValueError(f"The `{name}` argument must be a tuple of {rank} positive integers. Received: {value!r}")
    return sizes


def padding_of(value: str) -> str:
    """'VALID' or 'SAME'.

    Raises:
        ValueError: For anything else.
    """
    found = str(value).upper()
    if found not in ("VALID", "SAME"):
        raise ValueError(f'The `padding` argument must be one of "valid", "same". Received: {value}')
    return found


def is_channels_first(data_format: str | None) -> bool:
    """Whether the channels are axis 1.

    Raises:
        ValueError: For anything but 'channels_first' and 'channels_last'.
    """
    found = "channels_last" if data_format is None else str(data_format).lower()
    if found not in ("channels_first", "channels_last"):
        raise ValueError(
            f'The `data_format` argument must be one of "channels_first", "channels_last". Received: {data_format}'
        )
    return found == "channels_first"


def op_format(rank: int, channels_first: bool) -> str:
    """The layout as ops spell it: 'NHWC', 'NCW', ..."""
    spatial = ("W", "HW", "DHW")[rank - 1]
    return f"NC{spatial}" if channels_first else f"N{spatial}C"


def with_batch_and_channels(sizes: tuple[int, ...], channels_first: bool) -> list[int]:
    """Sizes for all axes: 1 for batch and channels."""
    return [1, 1, *sizes] if channels_first else [1, *sizes, 1]
