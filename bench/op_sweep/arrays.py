"""Ops that move elements: gathers, scatters, joins, transposes, slices, paddings; and sparse values."""

import numpy as np

from op_sweep import Sweep, integers, normal

MOVED = "f32 f64 f16 i64 u8"


def _sparse(rows, columns, n):
    """Sorted distinct indices of n elements."""

    def draw(dtype, rng):
        at = np.sort(rng.choice(rows * columns, n, replace=False))
        return np.stack(np.divmod(at, columns), 1).astype(np.int64)

    return draw


def _shuffled(rows, columns, n):
    return lambda dtype, rng: rng.permutation(_sparse(rows, columns, n)(dtype, rng))


SPARSE = {"10k of 1000x1000": (1000, 1000, 10_000), "200k of 2000x2000": (2000, 2000, 200_000)}


def _shape(size):
    return list(SPARSE[size][:2])


def _sparse_sweep(op, call, count=1, dtypes="f32 f64", source=_sparse, **options):
    """Sweeps of ops of sparse matrices: `call(tf, *sparse values)`."""
    for size, dims in SPARSE.items():
        inputs = [part for _ in range(count) for part in (source(*dims), normal(dims[2]))]

        def graph(tf, *parts, size=size):
            values = [tf.SparseTensor(i, v, _shape(size)) for i, v in zip(parts[::2], parts[1::2], strict=True)]
            return call(tf, *values)

        yield Sweep(op, graph, {size: inputs}, dtypes, **options)


def _with_dense(call, columns):
    for size, dims in SPARSE.items():
        yield Sweep(
            f"SparseTensorDenseMatMul {columns}",
            lambda tf, i, v, b, size=size: call(tf, tf.SparseTensor(i, v, _shape(size)), b),
            {size: [_sparse(*dims), normal(dims[2]), normal(dims[1], columns)]},
            "f32 f64",
        )


SWEEPS = [
    Sweep(
        "Gather scalars",
        lambda tf, x, i: tf.gather(x, i),
        {
            "64k": [normal(1 << 16), integers(0, 1 << 16, 1 << 16)],
            "1M": [normal(1 << 20), integers(0, 1 << 20, 1 << 20)],
        },
        MOVED,
        lambda t, x, i: x[i],
    ),
    Sweep(
        "Gather rows",
        lambda tf, x, i: tf.gather(x, i),
        {
            "10k x 64": [normal(10_000, 64), integers(0, 10_000, 10_000)],
            "1k x 1024": [normal(1000, 1024), integers(0, 1000, 1000)],
        },
        MOVED,
        lambda t, x, i: t.index_select(x, 0, i),
    ),
    Sweep(
        "Gather columns",
        lambda tf, x, i: tf.gather(x, i, axis=1),
        {"1000x1000": [normal(1000, 1000), integers(0, 1000, 500)]},
        "f32 f64",
        lambda t, x, i: t.index_select(x, 1, i),
    ),
    Sweep(
        "GatherNd",
        lambda tf, x, i: tf.gather_nd(x, i),
        {
            "1000x1000": [normal(1000, 1000), integers(0, 1000, 100_000, 2)],
            "rows": [normal(1000, 1000), integers(0, 1000, 1000, 1)],
        },
        "f32 f64 i32",
    ),
    Sweep(
        "ScatterNd",
        lambda tf, i, x: tf.scatter_nd(i, x, [100_000]),
        {"100k": [integers(0, 100_000, 100_000, 1), normal(100_000)]},
        "f32 f64 i32",
    ),
    Sweep(
        "ScatterNd rows",
        lambda tf, i, x: tf.scatter_nd(i, x, [10_000, 64]),
        {"10k x 64": [integers(0, 10_000, 10_000, 1), normal(10_000, 64)]},
        "f32 f64",
    ),
    Sweep(
        "TensorScatterUpdate",
        lambda tf, x, i, u: (
            tf.tensor_scatter_update(x, i, u)
            if hasattr(tf, "tensor_scatter_update")
            else tf.tensor_scatter_nd_update(x, i, u)
        ),
        {
            "100k": [
                normal(100_000),
                lambda _, rng: rng.permutation(100_000)[:50_000, None].astype(np.int32),
                normal(50_000),
            ]
        },
        "f32",
    ),
    Sweep(
        "ConcatV2 rows",
        lambda tf, *x: tf.concat(list(x), 0),
        {"8x(128x512)": [normal(128, 512)] * 8},
        MOVED,
        lambda t, *x: t.cat(x, 0),
    ),
    Sweep(
        "ConcatV2 columns",
        lambda tf, *x: tf.concat(list(x), 1),
        {"8x(1024x64)": [normal(1024, 64)] * 8, "4x(8k x 3)": [normal(8192, 3)] * 4},
        MOVED,
        lambda t, *x: t.cat(x, 1),
    ),
    Sweep(
        "Pack",
        lambda tf, *x: tf.stack(list(x), 1),
        {"8x(1024x64)": [normal(1024, 64)] * 8},
        "f32",
        lambda t, *x: t.stack(x, 1),
    ),
    # TensorFlow leaves an Unpack out whose outputs nobody uses.
    Sweep(
        "Unpack",
        lambda tf, x: [tf.identity(y) for y in tf.unstack(x, axis=1)],
        {"1024x8x64": [normal(1024, 8, 64)]},
        "f32 f64",
    ),
    Sweep(
        "Split", lambda tf, x: [tf.identity(y) for y in tf.split(x, 8, 1)], {"1024x512": [normal(1024, 512)]}, "f32 f64"
    ),
    Sweep(
        "Transpose",
        lambda tf, x: tf.transpose(x),
        {
            "64x64": [normal(64, 64)],
            "1024x1024": [normal(1024, 1024)],
            "100kx8": [normal(100_000, 8)],
            "3x300k": [normal(3, 300_000)],
        },
        MOVED,
        lambda t, x: x.t().contiguous(),
    ),
    Sweep(
        "Transpose 0213",
        lambda tf, x: tf.transpose(x, [0, 2, 1, 3]),
        {"8x128x8x64": [normal(8, 128, 8, 64)]},
        "f32 f16 f64",
        lambda t, x: x.permute(0, 2, 1, 3).contiguous(),
    ),
    Sweep(
        "Transpose NHWC",
        lambda tf, x: tf.transpose(x, [0, 3, 1, 2]),
        {"8x56x56x64": [normal(8, 56, 56, 64)], "8x224x224x3": [normal(8, 224, 224, 3)]},
        "f32 u8",
        lambda t, x: x.permute(0, 3, 1, 2).contiguous(),
    ),
    Sweep(
        "Slice",
        lambda tf, x: tf.slice(x, [10, 10], [900, 900]),
        {"1024x1024": [normal(1024, 1024)]},
        MOVED,
        lambda t, x: x[10:910, 10:910].contiguous(),
    ),
    Sweep(
        "StridedSlice",
        lambda tf, x: x[::2, ::3],
        {"1024x1024": [normal(1024, 1024)]},
        MOVED,
        lambda t, x: x[::2, ::3].contiguous(),
    ),
    Sweep("StridedSlice back", lambda tf, x: x[:, ::-1], {"1024x1024": [normal(1024, 1024)]}, "f32"),
    Sweep(
        "StridedSliceGrad",
        lambda tf, g: tf.raw_ops.StridedSliceGrad(
            shape=[1024, 1024],
            begin=[10, 10],
            end=[910, 910],
            strides=[1, 1],
            dy=g,
            begin_mask=0,
            end_mask=0,
            ellipsis_mask=0,
            new_axis_mask=0,
            shrink_axis_mask=0,
        ),
        {"900x900": [normal(900, 900)]},
        "f32",
    ),
    Sweep(
        "Pad",
        lambda tf, x: tf.pad(x, [[0, 0], [3, 3], [3, 3], [0, 0]]),
        {"8x112x112x16": [normal(8, 112, 112, 16)], "8x224x224x3": [normal(8, 224, 224, 3)]},
        "f32 u8",
        lambda t, x: t.nn.functional.pad(x, (0, 0, 3, 3, 3, 3)),
    ),
    Sweep(
        "MirrorPad",
        lambda tf, x: tf.pad(x, [[0, 0], [3, 3], [3, 3], [0, 0]], "REFLECT"),
        {"8x112x112x16": [normal(8, 112, 112, 16)]},
        "f32",
    ),
    Sweep(
        "Tile",
        lambda tf, x: tf.tile(x, [4, 3]),
        {"256x256": [normal(256, 256)], "64k x 1": [normal(1 << 16, 1)]},
        "f32 f64 i32",
        lambda t, x: x.repeat(4, 3),
    ),
    Sweep(
        "BroadcastTo",
        lambda tf, x: tf.broadcast_to(x, [64, 128, 256]),
        {"64x1x256": [normal(64, 1, 256)]},
        "f32 i32",
        lambda t, x: x.expand(64, 128, 256).contiguous(),
    ),
    Sweep(
        "ReverseV2",
        lambda tf, x: tf.reverse(x, [1]),
        {"1024x1024": [normal(1024, 1024)], "64x128x64": [normal(64, 128, 64)]},
        "f32 f64 u8",
        lambda t, x: t.flip(x, (1,)),
    ),
    Sweep(
        "ReverseSequence",
        lambda tf, x, n: tf.reverse_sequence(x, n, seq_axis=1, batch_axis=0),
        {"64x128x64": [normal(64, 128, 64), integers(1, 128, 64)]},
        "f32",
    ),
    Sweep(
        "Roll",
        lambda tf, x: tf.roll(x, [100], [1]),
        {"1024x1024": [normal(1024, 1024)]},
        "f32",
        lambda t, x: t.roll(x, 100, 1),
    ),
    Sweep("OneHot", lambda tf, i: tf.one_hot(i, 100), {"10k": [integers(0, 100, 10_000)]}, "i32"),
    Sweep("OneHot wide", lambda tf, i: tf.one_hot(i, 10_000), {"128": [integers(0, 10_000, 128)]}, "i64"),
    Sweep("Fill", lambda tf, x: tf.fill([1024, 1024], x), {"1024x1024": [normal()]}, "f32 f64"),
    Sweep(
        "ZerosLike",
        lambda tf, x: tf.zeros_like(x, optimize=False),
        {"1M": [normal(1 << 20)]},
        "f32",
        lambda t, x: t.zeros_like(x),
    ),
    Sweep("Range", lambda tf, n: tf.range(n), {"1M": [lambda _, rng: np.int32(1 << 20)]}, "i32"),
    Sweep("LinSpace", lambda tf, a, b: tf.linspace(a, b, 100_000), {"100k": [normal(), normal()]}, "f32 f64"),
    Sweep(
        "MatrixDiag",
        lambda tf, x: tf.linalg.diag(x),
        {"32x128": [normal(32, 128)]},
        "f32 f64",
        lambda t, x: t.diag_embed(x),
    ),
    Sweep("MatrixDiagPart", lambda tf, x: tf.linalg.diag_part(x), {"64x128x128": [normal(64, 128, 128)]}, "f32 f64"),
    Sweep(
        "MatrixSetDiag",
        lambda tf, x, d: tf.linalg.set_diag(x, d),
        {"64x128x128": [normal(64, 128, 128), normal(64, 128)]},
        "f32",
    ),
    Sweep(
        "MatrixBandPart",
        lambda tf, x: tf.linalg.band_part(x, -1, 0),
        {"64x128x128": [normal(64, 128, 128)]},
        "f32 f64",
        lambda t, x: t.tril(x),
    ),
    Sweep("SpaceToDepth", lambda tf, x: tf.nn.space_to_depth(x, 2), {"8x64x64x16": [normal(8, 64, 64, 16)]}, "f32"),
    Sweep("DepthToSpace", lambda tf, x: tf.nn.depth_to_space(x, 2), {"8x64x64x16": [normal(8, 64, 64, 16)]}, "f32"),
    Sweep(
        "SpaceToBatchND",
        lambda tf, x: tf.space_to_batch_nd(x, [2, 2], [[0, 0], [0, 0]]),
        {"8x64x64x16": [normal(8, 64, 64, 16)]},
        "f32",
    ),
    Sweep(
        "BatchToSpaceND",
        lambda tf, x: tf.batch_to_space_nd(x, [2, 2], [[0, 0], [0, 0]]),
        {"32x32x32x16": [normal(32, 32, 32, 16)]},
        "f32",
    ),
    Sweep(
        "BooleanMask",
        lambda tf, x, m: tf.boolean_mask(x, m),
        {
            "64k x 16": [normal(1 << 16, 16), lambda _, rng: rng.random(1 << 16) < 0.5],
            "1M": [normal(1 << 20), lambda _, rng: rng.random(1 << 20) < 0.5],
        },
        "f32",
        lambda t, x, m: x[m],
    ),
    Sweep("Bitcast", lambda tf, x: tf.bitcast(x, tf.int32), {"1M": [normal(1 << 20)]}, "f32"),
    Sweep("CheckNumerics", lambda tf, x: tf.debugging.check_numerics(x, ""), {"1M": [normal(1 << 20)]}, "f32 f64"),
    Sweep(
        "InvertPermutation",
        lambda tf, x: tf.math.invert_permutation(x),
        {"1M": [lambda _, rng: rng.permutation(1 << 20).astype(np.int32)]},
        "i32",
    ),
    Sweep(
        "ExtractImagePatches",
        lambda tf, x: tf.image.extract_image_patches(x, [1, 3, 3, 1], [1, 1, 1, 1], [1, 1, 1, 1], "SAME"),
        {"4x56x56x16": [normal(4, 56, 56, 16)]},
        "f32",
    ),
    Sweep("SequenceMask", lambda tf, n: tf.sequence_mask(n, 512), {"256": [integers(0, 512, 256)]}, "i32"),
    Sweep(
        "SparseToDense",
        lambda tf, i, v: tf.sparse_to_dense(i, [1000, 1000], v),
        {"10k": [_sparse(1000, 1000, 10_000), normal(10_000)], "200k": [_sparse(1000, 1000, 200_000), normal(200_000)]},
        "f32 f64",
    ),
    *_sparse_sweep("SparseTensorToDense", lambda tf, s: tf.sparse.to_dense(s)),
    *_sparse_sweep("SparseReorder", lambda tf, s: tf.sparse.reorder(s), source=_shuffled),
    *_sparse_sweep("SparseReorder sorted", lambda tf, s: tf.sparse.reorder(s)),
    *_sparse_sweep("SparseAdd", lambda tf, a, b: tf.sparse.add(a, b), 2),
    *_sparse_sweep("SparseReduceSum", lambda tf, s: tf.sparse.reduce_sum(s, 1)),
    *_sparse_sweep("SparseReduceMax", lambda tf, s: tf.sparse.reduce_max(s, 0)),
    *_sparse_sweep("SparseReduceSum all", lambda tf, s: tf.sparse.reduce_sum(s)),
    *_sparse_sweep("SparseReduceSumSparse", lambda tf, s: tf.sparse_reduce_sum_sparse(s, 1)),
    *_sparse_sweep("SparseConcat", lambda tf, a, b: tf.sparse.concat(1, [a, b]), 2),
    *_sparse_sweep("SparseSplit", lambda tf, s: tf.sparse.split(sp_input=s, num_split=4, axis=1)),
    *_sparse_sweep("SparseSlice", lambda tf, s: tf.sparse.slice(s, [100, 100], [500, 500])),
    *_sparse_sweep("SparseReshape", lambda tf, s: tf.sparse.reshape(s, [-1, 100])),
    *_sparse_sweep("SparseTranspose", lambda tf, s: tf.sparse.transpose(s)),
    *_sparse_sweep("SparseSoftmax", lambda tf, s: tf.sparse.softmax(s)),
    *_sparse_sweep("SparseMaximum", lambda tf, a, b: tf.sparse.maximum(a, b), 2),
    *_sparse_sweep("SparseFillEmptyRows", lambda tf, s: tf.sparse.fill_empty_rows(s, s.values[0])[0]),
    *_sparse_sweep("SparseDenseCwiseMul", lambda tf, s: s * np.ones(s.shape.as_list()[1], s.dtype.as_numpy_dtype)),
    *_sparse_sweep(
        "SparseTensorDenseAdd",
        lambda tf, s: tf.sparse.add(s, np.ones(s.shape.as_list(), s.dtype.as_numpy_dtype)),
        dtypes="f32",
    ),
    *_sparse_sweep("SerializeManySparse", lambda tf, s: tf.io.serialize_many_sparse(s), dtypes="f32", compared=False),
    *_with_dense(lambda tf, s, b: tf.sparse.sparse_dense_matmul(s, b), 1),
    *_with_dense(lambda tf, s, b: tf.sparse.sparse_dense_matmul(s, b), 64),
    Sweep(
        "EmbeddingLookupSparse",
        lambda tf, w, i, v: tf.nn.embedding_lookup_sparse(w, tf.SparseTensor(i, v, [1000, 100]), None, combiner="sum"),
        {"10k": [normal(5000, 64), _sparse(1000, 100, 10_000), integers(0, 5000, 10_000, dtype=np.int64)]},
        "f32",
    ),
    Sweep(
        "SetSize",
        lambda tf, a: tf.sets.size(tf.SparseTensor(a, tf.zeros([10_000], tf.int64), [1000, 100])),
        {"10k": [_sparse(1000, 100, 10_000)]},
        "f32",
    ),
    Sweep(
        "SetIntersection",
        lambda tf, a, b: tf.sets.intersection(a, b).values,
        {"1000x20": [integers(0, 100, 1000, 20), integers(0, 100, 1000, 20)]},
        "i32",
    ),
]
