"""Chains of element-wise operations, with broadcasts, casts, selections, other element types, and reductions."""

import numpy as np

from compiled_programs import Program
from op_sweep import integers, normal, uniform

MILLION = 1_000_000


def gelu(m, x):
    return 0.5 * x * (1.0 + m.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def gelu_erf(m, x):
    return x * 0.5 * (1.0 + m.erf(x * 0.70710678))


def swish_bias(m, x, b):
    y = x + b
    return y * m.sigmoid(y)


def scale_rows_and_columns(m, x, row, column):
    return (x - column) * row + m.tanh(x * column)


def layer_norm(m, x, g, b):
    mean = m.mean(x, -1, True)
    centred = x - mean
    variance = m.mean(m.square(centred), -1, True)
    return centred * m.rsqrt(variance + 1e-6) * g + b


def softmax_by_hand(m, x):
    e = m.exp(x - m.max(x, -1, True))
    return e / m.sum(e, -1, True)


def log_sum_exp(m, x):
    largest = m.max(x, -1, True)
    return m.log(m.sum(m.exp(x - largest), -1, True)) + largest


def softmax_cross_entropy(m, x, y):
    return -m.sum(y * m.log_softmax(x), -1)


def masked_softmax(m, x, mask):
    return m.softmax(x * 0.125 + (1.0 - mask) * -1e9)


def huber(m, x, y):
    d = m.abs(x - y)
    return m.mean(m.where(d < 1.0, 0.5 * d * d, d - 0.5))


def leaky_clip(m, x):
    return m.where(x > 0.0, m.minimum(x, 6.0), 0.1 * x) * 2.0 - 1.0


def threshold_count(m, x):
    return m.sum(m.cast(m.logical_and(x > 0.5, x < 1.5), "float32"))


def accuracy_mask(m, x, y):
    return m.cast(m.equal(m.cast(x * 4.0, "int32"), y), "float32") * x


def int_chain(m, x, y):
    return (x * 3 + y) * x - m.maximum(x, y) + 7


def int_to_float(m, x):
    return m.cast(x, "float32") * (1.0 / 255.0) - 0.5


def bytes_to_float(m, x):
    return (m.cast(x, "float32") - 127.5) * (1.0 / 127.5)


def bool_logic(m, x, y):
    return m.logical_or(m.logical_and(x > 0.0, y > 0.0), m.logical_and(x < -1.0, y < -1.0))


def half_chain(m, x):
    return m.tanh(x * 1.1 + 0.1) * x - 0.5 * x


def half_gelu(m, x):
    y = m.cast(x, "float32")
    return m.cast(gelu(m, y), "float16")


def bfloat_chain(m, x):
    y = m.cast(x, "bfloat16")
    return m.cast(m.tanh(y * y + y) * y - y, "float32")


def double_chain(m, x):
    return m.exp(-x * x * 0.5) * (1.0 + x * 0.3) - 0.1 * x


def double_to_float(m, x):
    return m.cast(x * 2.0 + 1.0, "float32") * 0.5


def adam_like(m, p, g, mo, v):
    mo2 = 0.9 * mo + 0.1 * g
    v2 = 0.999 * v + 0.001 * g * g
    return p - 0.01 * mo2 / (m.sqrt(v2) + 1e-8), mo2, v2


def two_outputs(m, x):
    y = m.tanh(x * 0.5 + 0.2)
    return y * y + 1.0, y * x - 1.0


def variance_of_columns(m, x):
    mean = m.mean(x, 0, True)
    return m.mean(m.square(x - mean), 0)


def column_sums_of_chain(m, x):
    return m.sum(m.tanh(x) * x + 1.0, 0)


def row_norms(m, x):
    return x * m.rsqrt(m.sum(m.square(x), -1, True) + 1e-6)


def distances(m, a, b):
    return m.sum(m.square(a - b), -1)


def outer_distance(m, a, b):
    return m.exp(-m.square(a - b))


def polynomial(m, x):
    y = 0.3
    for c in (0.1, -0.2, 0.05, 0.7, -0.4, 0.9, 0.2, -0.6):
        y = y * x + c
    return y


def sines(m, x):
    return m.sin(x) * m.cos(x * 0.5) + m.floor(x)


def softplus_sum(m, x):
    return m.sum(m.softplus(x) - x * 0.5)


def bernoulli_loss(m, x, y):
    return m.mean(m.sum(m.maximum(x, 0.0) - x * y + m.log(1.0 + m.exp(-m.abs(x))), -1))


def image_normalization(m, x, mean, deviation):
    return (m.cast(x, "float32") - mean) / deviation


def channel_affine(m, x, scale, offset):
    return m.relu(x * scale + offset)


def gated(m, x, gate, b):
    return m.tanh(x + b) * m.sigmoid(gate - b) + x


def small_chain(m, x):
    return m.tanh(x * 1.1 + 0.1) * m.sigmoid(x) - 0.5 * x


def mandelbrot_step(m, x, y):
    u, v = x, y
    for _ in range(6):
        u, v = u * u - v * v + x, 2.0 * u * v + y
    return m.cast(u * u + v * v < 4.0, "float32")


def attention_scores(m, s, mask):
    return m.softmax(m.where(mask > 0, s * 0.125, -1e9))


PROGRAMS = [
    Program("gelu 1M", gelu, [normal(MILLION)]),
    Program("gelu 32x64x768", gelu, [normal(32, 64, 768)]),
    Program("gelu_erf 1M", gelu_erf, [normal(MILLION)]),
    Program("swish_bias 512x1024", swish_bias, [normal(512, 1024), normal(1024)]),
    Program("swish_bias 4096x48", swish_bias, [normal(4096, 48), normal(48)]),
    Program("rows_and_columns 1000x1000", scale_rows_and_columns, [normal(1000, 1000), normal(1000), normal(1000, 1)]),
    Program("layer_norm 2048x512", layer_norm, [normal(2048, 512), normal(512), normal(512)]),
    Program("layer_norm 64x768", layer_norm, [normal(64, 768), normal(768), normal(768)]),
    Program("softmax_by_hand 4096x128", softmax_by_hand, [normal(4096, 128)]),
    Program("softmax_by_hand 256x5000", softmax_by_hand, [normal(256, 5000)]),
    Program("log_sum_exp 1024x1000", log_sum_exp, [normal(1024, 1000)]),
    Program(
        "softmax_cross_entropy 1024x1000", softmax_cross_entropy, [normal(1024, 1000), uniform(0, 0.01, 1024, 1000)]
    ),
    Program("masked_softmax 8x12x128x128", masked_softmax, [normal(8, 12, 128, 128), uniform(0, 1, 8, 1, 1, 128)]),
    Program("attention_scores 16x128x128", attention_scores, [normal(16, 128, 128), normal(16, 128, 128)]),
    Program("huber 1M", huber, [normal(MILLION), normal(MILLION)]),
    Program("leaky_clip 1M", leaky_clip, [normal(MILLION)]),
    Program("threshold_count 1M", threshold_count, [normal(MILLION)]),
    Program("accuracy_mask 1M", accuracy_mask, [normal(MILLION), integers(-4, 5, MILLION)]),
    Program("int_chain 1M", int_chain, [integers(-9, 9, MILLION), integers(-9, 9, MILLION)]),
    Program("int_to_float 1M", int_to_float, [integers(0, 256, MILLION)]),
    Program("bytes_to_float 4M", bytes_to_float, [integers(0, 256, 4 * MILLION, dtype=np.uint8)]),
    Program("bool_logic 1M", bool_logic, [normal(MILLION), normal(MILLION)]),
    Program("half_chain 1M", half_chain, [normal(MILLION)], np.float16),
    Program("half_gelu 1M", half_gelu, [normal(MILLION)], np.float16),
    Program("bfloat_chain 1M", bfloat_chain, [normal(MILLION)]),
    Program("double_chain 1M", double_chain, [normal(MILLION)], np.float64),
    Program("double_to_float 1M", double_to_float, [normal(MILLION)], np.float64),
    Program("adam_like 1M", adam_like, [normal(MILLION)] * 3 + [uniform(0, 1, MILLION)]),
    Program("two_outputs 1M", two_outputs, [normal(MILLION)]),
    Program("variance_of_columns 4096x256", variance_of_columns, [normal(4096, 256)]),
    Program("column_sums_of_chain 4096x256", column_sums_of_chain, [normal(4096, 256)]),
    Program("row_norms 8192x64", row_norms, [normal(8192, 64)]),
    Program("distances 200x300x16", distances, [normal(200, 1, 16), normal(1, 300, 16)]),
    Program("outer_distance 1000x1000", outer_distance, [normal(1000, 1), normal(1, 1000)]),
    Program("polynomial 1M", polynomial, [normal(MILLION)]),
    Program("sines 1M", sines, [normal(MILLION)]),
    Program("softplus_sum 1M", softplus_sum, [normal(MILLION)]),
    Program("bernoulli_loss 1000x784", bernoulli_loss, [normal(1000, 784), uniform(0, 1, 1000, 784)]),
    Program(
        "image_normalization 32x96x96x3",
        image_normalization,
        [integers(0, 256, 32, 96, 96, 3, dtype=np.uint8), normal(3), uniform(1, 2, 3)],
    ),
    Program("channel_affine 16x56x56x64", channel_affine, [normal(16, 56, 56, 64), normal(64), normal(64)]),
    Program("channel_affine 16x56x56x24", channel_affine, [normal(16, 56, 56, 24), normal(24), normal(24)]),
    Program("gated 256x1024", gated, [normal(256, 1024), normal(256, 1024), normal(1024)]),
    Program("small_chain 16", small_chain, [normal(16)]),
    Program("small_chain 1000", small_chain, [normal(1000)]),
    Program("small_chain 30000", small_chain, [normal(30000)]),
    Program("mandelbrot_step 1M", mandelbrot_step, [uniform(-2, 2, MILLION), uniform(-2, 2, MILLION)]),
]
