"""Cases of the three-dimensional convolutions."""

from __future__ import annotations

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from tests.op_cases.convolution import FLOATS, i32, reference
from thalweg.graph.apply import apply

ONES = [1, 1, 1, 1, 1]
STEPS = [1, 2, 1, 2, 1]

case(
    "Conv3D",
    tf.nn.conv3d,
    lambda x, w, *args, **kwargs: reference(*args, **kwargs).forward(x, w),
    samples=[
        Args(real(2, 3, 2, 4, 1), real(2, 1, 3, 1, 2), 1, "VALID"),
        Args(real(1, 3, 2, 4, 2), real(2, 2, 3, 2, 1), STEPS, "SAME"),
        Args(real(1, 1, 4, 2, 3), real(2, 2, 2, 1, 1), ONES, "SAME", data_format="NCDHW", dilations=[1, 1, 3, 1, 1]),
        Args(real(1, 2, 2, 2, 2), real(1, 1, 1, 1, 2), 1, "VALID"),
        Args(real(0, 3, 2, 4, 1), real(2, 1, 3, 1, 2), 1, "VALID"),
    ],
    dtypes=FLOATS,
    order=2,
    tolerance=1e-4,
    bad=[
        Bad(Args(real(1, 5, 5, 5, 3), real(3, 3, 3, 2, 4), 1, "VALID"), match="3 vs 2"),
        Bad(Args(real(1, 5, 5, 3), real(3, 3, 3, 2, 4), 1, "VALID"), match="[1,5,5,3]"),
        Bad(Args(real(1, 5, 5, 5, 2), real(3, 3, 2, 4), 1, "VALID"), match="[3,3,2,4]"),
        Bad(Args(real(1, 1, 5, 5, 2), real(3, 3, 3, 2, 4), 1, "VALID"), match="negative"),
        Bad(Args(real(1, 5, 5, 5, 2), real(3, 3, 3, 2, 4), [1, 1, 0, 1, 1], "VALID"), match="strides"),
    ],
)
case(
    "Conv3D",
    tf.nn.conv3d,
    lambda x, w, *args, **kwargs: reference(*args, **kwargs).forward(x, w),
    samples=[
        Args(real(2, 5, 6, 7, 4), real(3, 2, 3, 4, 8), 1, "SAME"),
        Args(real(2, 4, 5, 6, 7), real(3, 2, 3, 4, 8), 2, "VALID", data_format="NCDHW"),
    ],
    dtypes="bfloat16 float32 float64",
    tolerance=2e-4,
    notes="Large enough for oneDNN.",
)
case(
    "Conv3DBackpropInputV2",
    tf.nn.conv3d_transpose,
    lambda x, w, sizes, *args, **kwargs: reference(*args, **kwargs).input_gradient(sizes, w, x),
    samples=[
        Args(real(2, 2, 2, 2, 2), real(2, 1, 3, 1, 2), np.array([2, 3, 2, 4, 1], i32), 1, "VALID"),
        Args(real(1, 2, 2, 2, 1), real(2, 2, 3, 2, 1), np.array([1, 3, 2, 4, 2], np.int64), STEPS, "SAME"),
        Args(real(0, 2, 2, 2, 2), real(2, 1, 3, 1, 2), np.array([0, 3, 2, 4, 1], i32), 1, "VALID"),
    ],
    dtypes=FLOATS,
    order=2,
    tolerance=2e-4,
    bad=[
        Bad(
            Args(real(2, 2, 2, 3, 2), real(2, 1, 3, 1, 2), np.array([2, 3, 2, 4, 1], i32), 1, "VALID"),
            match="[2,2,2,3,2]",
        ),
        Bad(Args(real(2, 2, 2, 2, 2), real(2, 1, 3, 1, 2), np.array([2, 3, 4, 1], i32), 1, "VALID"), match="[4]"),
    ],
)
case(
    "Conv3DBackpropFilterV2",
    tf.nn.conv3d_backprop_filter_v2,
    lambda x, sizes, grad, *args, **kwargs: reference(*args, **kwargs).filter_gradient(x, sizes, grad),
    samples=[
        Args(real(2, 3, 2, 4, 1), np.array([2, 1, 3, 1, 2], i32), real(2, 2, 2, 2, 2), ONES, "VALID"),
        Args(real(1, 3, 2, 4, 2), np.array([2, 2, 3, 2, 1], i32), real(1, 2, 2, 2, 1), STEPS, "SAME"),
    ],
    dtypes=FLOATS,
    order=2,
    tolerance=5e-4,
    bad=[
        Bad(
            Args(real(2, 3, 2, 4, 1), np.array([2, 1, 3, 1, 2], i32), real(2, 2, 2, 3, 2), ONES, "VALID"),
            match="[2,2,2,3,2]",
        ),
    ],
)
case(
    "Conv3DBackpropInput",
    lambda x, w, grad: apply("Conv3DBackpropInput", x, w, grad, strides=ONES, padding="VALID"),
    lambda x, w, grad: reference(1, "VALID").input_gradient(x.shape, w, grad),
    samples=[Args(real(2, 3, 2, 4, 1, constant=True), real(2, 1, 3, 1, 2), real(2, 2, 2, 2, 2))],
    dtypes=FLOATS,
    order=2,
    bad=[Bad(Args(real(2, 3, 2, 4, 1), real(2, 1, 3, 1, 2), real(2, 2, 2, 3, 2)), match="[2,2,2,3,2]")],
)
case(
    "Conv3DBackpropFilter",
    lambda x, w, grad: apply("Conv3DBackpropFilter", x, w, grad, strides=ONES, padding="VALID"),
    lambda x, w, grad: reference(1, "VALID").filter_gradient(x, w.shape, grad),
    samples=[Args(real(2, 3, 2, 4, 1), real(2, 1, 3, 1, 2, constant=True), real(2, 2, 2, 2, 2))],
    dtypes=FLOATS,
    order=2,
    bad=[Bad(Args(real(2, 3, 2, 4, 1), real(2, 1, 3, 1, 2), real(2, 2, 2, 3, 2)), match="[2,2,2,3,2]")],
)
case(
    "Conv3DBackpropInputV2",
    tf.nn.conv3d_transpose,
    lambda x, w, sizes, *args, **kwargs: reference(*args, **kwargs).input_gradient(sizes, w, x),
    samples=[
        Args(real(2, 5, 6, 7, 8), real(3, 2, 3, 4, 8), np.array([2, 5, 6, 7, 4], i32), 1, "SAME"),
    ],
    dtypes="bfloat16 float32",
    tolerance=2e-4,
    notes="Large enough for oneDNN.",
)
case(
    "Conv3DBackpropFilterV2",
    tf.nn.conv3d_backprop_filter_v2,
    lambda x, sizes, grad, *args, **kwargs: reference(*args, **kwargs).filter_gradient(x, sizes, grad),
    samples=[
        Args(real(2, 5, 6, 7, 4), np.array([3, 2, 3, 4, 8], i32), real(2, 5, 6, 7, 8), ONES, "SAME"),
    ],
    dtypes="bfloat16 float32",
    tolerance=5e-4,
    notes="Large enough for oneDNN.",
)
