"""Cases of the two-dimensional convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from tests.ops.convolution_reference import Convolution

FLOATS = "float16 bfloat16 float32 float64"
i32 = np.int32
# Paddings, the last larger than the filter.
UNEVEN = [[0, 0], [2, 1], [0, 3], [0, 0]]
LARGE = [[0, 0], [4, 0], [0, 5], [0, 0]]


def reference(strides: Any, padding: Any, data_format: str = "NHWC", dilations: Any = 1, **options: Any) -> Convolution:
    """A Convolution from the arguments of the functions under test."""
    return Convolution(strides, padding, dilations, data_format.startswith("NC"), **options)


case(
    "Conv2D",
    tf.nn.conv2d,
    lambda x, w, *args, **kwargs: reference(*args, **kwargs).forward(x, w),
    samples=[
        Args(real(2, 4, 5, 2), real(2, 3, 2, 3), 1, "VALID"),
        Args(real(1, 5, 4, 2), real(3, 3, 2, 2), [1, 2, 2, 1], "SAME"),
        Args(real(1, 5, 6, 1), real(2, 2, 1, 2), [1, 2], "SAME", dilations=[1, 2, 1, 1]),
        Args(real(1, 2, 5, 4), real(3, 2, 2, 2), 1, "SAME", data_format="NCHW"),
        Args(real(1, 3, 4, 4), real(2, 2, 2, 4), 1, "VALID"),
        Args(real(1, 3, 4, 1), real(2, 2, 1, 1), 2, UNEVEN),
        Args(real(1, 3, 3, 1), real(2, 2, 1, 1), 1, LARGE),
        Args(real(1, 2, 2, 1), real(1, 1, 1, 1), 3, "VALID"),
        Args(real(0, 4, 5, 2), real(2, 3, 2, 3), 1, "VALID"),
        Args(real(1, 2, 2, 2), real(3, 3, 2, 3), 1, "VALID"),
        Args(real(1, 0, 3, 2), real(3, 3, 2, 3), 1, "SAME"),
        Args(real(1, 3, 3, 2), real(3, 3, 2, 0), 1, "SAME"),
    ],
    dtypes=FLOATS,
    order=2,
    tolerance=1e-4,
    bad=[
        Bad(Args(real(1, 5, 5, 3), real(3, 3, 2, 4), 1, "VALID"), match="3 vs 2"),
        Bad(Args(real(1, 5, 5, 4), real(3, 3, 2, 3), 1, "VALID"), match="groups: 3 vs 2"),
        Bad(Args(real(5, 5, 4), real(3, 3, 4, 4), 1, "VALID"), match="[5,5,4]"),
        Bad(Args(real(1, 5, 5, 4), real(3, 3, 4), 1, "VALID"), match="[3,3,4]"),
        Bad(Args(real(1, 1, 1, 2), real(3, 3, 2, 2), 1, "VALID"), match="negative"),
        Bad(Args(real(1, 3, 3, 0), real(2, 2, 0, 2), 1, "SAME"), match="depth"),
        Bad(Args(real(1, 3, 3, 1), real(0, 2, 1, 2), 1, "SAME"), match="zero"),
        Bad(Args(real(1, 3, 3, 1), real(2, 2, 1, 2), 0, "SAME"), match="strides"),
        Bad(Args(real(1, 3, 3, 1), real(2, 2, 1, 2), [1, -1, 1, 1], "SAME"), match="strides"),
        Bad(Args(real(1, 3, 3, 1), real(2, 2, 1, 2), [2, 1, 1, 1], "SAME"), match="batch"),
        Bad(Args(real(1, 3, 3, 1), real(2, 2, 1, 2), 1, "SAME", dilations=0), match="dilations"),
        Bad(Args(real(1, 3, 3, 1), real(2, 2, 1, 2), 1, [[0, 0], [-1, 0], [0, 0], [0, 0]]), match="nonnegative"),
        Bad(Args(real(1, 3, 3, 1), real(2, 2, 1, 2), 1, [[1, 0], [0, 0], [0, 0], [0, 0]]), match="batch"),
        Bad(Args(real(1, 3, 3, 1), real(2, 2, 1, 2), 1, [[0, 0], [2**40, 0], [0, 0], [0, 0]])),
        Bad(Args(real(64, 3, 3, 1), real(1, 1, 1, 2), 1, [[0, 0], [2**30, 2**30], [2**30, 2**30], [0, 0]])),
        Bad(Args(real(1, 3, 3, 1), real(2, 2, 1, 2), 1, "EXPLICIT")),
    ],
)
case(
    "Conv2D",
    tf.nn.conv2d,
    lambda x, w, *args, **kwargs: reference(*args, **kwargs).forward(x, w),
    samples=[Args(real(2, 4, 5, 2), real(2, 3, 2, 3), 1, "VALID")],
    dtypes="int32",
    notes="Integers, which have no gradients.",
)
# Large enough for oneDNN.
case(
    "Conv2D",
    tf.nn.conv2d,
    lambda x, w, *args, **kwargs: reference(*args, **kwargs).forward(x, w),
    samples=[
        Args(real(2, 9, 10, 3), real(3, 3, 3, 16), 1, "SAME"),
        Args(real(2, 9, 10, 16), real(3, 2, 16, 8), 2, UNEVEN),
        Args(real(2, 16, 10, 9), real(3, 3, 16, 8), 1, "VALID", data_format="NCHW"),
        Args(real(2, 9, 10, 16), real(3, 3, 4, 16), 1, "SAME", dilations=2),
        Args(real(2, 9, 10, 17), real(1, 1, 17, 19), [2, 1], "SAME"),
        Args(real(2, 9, 10, 16), real(2, 2, 16, 8), 1, LARGE),
    ],
    dtypes="float16 bfloat16 float32 float64",
    tolerance=2e-4,
    notes="Large enough for oneDNN.",
)

case(
    "Conv2DBackpropInput",
    tf.nn.conv2d_backprop_input,
    lambda sizes, w, grad, *args, **kwargs: reference(*args, **kwargs).input_gradient(sizes, w, grad),
    samples=[
        Args(np.array([2, 4, 5, 2], i32), real(2, 3, 2, 3), real(2, 3, 3, 3), 1, "VALID"),
        Args(np.array([1, 5, 4, 2], i32), real(3, 3, 2, 2), real(1, 3, 2, 2), 2, "SAME"),
        Args(np.array([1, 4, 5, 2], i32), real(2, 2, 2, 4), real(1, 4, 5, 2), 1, "SAME", data_format="NCHW"),
        Args(np.array([1, 3, 4, 1], i32), real(2, 2, 1, 1), real(1, 3, 3, 1), 2, UNEVEN),
        Args(np.array([0, 4, 5, 2], i32), real(2, 3, 2, 3), real(0, 3, 3, 3), 1, "VALID"),
        Args(np.array([1, 2, 2, 2], i32), real(3, 3, 2, 3), real(1, 0, 0, 3), 1, "VALID"),
    ],
    dtypes=FLOATS,
    order=2,
    tolerance=1e-4,
    bad=[
        Bad(Args(np.array([2, 4, 5, 2], i32), real(2, 3, 2, 3), real(2, 3, 4, 3), 1, "VALID"), match="[2,3,4,3]"),
        Bad(Args(np.array([2, 4, 5], i32), real(2, 3, 2, 3), real(2, 3, 3, 3), 1, "VALID"), match="[3]"),
        Bad(Args(np.array([[2, 4, 5, 2]], i32), real(2, 3, 2, 3), real(2, 3, 3, 3), 1, "VALID"), match="[1,4]"),
        Bad(Args(np.array([2, -4, 5, 2], i32), real(2, 3, 2, 3), real(2, 3, 3, 3), 1, "VALID"), match="-4"),
        Bad(Args(np.array([2, 4, 5, 3], i32), real(2, 3, 2, 3), real(2, 3, 3, 3), 1, "VALID"), match="3 vs 2"),
        Bad(Args(np.array([2**30, 2**30, 2**30, 2], i32), real(2, 3, 2, 3), real(2, 3, 3, 3), 1, "VALID")),
    ],
)
case(
    "Conv2DBackpropInput",
    lambda w, grad: tf.nn.conv2d_backprop_input([4, 5], w, grad, 1, "VALID"),
    lambda w, grad: reference(1, "VALID").input_gradient([2, 4, 5, 2], w, grad),
    samples=[Args(real(2, 3, 2, 3), real(2, 3, 3, 3))],
    notes="Only the size of the image is given.",
)
case(
    "Conv2DBackpropInput",
    tf.nn.conv2d_transpose,
    lambda x, w, sizes, *args, **kwargs: reference(*args, **kwargs).input_gradient(sizes, w, x),
    samples=[
        Args(real(2, 5, 5, 16), real(3, 3, 8, 16), np.array([2, 10, 9, 8], i32), 2, "SAME"),
        Args(real(2, 16, 8, 7), real(3, 3, 8, 16), np.array([2, 8, 10, 9], i32), 1, "VALID", data_format="NCHW"),
    ],
    dtypes="bfloat16 float32 float64",
    tolerance=2e-4,
    notes="The transposed convolution; large enough for oneDNN.",
)

case(
    "Conv2DBackpropFilter",
    tf.nn.conv2d_backprop_filter,
    lambda x, sizes, grad, *args, **kwargs: reference(*args, **kwargs).filter_gradient(x, sizes, grad),
    samples=[
        Args(real(2, 4, 5, 2), np.array([2, 3, 2, 3], i32), real(2, 3, 3, 3), 1, "VALID"),
        Args(real(1, 5, 4, 2), np.array([3, 3, 2, 2], i32), real(1, 3, 2, 2), 2, "SAME"),
        Args(real(1, 4, 5, 2), np.array([2, 2, 2, 4], i32), real(1, 4, 5, 2), 1, "SAME", data_format="NCHW"),
        Args(real(1, 3, 4, 1), np.array([2, 2, 1, 1], i32), real(1, 3, 3, 1), 2, UNEVEN),
        Args(real(0, 4, 5, 2), np.array([2, 3, 2, 3], i32), real(0, 3, 3, 3), 1, "VALID"),
        Args(real(1, 2, 2, 2), np.array([3, 3, 2, 3], i32), real(1, 0, 0, 3), 1, "VALID"),
    ],
    dtypes=FLOATS,
    order=2,
    tolerance=1e-4,
    bad=[
        Bad(Args(real(2, 4, 5, 2), np.array([2, 3, 2, 3], i32), real(2, 3, 4, 3), 1, "VALID"), match="[2,3,4,3]"),
        Bad(Args(real(2, 4, 5, 2), np.array([2, 3, 2], i32), real(2, 3, 3, 3), 1, "VALID"), match="[3]"),
        Bad(Args(real(2, 4, 5, 2), np.array([2, -3, 2, 3], i32), real(2, 3, 3, 3), 1, "VALID"), match="-3"),
        Bad(Args(real(2, 4, 5, 2), np.array([2, 3, 3, 3], i32), real(2, 3, 3, 3), 1, "VALID"), match="2 vs 3"),
    ],
)
case(
    "Conv2DBackpropFilter",
    tf.nn.conv2d_backprop_filter,
    lambda x, sizes, grad, *args, **kwargs: reference(*args, **kwargs).filter_gradient(x, sizes, grad),
    samples=[
        Args(real(2, 9, 10, 3), np.array([3, 3, 3, 16], i32), real(2, 9, 10, 16), 1, "SAME"),
        Args(real(2, 9, 10, 1), np.array([3, 3, 1, 16], i32), real(2, 9, 10, 16), 1, "SAME"),
        Args(real(2, 9, 10, 7), np.array([1, 1, 7, 16], i32), real(2, 9, 10, 16), 1, "VALID"),
        Args(real(2, 9, 10, 7), np.array([1, 1, 7, 16], i32), real(2, 10, 10, 16), 1, [[0, 0], [1, 0], [0, 0], [0, 0]]),
        Args(real(2, 9, 10, 16), np.array([1, 1, 16, 16], i32), real(2, 5, 5, 16), 2, "SAME"),
        Args(real(2, 9, 10, 16), np.array([3, 3, 4, 16], i32), real(2, 9, 10, 16), 1, "SAME", dilations=2),
        Args(real(2, 16, 8, 7), np.array([3, 3, 16, 8], i32), real(2, 8, 3, 3), 2, "VALID", data_format="NCHW"),
    ],
    dtypes="bfloat16 float32 float64",
    tolerance=5e-4,
    notes="Large enough for oneDNN.",
)
