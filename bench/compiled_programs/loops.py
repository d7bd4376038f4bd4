"""Loops over scalars, vectors and matrices, with products, reductions, slices and conditionals; scan, map_fn, foldl."""

import numpy as np

from compiled_programs import Program
from op_sweep import fixed, integers, normal, uniform


def count(n):
    return fixed(np.int32(n))


def positive_definite(n):
    def draw(dtype, rng):
        a = rng.standard_normal((n, n))
        return (a @ a.T / n + np.eye(n)).astype(dtype)

    return draw


def orthogonal(n):
    return lambda dtype, rng: np.linalg.qr(rng.standard_normal((n, n)))[0].astype(dtype)


def collatz(m, n):
    def body(i, x):
        return i + 1, m.where(m.equal(x % 2, 0), x // 2, x * 3 + 1)

    return m.while_loop(lambda i, x: x > 1, body, (m.constant(0, "int32"), n))[0]


def newton(m, n, a):
    def body(i, x):
        return i + 1, x - (x * x - a) / (2.0 * x) * 0.5

    return m.while_loop(lambda i, x: i < n, body, (m.constant(0, "int32"), a))[1]


def doubles(m, n, a):
    def body(i, x):
        return i + 1, x * 0.999 + m.exp(-x) * 0.01

    return m.while_loop(lambda i, x: i < n, body, (m.constant(0, "int32"), a))[1]


def until_converged(m, a):
    def body(i, x, d):
        y = m.cos(x)
        return i + 1, y, m.abs(y - x)

    return m.while_loop(lambda i, x, d: d > 1e-6, body, (m.constant(0, "int32"), a, m.constant(1.0, "float32")))[1]


def pendulum(m, n, start):
    def body(i, q, p):
        p = p - 0.01 * m.sin(q)
        return i + 1, q + 0.01 * p, p

    return m.while_loop(lambda i, q, p: i < n, body, (m.constant(0, "int32"), start, start * 0.0))[1]


def lorenz(m, n, x, y, z):
    def body(i, x, y, z):
        return i + 1, x + 0.01 * (10.0 * (y - x)), y + 0.01 * (x * (14.0 - z) - y), z + 0.01 * (x * y - 2.667 * z)

    return m.while_loop(lambda i, x, y, z: i < n, body, (m.constant(0, "int32"), x, y, z))[1]


def mandelbrot(m, n, cr, ci):
    def body(i, u, v, k):
        alive = u * u + v * v < 4.0
        u, v = m.where(alive, u * u - v * v + cr, u), m.where(alive, 2.0 * u * v + ci, v)
        return i + 1, u, v, k + m.cast(alive, "int32")

    start = (m.constant(0, "int32"), cr * 0.0, ci * 0.0, m.cast(cr * 0.0, "int32"))
    return m.while_loop(lambda i, u, v, k: i < n, body, start)[3]


def power_iteration(m, n, a, v):
    def body(i, v):
        w = m.matmul(a, v)
        return i + 1, w * m.rsqrt(m.sum(w * w))

    return m.while_loop(lambda i, v: i < n, body, (m.constant(0, "int32"), v))[1]


def conjugate_gradients(m, n, a, b):
    def body(i, x, r, p, rr):
        ap = m.matmul(a, p)
        alpha = rr / m.sum(p * ap)
        x, r = x + alpha * p, r - alpha * ap
        after = m.sum(r * r)
        return i + 1, x, r, r + after / rr * p, after

    start = (m.constant(0, "int32"), b * 0.0, b, b, m.sum(b * b))
    return m.while_loop(lambda i, x, r, p, rr: i < n, body, start)[1]


def gradient_descent(m, n, x, y, w):
    def body(i, w):
        error = m.matmul(x, w) - y
        return i + 1, w - 0.001 * m.matmul(x, error, transpose_a=True)

    def body_jax(i, w):
        error = m.matmul(x, w) - y
        return i + 1, w - 0.001 * m.matmul(x.T, error)

    return m.while_loop(lambda i, w: i < n, body_jax if hasattr(m, "jnp") else body, (m.constant(0, "int32"), w))[1]


def matrix_power(m, n, a):
    def body(i, x):
        return i + 1, m.matmul(x, a)

    return m.while_loop(lambda i, x: i < n, body, (m.constant(0, "int32"), a))[1]


def recurrent(m, n, x, w, u):
    def body(i, h):
        return i + 1, m.tanh(m.matmul(h, w) + m.matmul(x, u))

    return m.while_loop(lambda i, h: i < n, body, (m.constant(0, "int32"), x * 0.0))[1]


def sinkhorn(m, n, k, a, b):
    def body(i, u, v):
        u = a / m.sum(k * v, -1, True)
        return i + 1, u, b / m.sum(k * u, 0, True)

    return m.while_loop(lambda i, u, v: i < n, body, (m.constant(0, "int32"), a, b))[1]


def heat(m, n, x):
    def body(i, x):
        left, right = x[:-2], x[2:]
        inner = x[1:-1] + 0.1 * (left - 2.0 * x[1:-1] + right)
        padded = m.tf.pad(inner, [[1, 1]]) if hasattr(m, "tf") else m.jnp.pad(inner, 1)
        return i + 1, padded

    return m.while_loop(lambda i, x: i < n, body, (m.constant(0, "int32"), x))[1]


def conditional_walk(m, n, a):
    def body(i, x):
        return i + 1, m.cond(x > 1.0, lambda: x * 0.5 - 0.1, lambda: m.tanh(x) * 0.5 + a)

    return m.while_loop(lambda i, x: i < n, body, (m.constant(0, "int32"), a))[1]


def nested(m, n, a):
    def body(i, x):
        inner = m.while_loop(lambda j, y: j < 10, lambda j, y: (j + 1, y * 0.9 + a), (m.constant(0, "int32"), x))[1]
        return i + 1, inner * 0.5

    return m.while_loop(lambda i, x: i < n, body, (m.constant(0, "int32"), a))[1]


def large_vector(m, n, x):
    def body(i, x):
        return i + 1, x - 0.01 * (x * x * x - x)

    return m.while_loop(lambda i, x: i < n, body, (m.constant(0, "int32"), x))[1]


def scan_sum(m, xs):
    return m.scan(lambda s, x: s + x, xs, m.constant(0.0, "float32"))


def scan_average(m, xs):
    return m.scan(lambda s, x: 0.9 * s + 0.1 * x, xs, m.zeros([8]))


def scan_recurrent(m, xs, w):
    return m.scan(lambda h, x: m.tanh(m.matmul(h, w) + x), xs, m.zeros([16, 64]))


def scan_logistic(m, xs):
    return m.scan(lambda s, x: m.sigmoid(s * 2.0 + x) - 0.5, xs, m.constant(0.0, "float32"))


def foldl_sum(m, xs):
    return m.foldl(lambda s, x: s * 0.99 + m.tanh(x), xs, m.zeros([32]))


def foldl_scalar(m, xs):
    return m.foldl(lambda s, x: m.maximum(s * 0.99, x), xs, m.constant(0.0, "float32"))


def map_scalar(m, xs):
    return m.map(lambda x: m.exp(-x * x) + 1.0, xs)


def map_rows(m, xs):
    return m.map(lambda x: m.softmax(x * 2.0), xs)


def map_quadratic(m, xs, w):
    return m.map(lambda x: m.sum(m.matmul(x, w) * x), xs)


def gather_walk(m, n, xs):
    def body(i, s):
        return i + 1, s * 0.5 + xs[i]

    return m.while_loop(lambda i, s: i < n, body, (m.constant(0, "int32"), m.constant(0.0, "float32")))[1]


def hash_of_integers(m, xs):
    return m.foldl(lambda s, x: s * 3 + x, xs, m.constant(0, "int32"))


PROGRAMS = [
    Program("collatz", collatz, [fixed(np.int32(837799))]),
    Program("newton 10000", newton, [count(10000), fixed(np.float32(2))]),
    Program("doubles 10000", doubles, [count(10000), fixed(np.float64(0.5))]),
    Program("until_converged", until_converged, [fixed(np.float32(0.3))]),
    Program("pendulum 1000, 8", pendulum, [count(1000), normal(8)]),
    Program("pendulum 1000, 100", pendulum, [count(1000), normal(100)]),
    Program("lorenz 5000", lorenz, [count(5000)] + [fixed(np.float32(x)) for x in (1, 1.5, 2)]),
    Program("mandelbrot 50, 64x64", mandelbrot, [count(50), uniform(-2, 1, 64, 64), uniform(-1, 1, 64, 64)]),
    Program("mandelbrot 50, 500x500", mandelbrot, [count(50), uniform(-2, 1, 500, 500), uniform(-1, 1, 500, 500)]),
    Program("power_iteration 200, 32", power_iteration, [count(200), positive_definite(32), normal(32, 1)]),
    Program("power_iteration 200, 256", power_iteration, [count(200), positive_definite(256), normal(256, 1)]),
    Program("conjugate_gradients 50, 64", conjugate_gradients, [count(50), positive_definite(64), normal(64, 1)]),
    Program("conjugate_gradients 50, 500", conjugate_gradients, [count(50), positive_definite(500), normal(500, 1)]),
    Program(
        "gradient_descent 100, 200x10", gradient_descent, [count(100), normal(200, 10), normal(200, 1), normal(10, 1)]
    ),
    Program("matrix_power 100, 8", matrix_power, [count(100), orthogonal(8)]),
    Program("matrix_power 100, 48", matrix_power, [count(100), orthogonal(48)]),
    Program("matrix_power 100, 128", matrix_power, [count(100), orthogonal(128)]),
    Program("recurrent 100, 1x32", recurrent, [count(100), normal(1, 32), orthogonal(32), orthogonal(32)]),
    Program("recurrent 100, 32x128", recurrent, [count(100), normal(32, 128), orthogonal(128), orthogonal(128)]),
    Program(
        "sinkhorn 100, 50x60",
        sinkhorn,
        [count(100), uniform(0.1, 1, 50, 60), uniform(0.5, 1, 50, 1), uniform(0.5, 1, 1, 60)],
    ),
    Program("heat 1000, 64", heat, [count(1000), normal(64)]),
    Program("conditional_walk 10000", conditional_walk, [count(10000), fixed(np.float32(0.3))]),
    Program("nested 500x10", nested, [count(500), fixed(np.float32(0.3))]),
    Program("large_vector 100, 10000", large_vector, [count(100), normal(10000)]),
    Program("large_vector 20, 1M", large_vector, [count(20), normal(1_000_000)]),
    Program("scan_sum 10000", scan_sum, [normal(10000)]),
    Program("scan_average 2000x8", scan_average, [normal(2000, 8)]),
    Program("scan_recurrent 50x16x64", scan_recurrent, [normal(50, 16, 64), orthogonal(64)]),
    Program("scan_logistic 5000", scan_logistic, [normal(5000)]),
    Program("foldl_sum 1000x32", foldl_sum, [normal(1000, 32)]),
    Program("foldl_scalar 10000", foldl_scalar, [normal(10000)]),
    Program("map_scalar 10000", map_scalar, [normal(10000)]),
    Program("map_rows 500x100", map_rows, [normal(500, 100)]),
    Program("map_quadratic 200x4x16", map_quadratic, [normal(200, 16, 16), normal(16, 16)]),
    Program("gather_walk 5000", gather_walk, [count(5000), normal(5000)]),
    Program("hash_of_integers 1000", hash_of_integers, [integers(-9, 9, 1000)]),
]
