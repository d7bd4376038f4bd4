"""`tensorflow.python.layers.utils`: arguments of convolutions, and branches that may be known."""

from __future__ import annotations

from typing import Any

from thalweg.layers.branching import choose, known_choice


def normalize_tuple(value: Any, n: int, name: str) -> tuple[int, ...]:
    """One number for all of `n` axes, or `n` of them, as a tuple.

    Raises:
        ValueError: If it is neither.
    """
    if isinstance(value, int):
        return (value,) * n
    try:
        sizes = tuple(int(size) for size in value)
    except (TypeError, ValueError) as e:
        raise ValueError(f"The `{name}` argument must be a tuple of {n} integers. Received: {value}") from e
    if len(sizes) != n:
        raise ValueError(f"The `{name}` argument must be a tuple of {n} integers. Received: {value}")
    return sizes


def normalize_data_format(value: str) -> str:
    """'channels_first' or 'channels_last', in lower case."""
    text = value.lower()
    if text not in ("channels_first", "channels_last"):
        raise ValueError(f'The `data_format` argument must be "channels_first" or "channels_last". Received: {value}')
    return text


def normalize_padding(value: str) -> str:
    """'valid' or 'same', in lower case."""
    text = value.lower()
    if text not in ("valid", "same"):
        raise ValueError(f'The `padding` argument must be "valid" or "same". Received: {value}')
    return text


def convert_data_format(data_format: str, ndim: int) -> str:
    """The letters that convolutions take: 'NHWC' for 'channels_last' of four axes."""
    letters = {3: ("NWC", "NCW"), 4: ("NHWC", "NCHW"), 5: ("NDHWC", "NCDHW")}
    if ndim not in letters:
        raise ValueError(f"Input rank not supported: {ndim}")
    return letters[ndim][normalize_data_format(data_format) == "channels_first"]


def conv_output_length(input_length: int | None, filter_size: int, padding: str, stride: int, dilation: int = 1) -> Any:
    """The size of a convolution's output along one axis."""
    if input_length is None:
        return None
    reach = filter_size + (filter_size - 1) * (dilation - 1)
    length = {"same": input_length, "valid": input_length - reach + 1, "full": input_length + reach - 1}[padding]
    return (length + stride - 1) // stride


def deconv_output_length(input_length: int | None, filter_size: int, padding: str, stride: int) -> Any:
    """The size of a transposed convolution's output along one axis."""
    if input_length is None:
        return None
    length = input_length * stride
    return {"same": length, "valid": length + max(filter_size - stride, 0), "full": length - stride - filter_size + 2}[
        padding
    ]


def smart_cond(pred: Any, true_fn: Any = None, false_fn: Any = None, name: str | None = None) -> Any:
    """Calls one of two functions where the choice is known, and builds a `tf.cond` where it is a tensor."""
    return choose(pred, true_fn, false_fn, name)


def smart_constant_value(pred: Any) -> bool | None:
    """The value of a predicate, or None if it is not known before the step runs."""
    return known_choice(pred)


def constant_value(pred: Any) -> bool | None:
    """The value of a predicate, or None if it is not known before the step runs."""
    return known_choice(pred)
