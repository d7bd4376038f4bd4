"""Transfers between devices in 16 bits, by attribute."""

from __future__ import annotations

from typing import Any

from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.marks import COMPRESS


@export("experimental.compress_transfers")
def compress_transfers(enabled: bool = True) -> Any:
    """A block whose operations send their float32 results to other devices in 16 bits.

    The lower 16 bits of the mantissa are cut off and filled with zeros on arrival, as in the white paper's section 5.5:
    a value loses less than 1/128 of its magnitude, towards zero. Other types, and tensors that stay on their device,
    are not touched. `GraphOptions(enable_bfloat16_sendrecv=True)` in the ConfigProto does it for all transfers.

    Args:
        enabled: False in an inner block leaves its operations out.

    Example:
        >>> x = tf.placeholder(tf.float32)
        >>> with tf.device("/cpu:0"), tf.experimental.compress_transfers():
        ...     y = x * 1.0
        >>> with tf.device("/cpu:1"):
        ...     z = y + 0.0
        >>> with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as sess:
        ...     print(sess.run(z, {x: 1.00390625}))
        1.0
    """
    return get_default_graph()._attr_scope({COMPRESS: True if enabled else None})
