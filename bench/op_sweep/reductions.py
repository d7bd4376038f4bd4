"""Reductions, scans, segments, sorting and searching."""

from functools import partial

import numpy as np

from op_sweep import Sweep, integers, normal, uniform

SHAPES = {
    "32x32": (32, 32),
    "1024x64": (1024, 64),
    "1024x2048": (1024, 2048),
    "4x500k": (4, 500_000),
    "500kx4": (500_000, 4),
}
AXES = {"all": None, "rows": 1, "columns": 0}


def _reduce(tf, x, name, axis):
    return getattr(tf, name)(x, axis)


def _torch_reduce(torch, x, name, axis):
    function = getattr(torch, name)
    if name in ("sum", "mean", "amax", "amin", "any", "all"):
        return function(x) if axis is None else function(x, axis)
    return function(x, axis if axis is not None else (0, 1)) if name == "logsumexp" else function(x, axis)


def _reductions(op, name, torch_name, dtypes, axes="all rows columns", source=normal):
    for axis in axes.split():
        if torch_name == "prod" and axis == "all":
            torch = lambda t, x: t.prod(x)  # noqa: E731
        else:
            torch = partial(_torch_reduce, name=torch_name, axis=AXES[axis]) if torch_name else None
        yield Sweep(
            f"{op} {axis}",
            partial(_reduce, name=name, axis=AXES[axis]),
            {size: [source(*shape)] for size, shape in SHAPES.items()},
            dtypes,
            torch,
        )


def _coin(*shape):
    return uniform(0, 2, *shape)


def _sorted_segments(n, segments):
    return lambda _, rng: np.sort(rng.integers(0, segments, n)).astype(np.int32)


ROWS = {"64k": (1 << 16,), "1M": (1 << 20,), "64k x 16": (1 << 16, 16), "8k x 256": (1 << 13, 256)}
SEGMENTS = 1000

SWEEPS = [
    *_reductions("Sum", "reduce_sum", "sum", "f32 f64 f16 i32 i64"),
    *_reductions("Mean", "reduce_mean", "mean", "f32 f64 f16"),
    *_reductions("Max", "reduce_max", "amax", "f32 f64 f16 i32"),
    *_reductions("Min", "reduce_min", "amin", "f32"),
    *_reductions("Prod", "reduce_prod", "prod", "f32 f64", source=lambda *s: uniform(0.99, 1.01, *s)),
    *_reductions("Any", "reduce_any", "any", "bool", source=lambda *s: uniform(0, 1, *s)),
    *_reductions("All", "reduce_all", "all", "bool", source=lambda *s: uniform(1, 2, *s)),
    *_reductions("LogSumExp", "reduce_logsumexp", "logsumexp", "f32 f64"),
    *_reductions("ArgMax", "argmax", "argmax", "f32 f64 f16 i32", "rows columns"),
    *_reductions("ArgMin", "argmin", "argmin", "f32", "rows columns"),
    *_reductions("Cumsum", "cumsum", "cumsum", "f32 f64 i32", "rows columns"),
    *_reductions("Cumprod", "cumprod", "cumprod", "f32", "rows columns", lambda *s: uniform(0.99, 1.01, *s)),
    Sweep(
        "EuclideanNorm",
        lambda tf, x: tf.norm(x, axis=1),
        {"1024x1024": [normal(1024, 1024)]},
        "f32 f64",
        lambda t, x: t.linalg.norm(x, dim=1),
    ),
    Sweep(
        "Sum middle",
        lambda tf, x: tf.reduce_sum(x, 1),
        {"64x128x64": [normal(64, 128, 64)]},
        "f32 f64 f16",
        lambda t, x: x.sum(1),
    ),
    Sweep(
        "Sum outer two",
        lambda tf, x: tf.reduce_sum(x, [0, 2]),
        {"64x128x64": [normal(64, 128, 64)]},
        "f32 f64",
        lambda t, x: x.sum((0, 2)),
    ),
    *(
        Sweep(
            op,
            partial(lambda tf, x, s, name: getattr(tf, name)(x, s), name=name),
            {size: [normal(*shape), _sorted_segments(shape[0], SEGMENTS)] for size, shape in ROWS.items()},
            dtypes,
        )
        for op, name, dtypes in (
            ("SegmentSum", "segment_sum", "f32 f64 i32"),
            ("SegmentMean", "segment_mean", "f32"),
            ("SegmentMax", "segment_max", "f32 i32"),
            ("SegmentMin", "segment_min", "f32"),
            ("SegmentProd", "segment_prod", "f32"),
        )
    ),
    *(
        Sweep(
            op,
            partial(lambda tf, x, s, name: getattr(tf, name)(x, s, SEGMENTS), name=name),
            {size: [normal(*shape), integers(0, SEGMENTS, shape[0])] for size, shape in ROWS.items()},
            "f32 f64",
        )
        for op, name in (
            ("UnsortedSegmentSum", "unsorted_segment_sum"),
            ("UnsortedSegmentMax", "unsorted_segment_max"),
            ("UnsortedSegmentMean", "unsorted_segment_mean"),
        )
    ),
    *(
        Sweep(
            op,
            partial(lambda tf, x, i, s, name: getattr(tf, name)(x, i, s), name=name),
            {"64k x 16": [normal(1 << 16, 16), integers(0, 1 << 16, 1 << 16), _sorted_segments(1 << 16, SEGMENTS)]},
            "f32 f64",
        )
        for op, name in (
            ("SparseSegmentSum", "sparse_segment_sum"),
            ("SparseSegmentMean", "sparse_segment_mean"),
            ("SparseSegmentSqrtN", "sparse_segment_sqrt_n"),
        )
    ),
    Sweep(
        "TopK",
        lambda tf, x: tf.nn.top_k(x, 10),
        {"64x10k": [normal(64, 10_000)], "1x1M": [normal(1, 1 << 20)]},
        "f32 f64 i32",
    ),
    Sweep("TopK all", lambda tf, x: tf.nn.top_k(x, 1000)[0], {"64x1000": [normal(64, 1000)]}, "f32"),
    Sweep(
        "Sort",
        lambda tf, x: tf.sort(x),
        {"64x1000": [normal(64, 1000)], "200k": [normal(200_000)]},
        "f32 f64 i32",
        lambda t, x: t.sort(x)[0],
    ),
    Sweep(
        "InTopK",
        lambda tf, x, i: tf.nn.in_top_k(x, i, 5),
        {
            "128x1000": [normal(128, 1000), integers(0, 1000, 128)],
            "4096x100": [normal(4096, 100), integers(0, 100, 4096)],
        },
        "f32",
    ),
    Sweep("NthElement", lambda tf, x: tf.raw_ops.NthElement(input=x, n=50), {"64x10k": [normal(64, 10_000)]}, "f32"),
    Sweep(
        "Unique few",
        lambda tf, x: tf.unique(x),
        {"64k": [integers(0, 100, 1 << 16)], "1M": [integers(0, 100, 1 << 20)]},
        "i32",
    ),
    Sweep(
        "Unique many",
        lambda tf, x: tf.unique(x),
        {"64k": [integers(0, 1 << 30, 1 << 16)], "1M": [integers(0, 1 << 30, 1 << 20, dtype=np.int64)]},
        "i32",
    ),
    Sweep("UniqueWithCounts", lambda tf, x: tf.unique_with_counts(x), {"64k": [integers(0, 5000, 1 << 16)]}, "i32"),
    Sweep(
        "Where half",
        lambda tf, x: tf.where(x),
        {"64k": [_coin(1 << 16)], "1024x1024": [_coin(1024, 1024)]},
        "bool",
        lambda t, x: t.nonzero(x),
    ),
    Sweep(
        "Where few",
        lambda tf, x: tf.where(x),
        {"1024x1024": [lambda _, rng: rng.random((1024, 1024)) < 0.01]},
        "bool",
        lambda t, x: t.nonzero(x),
    ),
    Sweep("Where numbers", lambda tf, x: tf.where(x), {"1M": [_coin(1 << 20)]}, "f32 i32", lambda t, x: t.nonzero(x)),
    Sweep(
        "SearchSorted",
        lambda tf, a, b: tf.searchsorted(a, b),
        {"100k": [lambda d, rng: np.sort(rng.standard_normal(100_000)).astype(d), normal(100_000)]},
        "f32 f64",
        lambda t, a, b: t.searchsorted(a, b),
    ),
    Sweep(
        "Bincount",
        lambda tf, x: tf.math.bincount(x, minlength=100, maxlength=100),
        {"1M": [integers(0, 100, 1 << 20)]},
        "i32",
        lambda t, x: t.bincount(x, minlength=100),
    ),
    Sweep(
        "HistogramFixedWidth",
        lambda tf, x: tf.histogram_fixed_width(x, [-3.0, 3.0], 50),
        {"1M": [normal(1 << 20)]},
        "f32",
    ),
    Sweep(
        "Bucketize",
        lambda tf, x: tf.raw_ops.Bucketize(input=x, boundaries=[-1.0, 0.0, 1.0, 2.0]),
        {"1M": [normal(1 << 20)]},
        "f32",
        lambda t, x: t.bucketize(x, t.tensor([-1.0, 0.0, 1.0, 2.0]), right=True),
    ),
    Sweep(
        "ListDiff",
        lambda tf, a, b: tf.setdiff1d(a, b),
        {"64k": [integers(0, 1 << 17, 1 << 16), integers(0, 1 << 17, 1 << 16)]},
        "i32",
    ),
    Sweep(
        "DynamicPartition",
        lambda tf, x, p: tf.dynamic_partition(x, p, 8),
        {"64k x 16": [normal(1 << 16, 16), integers(0, 8, 1 << 16)], "1M": [normal(1 << 20), integers(0, 8, 1 << 20)]},
        "f32",
    ),
    Sweep(
        "DynamicStitch",
        lambda tf, i, j, x, y: tf.dynamic_stitch([i, j], [x, y]),
        {
            "64k x 16": [
                lambda _, rng: np.arange(0, 1 << 16, 2, dtype=np.int32),
                lambda _, rng: np.arange(1, 1 << 16, 2, dtype=np.int32),
                normal(1 << 15, 16),
                normal(1 << 15, 16),
            ]
        },
        "f32",
    ),
]
