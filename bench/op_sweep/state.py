"""Steps with state: training ops, scatters, TensorArrays, loops, tables, recurrent cells; and quantized products."""

import numpy as np

from op_sweep import Sweep, fixed, integers, normal, uniform

SIZES = {"1k": [normal(1000)], "1M": [normal(1 << 20)]}


def _after(tf, operation):
    """A tensor that exists once an operation is done."""
    with tf.control_dependencies([operation]):
        return tf.identity(tf.constant(0))


def _trained(make):
    """Applies a gradient by the optimizer that `make` returns."""

    def call(tf, gradient):
        variable = tf.Variable(tf.zeros(gradient.shape, gradient.dtype), use_resource=True)
        return _after(tf, make(tf).apply_gradients([(gradient, variable)]))

    return call


def _trained_rows(make):
    """The same for some rows of a table."""

    def call(tf, gradient, rows):
        variable = tf.Variable(tf.zeros([100_000, 64]), use_resource=True)
        slices = tf.IndexedSlices(gradient, rows, tf.constant([100_000, 64]))
        return _after(tf, make(tf).apply_gradients([(slices, variable)]))

    return call


OPTIMIZERS = {
    "GradientDescent": lambda tf: tf.train.GradientDescentOptimizer(0.1),
    "Momentum": lambda tf: tf.train.MomentumOptimizer(0.1, 0.9),
    "Adagrad": lambda tf: tf.train.AdagradOptimizer(0.1),
    "Adam": lambda tf: tf.train.AdamOptimizer(0.1),
    "RMSProp": lambda tf: tf.train.RMSPropOptimizer(0.1),
    "Ftrl": lambda tf: tf.train.FtrlOptimizer(0.1),
}


def _scattered(method):
    def call(tf, updates, rows):
        variable = tf.Variable(tf.zeros([100_000, 64]), use_resource=True)
        return _after(tf, getattr(variable, method)(tf.IndexedSlices(updates, rows)))

    return call


def _tensor_array(tf, x):
    array = tf.TensorArray(tf.float32, 256).unstack(x)
    total = tf.while_loop(
        lambda i, _, __: i < 256,
        lambda i, total, to: (i + 1, total + array.read(i), to.write(i, total)),
        (tf.constant(0), tf.zeros_like(x[0]), tf.TensorArray(tf.float32, 256)),
    )
    return total[1], total[2].stack()


def _looked_up(tf, keys, queries):
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(keys, tf.range(10_000, dtype=tf.int64)), np.int64(-1)
    )
    return table.lookup(queries)


def _block_lstm(tf, x, w, b):
    zero = tf.zeros([32, 128])
    peephole = tf.zeros([128])
    return tf.raw_ops.BlockLSTM(
        seq_len_max=tf.constant(20, tf.int64), x=x, cs_prev=zero, h_prev=zero, w=w, wci=peephole, wcf=peephole,
        wco=peephole, b=b,
    )[6]  # fmt: skip


def _lstm_cell(tf, x, w, b):
    zero = tf.zeros([32, 128])
    peephole = tf.zeros([128])
    return tf.raw_ops.LSTMBlockCell(
        x=x, cs_prev=zero, h_prev=zero, w=w, wci=peephole, wcf=peephole, wco=peephole, b=b
    )[6]  # fmt: skip


def _gru_cell(tf, x, w, w2, b, b2):
    return tf.raw_ops.GRUBlockCell(x=x, h_prev=tf.zeros([32, 128]), w_ru=w, w_c=w2, b_ru=b, b_c=b2)[3]


def _quantized_matmul(tf, a, b):
    low, high = tf.constant(-1.0), tf.constant(1.0)
    return tf.raw_ops.QuantizedMatMul(
        a=tf.bitcast(a, tf.quint8), b=tf.bitcast(b, tf.quint8), min_a=low, max_a=high, min_b=low, max_b=high
    )[1:]  # fmt: skip


def _bytes(*shape):
    return integers(0, 255, *shape, dtype=np.uint8)


ROWS = {"1k of 100k": [normal(1000, 64), integers(0, 100_000, 1000)]}

SWEEPS = [
    *[Sweep(f"Apply{n}", _trained(make), SIZES, "f32 f64", compared=False) for n, make in OPTIMIZERS.items()],
    *[Sweep(f"SparseApply{n}", _trained_rows(make), ROWS, compared=False) for n, make in OPTIMIZERS.items()],
    *[Sweep(f"Scatter {m}", _scattered(m), ROWS, compared=False) for m in ("scatter_add", "scatter_update")],
    Sweep("TensorArray", _tensor_array, {"256x16": [normal(256, 16)], "256x4096": [normal(256, 4096)]}),
    Sweep("MapFn", lambda tf, x: tf.map_fn(lambda row: tf.reduce_sum(row * 2), x), {"256x64": [normal(256, 64)]}),
    Sweep("Scan", lambda tf, x: tf.scan(lambda a, row: a * 0.5 + row, x), {"256x64": [normal(256, 64)]}),
    Sweep(
        "LookupTableFind", _looked_up, {"10k": [lambda _, __: np.array([b"w%d" % i for i in range(10_000)], object),
        lambda _, rng: np.array([b"w%d" % i for i in rng.integers(0, 20_000, 10_000)], object)]}, "str",
    ),
    Sweep("BlockLSTM", _block_lstm, {"20x32x128": [normal(20, 32, 64), normal(192, 512), normal(512)]}),
    Sweep("LSTMBlockCell", _lstm_cell, {"32x128": [normal(32, 64), normal(192, 512), normal(512)]}),
    Sweep("GRUBlockCell", _gru_cell, {"32x128": [normal(32, 64), normal(192, 256), normal(192, 128), normal(256),
          normal(128)]}),
    Sweep("QuantizedMatMul", _quantized_matmul, {"64x64x64": [_bytes(64, 64), _bytes(64, 64)],
          "512x512x512": [_bytes(512, 512), _bytes(512, 512)]}, "u8", compared=False),
    Sweep("TridiagonalSolve", lambda tf, d, x: tf.linalg.tridiagonal_solve(d, x),
          {"100x64": [uniform(1, 2, 100, 3, 64), normal(100, 64, 1)]}, "f32 f64", tolerance=1e-1),
    Sweep("UnravelIndex", lambda tf, x: tf.unravel_index(x, [1000, 1000]), {"100k": [integers(0, 1_000_000, 100_000)]}),
    Sweep("Bincount weights", lambda tf, x, w: tf.math.bincount(x, w, minlength=1000, maxlength=1000),
          {"100k": [integers(0, 1000, 100_000), normal(100_000)]}, "f32 f64"),
    Sweep("Tensordot", lambda tf, a, b: tf.tensordot(a, b, [[1], [1]]), {"64x128x32": [normal(64, 128, 32),
          normal(32, 128, 64)]}, "f32 f64"),
    Sweep("Cross", lambda tf, a, b: tf.linalg.cross(a, b), {"100k": [normal(100_000, 3), normal(100_000, 3)]},
          "f32 f64", lambda t, a, b: t.linalg.cross(a, b)),
    Sweep("Trace", lambda tf, x: tf.linalg.trace(x), {"1000x16x16": [normal(1000, 16, 16)]}, "f32 f64"),
    Sweep("DrawBoundingBoxes", lambda tf, x, boxes: tf.image.draw_bounding_boxes(x, boxes),
          {"4x256x256": [uniform(0, 1, 4, 256, 256, 3), fixed(np.float32([[[0.1, 0.1, 0.8, 0.8]]] * 4))]}),
    Sweep("AdjustSaturation", lambda tf, x: tf.image.adjust_saturation(x, 0.5), {"4x256x256": [uniform(0, 1, 4, 256,
          256, 3)]}),
]  # fmt: skip
