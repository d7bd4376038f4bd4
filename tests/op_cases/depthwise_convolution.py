"""Cases of the depthwise and the separable convolution."""

from __future__ import annotations

import functools

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from tests.op_cases.convolution import FLOATS, UNEVEN, i32
from tests.op_cases.convolution import reference as any_reference

reference = functools.partial(any_reference, depthwise=True)

case(
    "DepthwiseConv2dNative",
    tf.nn.depthwise_conv2d_native,
    lambda x, w, *args, **kwargs: reference(*args, **kwargs).forward(x, w),
    samples=[
        Args(real(2, 4, 5, 2), real(2, 3, 2, 3), [1, 1, 1, 1], "VALID"),
        Args(real(1, 5, 4, 2), real(3, 3, 2, 1), [1, 2, 2, 1], "SAME"),
        Args(real(1, 5, 6, 1), real(2, 2, 1, 2), [1, 1, 1, 1], "SAME", dilations=[1, 1, 2, 1]),
        Args(real(1, 2, 5, 4), real(3, 2, 2, 2), [1, 1, 1, 1], "SAME", data_format="NCHW"),
        Args(real(1, 3, 4, 1), real(2, 2, 1, 1), [1, 2, 2, 1], UNEVEN),
        Args(real(0, 4, 5, 2), real(2, 3, 2, 3), [1, 1, 1, 1], "VALID"),
        Args(real(1, 4, 5, 2), real(2, 3, 2, 0), [1, 1, 1, 1], "VALID"),
    ],
    dtypes=FLOATS,
    order=2,
    tolerance=1e-4,
    bad=[
        Bad(Args(real(1, 5, 5, 3), real(3, 3, 2, 4), [1, 1, 1, 1], "VALID"), match="3 vs 2"),
        Bad(Args(real(1, 5, 3), real(3, 3, 2, 4), [1, 1, 1, 1], "VALID"), match="[1,5,3]"),
        Bad(Args(real(1, 5, 5, 2), real(3, 3, 2, 4), [1, 0, 1, 1], "VALID"), match="strides"),
        Bad(Args(real(1, 1, 1, 2), real(3, 3, 2, 4), [1, 1, 1, 1], "VALID"), match="negative"),
    ],
)
case(
    "DepthwiseConv2dNative",
    tf.nn.depthwise_conv2d_native,
    lambda x, w, *args, **kwargs: reference(*args, **kwargs).forward(x, w),
    samples=[
        Args(real(2, 9, 10, 16), real(3, 3, 16, 1), [1, 1, 1, 1], "SAME"),
        Args(real(2, 9, 10, 13), real(3, 3, 13, 2), [1, 2, 2, 1], "VALID"),
        Args(real(2, 16, 9, 10), real(3, 3, 16, 1), [1, 1, 1, 1], "SAME", data_format="NCHW"),
    ],
    dtypes="bfloat16 float32",
    tolerance=2e-4,
    notes="Large enough for oneDNN.",
)
case(
    "DepthwiseConv2dNativeBackpropInput",
    tf.nn.depthwise_conv2d_native_backprop_input,
    lambda sizes, w, grad, *args, **kwargs: reference(*args, **kwargs).input_gradient(sizes, w, grad),
    samples=[
        Args(np.array([2, 4, 5, 2], i32), real(2, 3, 2, 3), real(2, 3, 3, 6), [1, 1, 1, 1], "VALID"),
        Args(np.array([1, 2, 4, 5], i32), real(2, 3, 2, 1), real(1, 2, 2, 3), [1, 1, 2, 2], "SAME", data_format="NCHW"),
        Args(np.array([0, 4, 5, 2], i32), real(2, 3, 2, 3), real(0, 3, 3, 6), [1, 1, 1, 1], "VALID"),
    ],
    dtypes=FLOATS,
    order=2,
    tolerance=1e-4,
    bad=[
        Bad(
            Args(np.array([2, 4, 5, 2], i32), real(2, 3, 2, 3), real(2, 3, 3, 5), [1, 1, 1, 1], "VALID"),
            match="[2,3,3,5]",
        ),
        Bad(
            Args(np.array([2, 4, 5, 3], i32), real(2, 3, 2, 3), real(2, 3, 3, 6), [1, 1, 1, 1], "VALID"), match="3 vs 2"
        ),
    ],
)
case(
    "DepthwiseConv2dNativeBackpropFilter",
    tf.nn.depthwise_conv2d_native_backprop_filter,
    lambda x, sizes, grad, *args, **kwargs: reference(*args, **kwargs).filter_gradient(x, sizes, grad),
    samples=[
        Args(real(2, 4, 5, 2), np.array([2, 3, 2, 3], i32), real(2, 3, 3, 6), [1, 1, 1, 1], "VALID"),
        Args(real(1, 2, 4, 5), np.array([2, 3, 2, 1], i32), real(1, 2, 2, 3), [1, 1, 2, 2], "SAME", data_format="NCHW"),
        Args(real(0, 4, 5, 2), np.array([2, 3, 2, 3], i32), real(0, 3, 3, 6), [1, 1, 1, 1], "VALID"),
    ],
    dtypes=FLOATS,
    order=2,
    tolerance=5e-4,
    bad=[
        Bad(
            Args(real(2, 4, 5, 2), np.array([2, 3, 2, 3], i32), real(2, 3, 3, 5), [1, 1, 1, 1], "VALID"),
            match="[2,3,3,5]",
        ),
        Bad(
            Args(real(2, 4, 5, 2), np.array([2, 3, 3, 3], i32), real(2, 3, 3, 6), [1, 1, 1, 1], "VALID"), match="2 vs 3"
        ),
    ],
)
case(
    "DepthwiseConv2dNativeBackpropInput",
    tf.nn.depthwise_conv2d_native_backprop_input,
    lambda sizes, w, grad, *args, **kwargs: reference(*args, **kwargs).input_gradient(sizes, w, grad),
    samples=[
        Args(np.array([2, 9, 10, 16], i32), real(3, 3, 16, 1), real(2, 9, 10, 16), [1, 1, 1, 1], "SAME"),
        Args(np.array([2, 9, 10, 13], i32), real(3, 3, 13, 2), real(2, 5, 5, 26), [1, 2, 2, 1], "SAME"),
    ],
    dtypes="bfloat16 float32",
    tolerance=1e-4,
    notes="Large enough for oneDNN.",
)
case(
    "DepthwiseConv2dNativeBackpropFilter",
    tf.nn.depthwise_conv2d_native_backprop_filter,
    lambda x, sizes, grad, *args, **kwargs: reference(*args, **kwargs).filter_gradient(x, sizes, grad),
    samples=[
        Args(real(2, 9, 10, 16), np.array([3, 3, 16, 1], i32), real(2, 9, 10, 16), [1, 1, 1, 1], "SAME"),
        Args(real(2, 9, 10, 13), np.array([3, 3, 13, 3], i32), real(2, 9, 10, 39), [1, 1, 1, 1], "SAME"),
    ],
    dtypes="bfloat16 float32",
    tolerance=5e-4,
    notes="Large enough for oneDNN.",
)
