"""Cases of pooling, forward and backward, in two and three dimensions."""

import itertools

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from tests.op_cases.arithmetic import FLOATS


def _windows(shape, ksize, strides, padding):
    """The slices of each window, by its place in the output, and the shape of the output."""
    lines, sizes = [], []
    for size, window, stride in zip(shape, ksize, strides, strict=True):
        if padding == "SAME":
            count = -(-size // stride)
            before = max(0, (count - 1) * stride + window - size) // 2
        else:
            count, before = (size - window) // stride + 1, 0
        starts = [i * stride - before for i in range(count)]
        lines.append([slice(max(s, 0), min(s + window, size)) for s in starts])
        sizes.append(count)
    return sizes, itertools.product(*lines)


def _reference(reduce):
    def pool(x, ksize, strides, padding):
        sizes, windows = _windows(x.shape[1:-1], ksize, strides, padding)
        space = tuple(range(1, x.ndim - 1))
        rows = [reduce(x[(slice(None), *window)].astype(np.float64), space) for window in windows]
        out = np.stack(rows, 1) if rows else np.zeros((x.shape[0], 0, x.shape[-1]))
        return out.reshape(x.shape[0], *sizes, x.shape[-1])

    return pool


_MAX, _AVG = _reference(np.max), _reference(np.mean)


def _call(function, format_=None):
    def call(x, ksize, strides, padding):
        return function(x, list(ksize), list(strides), padding)

    return call


_IMAGES = [
    Args(real(2, 4, 4, 3), (2, 2), (2, 2), "VALID"),
    Args(real(1, 5, 6, 9), (3, 3), (2, 2), "SAME"),
    Args(real(2, 3, 4, 20), (3, 2), (1, 1), "SAME"),
    Args(real(1, 2, 3, 2), (5, 5), (1, 1), "SAME"),
    Args(real(2, 5, 5, 33), (5, 5), (3, 3), "VALID"),
    Args(real(1, 7, 4, 2), (1, 1), (3, 2), "VALID"),
    Args(real(0, 4, 4, 3), (2, 2), (2, 2), "VALID"),
    Args(real(2, 4, 4, 0), (2, 2), (2, 2), "VALID"),
    Args(real(2, 0, 4, 3), (2, 2), (2, 2), "SAME"),
]
_IMAGES_BAD = [
    Bad(Args(real(1, 3, 3, 1), (4, 4), (1, 1), "VALID"), match="4"),
    Bad(Args(real(3, 3, 1), (2, 2), (1, 1), "VALID"), match="[3,3,1]"),
    Bad(Args(real(1, 3, 3, 1), (2, 2), (0, 1), "VALID")),
    Bad(Args(real(1, 3, 3, 1), (-2, 2), (1, 1), "SAME")),
    Bad(Args(real(1, 3, 3, 1), (2, 2, 2), (1, 1), "SAME")),
    Bad(Args(real(1, 3, 3, 1), (2, 2), (1, 1), "NONE")),
    Bad(Args(real(2, 3, 3, 1), (2, 2, 2, 1), (1, 1, 1, 1), "SAME"), match="batch dimension"),
    Bad(Args(real(2, 3, 3, 4), (1, 2, 1, 2), (1, 1, 1, 2), "SAME"), match="channels"),
    Bad(Args(real(2, 3, 3, 4), (1, 1, 1, 3), (1, 1, 1, 3), "SAME"), match="channels"),
]
case(
    "MaxPool",
    _call(tf.nn.max_pool),
    _MAX,
    samples=_IMAGES,
    bad=_IMAGES_BAD,
    dtypes=f"{FLOATS} int8 uint8 int16 uint16 int32 int64",
    order=2,
)
case("AvgPool", _call(tf.nn.avg_pool), _AVG, samples=_IMAGES, bad=_IMAGES_BAD, dtypes=FLOATS, order=2)
_VOLUMES = [
    Args(real(2, 4, 4, 2, 3), (2, 2, 2), (2, 2, 2), "VALID"),
    Args(real(1, 3, 3, 4, 9), (3, 2, 2), (1, 2, 1), "SAME"),
    Args(real(0, 4, 4, 4, 3), (2, 2, 2), (2, 2, 2), "VALID"),
]
_VOLUMES_BAD = [
    Bad(Args(real(1, 3, 3, 3, 1), (4, 1, 1), (1, 1, 1), "VALID"), match="4"),
    Bad(Args(real(1, 3, 3, 1), (2, 2, 2), (1, 1, 1), "VALID"), match="[1,3,3,1]"),
    Bad(Args(real(1, 2, 2, 2, 4), (1, 1, 1, 1, 2), (1, 1, 1, 1, 2), "SAME"), match="channels"),
]
case("MaxPool3D", _call(tf.nn.max_pool3d), _MAX, samples=_VOLUMES, bad=_VOLUMES_BAD, dtypes=FLOATS, order=2)
case("AvgPool3D", _call(tf.nn.avg_pool3d), _AVG, samples=_VOLUMES, bad=_VOLUMES_BAD, dtypes=FLOATS, order=2)


def _channels_first(function):
    def call(x, ksize, strides, padding):
        return function(x, list(ksize), list(strides), padding, data_format="NCHW")

    return call


def _channels_first_reference(function):
    return lambda x, *args: np.moveaxis(function(np.moveaxis(x, 1, -1), *args), -1, 1)


_FIRST = [
    Args(real(2, 3, 4, 5), (2, 2), (2, 1), "SAME"),
    Args(real(1, 2, 20, 21), (3, 3), (2, 2), "VALID"),
    Args(real(1, 2, 9, 21), (3, 3), (1, 1), "SAME"),
]
for _op, _function, _expected in (("MaxPool", tf.nn.max_pool, _MAX), ("AvgPool", tf.nn.avg_pool, _AVG)):
    case(_op, _channels_first(_function), _channels_first_reference(_expected), samples=_FIRST, order=2)
case(
    "MaxPool",
    lambda x: tf.nn.max_pool(x, [1, 1, 1, 2], [1, 1, 1, 2], "VALID"),
    lambda x: x.reshape(*x.shape[:-1], -1, 2).max(-1),
    samples=[Args(real(1, 2, 3, 6))],
    order=2,
)
case(
    "MaxPool",
    lambda x: tf.nn.max_pool(x, 2, 1, [[0, 0], [1, 0], [0, 1], [0, 0]]),
    lambda x: _MAX(np.pad(x, [[0, 0], [1, 0], [0, 1], [0, 0]], constant_values=-9), (2, 2), (1, 1), "VALID"),
    samples=[Args(real(1, 2, 3, 6))],
    bad=[Bad(Args(real(2, 3, 6)), match="[2,3,6]")],
    order=1,
)
case(
    "MaxPoolV2",
    lambda x, k, s: tf.raw_ops.MaxPoolV2(input=x, ksize=k, strides=s, padding="SAME"),
    lambda x, k, s: _MAX(x, k[1:3], s[1:3], "SAME"),
    samples=[Args(real(1, 5, 5, 3), np.array([1, 3, 3, 1], np.int32), np.array([1, 2, 2, 1], np.int32))],
    bad=[
        Bad(Args(real(1, 5, 5, 3), np.array([1, 3, 0, 1], np.int32), np.array([1, 2, 2, 1], np.int32)), match="ksize"),
        Bad(Args(real(1, 5, 5, 3), np.array([1, 3, 3, 1], np.int32), np.array([2, 2], np.int32)), match="2"),
        Bad(Args(real(1, 5, 5, 3), np.array(3, np.int32), np.array([1, 2, 2, 1], np.int32)), match="vectors"),
    ],
    order=2,
)


def _max_grad(x, grad):
    """Each gradient of a 2x2 window with stride 1 goes to the window's maximum."""
    out = np.zeros(x.shape, np.float64)
    for i, r, s, c in np.ndindex(grad.shape):
        place = np.argmax(x[i, r : r + 2, s : s + 2, c])
        out[i, r + place // 2, s + place % 2, c] += grad[i, r, s, c]
    return out


def _max_grad_grad(x, grad):
    sizes = (x.shape[0], x.shape[1] - 1, x.shape[2] - 1, x.shape[3])
    out = np.zeros(sizes, np.float64)
    for i, r, s, c in np.ndindex(sizes):
        place = np.argmax(x[i, r : r + 2, s : s + 2, c])
        out[i, r, s, c] = grad[i, r + place // 2, s + place % 2, c]
    return out


_TWO = {"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "VALID"}


def _raw(op, **more):
    def call(x, grad):
        pooled = tf.nn.max_pool(x, 2, 1, "VALID")
        return op(orig_input=x, orig_output=pooled, grad=grad, **(more or _TWO))

    return call


_INPUTS = {"ksize": np.array([1, 2, 2, 1], np.int32), "strides": np.ones(4, np.int32), "padding": "VALID"}
_WRONG_GRAD = [Bad(Args(real(2, 4, 4, 3), real(2, 3, 4, 2)), match="[2,3,4,2]")]
_REAL_TYPES = f"{FLOATS} int8 uint8 int32 int64"
_GRAD_SAMPLES = [
    Args(real(2, 4, 5, 3, constant=True), real(2, 3, 4, 3)),
    Args(real(1, 3, 9, 20, constant=True), real(1, 2, 8, 20)),
]
_SECOND_SAMPLES = [
    Args(real(2, 4, 5, 3, constant=True), real(2, 4, 5, 3)),
    Args(real(1, 3, 3, 20, constant=True), real(1, 3, 3, 20)),
]
for _version, _more in (("", _TWO), ("V2", _INPUTS)):
    _first, _second = f"MaxPoolGrad{_version}", f"MaxPoolGradGrad{_version}"
    case(
        _first, _raw(getattr(tf.raw_ops, _first), **_more), _max_grad,
        samples=_GRAD_SAMPLES, bad=_WRONG_GRAD, dtypes=_REAL_TYPES, order=2,
    )  # fmt: skip
    case(
        _second, _raw(getattr(tf.raw_ops, _second), **_more), _max_grad_grad,
        samples=_SECOND_SAMPLES, bad=_WRONG_GRAD, dtypes=_REAL_TYPES, order=2,
    )  # fmt: skip


def _avg_grad(sizes, grad):
    out = np.zeros(sizes, np.float64)
    for i, r, s, c in np.ndindex(grad.shape):
        out[i, r : r + 2, s : s + 2, c] += grad[i, r, s, c] / 4
    return out


def _sizes(*sizes):
    return np.array(sizes, np.int32)


case(
    "AvgPoolGrad",
    lambda sizes, grad: tf.raw_ops.AvgPoolGrad(orig_input_shape=sizes, grad=grad, **_TWO),
    _avg_grad,
    samples=[Args(_sizes(2, 4, 5, 3), real(2, 3, 4, 3)), Args(_sizes(1, 3, 4, 40), real(1, 2, 3, 40))],
    bad=[
        Bad(Args(_sizes(2, 4, 5, 3), real(2, 3, 5, 3)), match="[2,3,5,3]"),
        Bad(Args(_sizes(2, 4, 5), real(2, 3, 4, 3)), match="[3]"),
        Bad(Args(_sizes(2, 4, -5, 3), real(2, 3, 4, 3)), match="-5"),
        Bad(Args(_sizes(2, 1, 1, 3), real(2, 3, 4, 3)), match="window"),
    ],
    dtypes=FLOATS,
    order=2,
)


def _raw_3d(name):
    def call(x, grad):
        pooled = tf.nn.max_pool3d(x, [1, 2, 2], 1, "VALID")
        attrs = {"ksize": [1, 1, 2, 2, 1], "strides": [1] * 5, "padding": "VALID"}
        return getattr(tf.raw_ops, name)(orig_input=x, orig_output=pooled, grad=grad, **attrs)

    return call


def _per_plane(function):
    return lambda x, grad: np.stack([function(x[:, i], grad[:, i]) for i in range(x.shape[1])], 1)


case(
    "MaxPool3DGrad",
    _raw_3d("MaxPool3DGrad"),
    _per_plane(_max_grad),
    samples=[Args(real(2, 3, 4, 5, 3, constant=True), real(2, 3, 3, 4, 3))],
    bad=[Bad(Args(real(2, 3, 4, 5, 3), real(2, 3, 4, 5, 3)), match="[2,3,4,5,3]")],
    dtypes=FLOATS,
    order=2,
)
case(
    "MaxPool3DGradGrad",
    _raw_3d("MaxPool3DGradGrad"),
    _per_plane(_max_grad_grad),
    samples=[Args(real(2, 3, 4, 5, 3, constant=True), real(2, 3, 4, 5, 3))],
    bad=[Bad(Args(real(2, 3, 4, 5, 3), real(2, 3, 3, 4, 3)), match="[2,3,3,4,3]")],
    dtypes=FLOATS,
    order=2,
)
case(
    "AvgPool3DGrad",
    lambda sizes, grad: tf.raw_ops.AvgPool3DGrad(
        orig_input_shape=sizes, grad=grad, ksize=[1, 1, 2, 2, 1], strides=[1] * 5, padding="VALID"
    ),
    lambda sizes, grad: np.stack([_avg_grad([sizes[0], *sizes[2:]], grad[:, i]) for i in range(grad.shape[1])], 1),
    samples=[Args(_sizes(2, 3, 4, 5, 3), real(2, 3, 3, 4, 3))],
    bad=[Bad(Args(_sizes(2, 3, 4, 5), real(2, 3, 3, 4, 3)), match="[4]")],
    dtypes=FLOATS,
    order=2,
)


def _argmax(x, batch=False):
    """Maxima of 2x2 windows with stride 1, and their places."""
    sizes = (x.shape[0], x.shape[1] - 1, x.shape[2] - 1, x.shape[3])
    largest, places = np.zeros(sizes, np.float64), np.zeros(sizes, np.int64)
    numbers = np.arange(x.size).reshape(x.shape) if batch else np.arange(np.prod(x.shape[1:])).reshape(1, *x.shape[1:])
    for i, r, s, c in np.ndindex(sizes):
        at = np.argmax(x[i, r : r + 2, s : s + 2, c])
        row, column = r + at // 2, s + at % 2
        largest[i, r, s, c] = x[i, row, column, c]
        places[i, r, s, c] = numbers[i if batch else 0, row, column, c]
    return largest, places


for _batch in (False, True):
    case(
        "MaxPoolWithArgmax",
        lambda x, b=_batch: tf.nn.max_pool_with_argmax(x, 2, 1, "VALID", include_batch_in_index=b),
        lambda x, b=_batch: _argmax(x, b),
        samples=[Args(real(2, 3, 4, 3))],
        bad=[Bad(Args(real(2, 1, 4, 3)), match="window"), Bad(Args(real(2, 3, 4)), match="[2,3,4]")],
        dtypes=FLOATS,
    )
case(
    "MaxPoolWithArgmax",
    lambda x: tf.nn.max_pool_with_argmax(x, 2, 1, "VALID").output,
    lambda x: _argmax(x)[0],
    samples=[Args(real(2, 3, 4, 3)), Args(real(0, 3, 4, 3))],
    order=2,
)
_PLACES = np.array([0, 5, 7, 7], np.int64).reshape(2, 1, 2, 1)


def _at_places(x, grad, places):
    out = np.zeros((2, 8))
    for image, g, p in zip(out, grad, places, strict=True):
        np.add.at(image, p.ravel(), g.ravel().astype(np.float64))
    return out.reshape(x.shape)


def _from_places(x, grad, places):
    return np.stack([g.ravel()[p.ravel()] for g, p in zip(grad, places, strict=True)]).reshape(places.shape)


_PLACES_BAD = [
    Bad(Args(real(2, 2, 4, 1), real(2, 1, 2, 1), _PLACES + 1), match="8"),
    Bad(Args(real(2, 2, 4, 1), real(2, 1, 2, 1), _PLACES - 1), match="-1"),
    Bad(Args(real(2, 2, 4, 1), real(2, 1, 2, 1), _PLACES[:1]), match="[1,1,2,1]"),
]
_WIDE = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
for _op, _expected, _sizes_of_grad in (
    ("MaxPoolGradWithArgmax", _at_places, (2, 1, 2, 1)),
    ("MaxPoolGradGradWithArgmax", _from_places, (2, 2, 4, 1)),
):
    case(
        _op,
        lambda x, grad, places, op=_op: getattr(tf.raw_ops, op)(input=x, grad=grad, argmax=places, **_WIDE),
        _expected,
        samples=[Args(real(2, 2, 4, 1, constant=True), real(*_sizes_of_grad), _PLACES)],
        bad=_PLACES_BAD
        if _sizes_of_grad[1] == 1
        else [Bad(Args(real(2, 2, 4, 1), real(2, 1, 2, 1), _PLACES), match="[2,1,2,1]")],
        dtypes=_REAL_TYPES,
        order=2,
    )

# TensorFlow's results for these seeds.
_ROWS, _COLUMNS = np.array([0, 1, 3, 5, 7]), np.array([0, 2, 3, 5, 7])
_PSEUDO_COLUMNS = np.array([0, 2, 4, 5, 7])


def _regions(x, reduce, columns, extra=0):
    out = [
        [reduce(x[:, a : b + extra, c : d + extra].astype(np.float64), (1, 2)) for c, d in itertools.pairwise(columns)]
        for a, b in itertools.pairwise(_ROWS)
    ]
    return np.stack(out).transpose(2, 0, 1, 3)


_FRACTIONS_BAD = [
    Bad(Args(real(7, 7, 1), [1.0, 1.44, 1.73, 1.0]), match="[7,7,1]"),
    Bad(Args(real(1, 7, 7, 1), [1.0, 0.5, 1.73, 1.0])),
    Bad(Args(real(1, 7, 7, 1), [2.0, 1.5, 1.73, 1.0]), match="batch"),
    Bad(Args(real(1, 1, 7, 1), [1.0, 2.0, 1.73, 1.0]), match="too small"),
]
_RATIO = [1.0, 1.44, 1.73, 1.0]
case(
    "FractionalMaxPool",
    lambda x, ratio: tf.nn.fractional_max_pool(x, ratio, deterministic=True, seed=3, seed2=5),
    lambda x, ratio: [_regions(x, np.max, _COLUMNS), _ROWS, _COLUMNS],
    samples=[Args(real(2, 7, 7, 3), _RATIO)],
    bad=_FRACTIONS_BAD,
    dtypes="float32 float64 int32 int64",
)
case(
    "FractionalAvgPool",
    lambda x, ratio: tf.nn.fractional_avg_pool(x, ratio, True, True, deterministic=True, seed=3, seed2=5),
    lambda x, ratio: [_regions(x, np.mean, _PSEUDO_COLUMNS, 1), _ROWS, _PSEUDO_COLUMNS],
    samples=[Args(real(2, 7, 7, 3), _RATIO)],
    bad=_FRACTIONS_BAD,
)
for _kind in ("max", "avg"):
    case(
        f"Fractional{_kind.title()}Pool",
        lambda x, ratio, k=_kind: (
            getattr(tf.nn, f"fractional_{k}_pool")(
                x, ratio, overlapping=True, deterministic=True, seed=3, seed2=5
            ).output
        ),
        None,
        samples=[Args(real(2, 7, 7, 3), _RATIO)],
        order=1,
    )


def _spread(shape, grad, rows, columns):
    out = np.zeros(shape)
    for i, (a, b) in enumerate(itertools.pairwise(rows)):
        for j, (c, d) in enumerate(itertools.pairwise(columns)):
            out[:, a:b, c:d] += grad[:, i : i + 1, j : j + 1] / ((b - a) * (d - c))
    return out


_LINES = np.array([0, 1, 3])
_SEQUENCES_BAD = [
    Bad(Args(np.array([1, 3, 3, 2]), real(1, 2, 2, 2), np.array([0, 1, 4]), _LINES), match="[0, 3]"),
    Bad(Args(np.array([1, 3, 3, 2]), real(1, 2, 2, 2), _LINES, np.array([0, 2, 1])), match="grow"),
    Bad(Args(np.array([1, 3, 3, 2]), real(1, 2, 2, 2), _LINES, np.array([-1, 0, 1])), match="-1"),
    Bad(Args(np.array([1, 3, 3, 2]), real(1, 2, 2, 2), _LINES, np.array([0, 1])), match="[2]"),
    Bad(Args(np.array([1, 3, 3]), real(1, 2, 2, 2), _LINES, _LINES), match="[3]"),
    Bad(Args(np.array([1, 3, 3, 1]), real(1, 2, 2, 2), _LINES, _LINES), match="[1,3,3,1]"),
]
case(
    "FractionalAvgPoolGrad",
    lambda shape, grad, rows, columns: tf.raw_ops.FractionalAvgPoolGrad(
        orig_input_tensor_shape=shape, out_backprop=grad, row_pooling_sequence=rows, col_pooling_sequence=columns
    ),
    _spread,
    samples=[Args(np.array([1, 3, 3, 2]), real(1, 2, 2, 2), _LINES, _LINES)],
    bad=_SEQUENCES_BAD,
)
case(
    "FractionalMaxPoolGrad",
    lambda x, grad, rows, columns: tf.raw_ops.FractionalMaxPoolGrad(
        orig_input=x, orig_output=grad, out_backprop=grad, row_pooling_sequence=rows, col_pooling_sequence=columns
    ),
    lambda x, grad, rows, columns: np.array([[5.0, 0, 6], [0, 0, 0], [7, 0, 8]]).reshape(1, 3, 3, 1),
    samples=[
        Args(
            np.array([[9.0, 1, 5], [1, 1, 1], [8, 2, 6]]).reshape(1, 3, 3, 1),
            np.array([5.0, 6, 7, 8]).reshape(1, 2, 2, 1),
            _LINES,
            _LINES,
        )
    ],
    bad=[Bad(Args(real(1, 3, 3, 2), real(1, 2, 2, 1), _LINES, _LINES), match="[1,2,2,1]")],
)
