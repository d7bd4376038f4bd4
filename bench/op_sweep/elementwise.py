"""Element-wise ops: functions of one and two arguments, comparisons, broadcasts, casts."""

from functools import partial

from op_sweep import Sweep, named, normal, uniform

COUNTS = {"1k": 1000, "64k": 1 << 16, "2M": 1 << 21}


def _unary(op, tf_name, torch_name, source=normal, dtypes="f32 f64 f16", **options):
    return Sweep(
        op,
        named(tf_name),
        {name: [source(n)] for name, n in COUNTS.items()},
        dtypes,
        named(torch_name) if torch_name else None,
        **options,
    )


def _binary(op, tf_name, torch_name, dtypes="f32 f64 f16", source=normal, second=None, **options):
    return Sweep(
        op,
        named(tf_name),
        {name: [source(n), (second or source)(n)] for name, n in COUNTS.items()},
        dtypes,
        named(torch_name) if torch_name else None,
        **options,
    )


def _gradient(tf, *tensors, op, names):
    return getattr(tf.raw_ops, op)(**dict(zip(names, tensors, strict=True)))


def _positive(*shape):
    return uniform(0.1, 4.0, *shape)


def _unit(*shape):
    return uniform(-0.99, 0.99, *shape)


def _above_one(*shape):
    return uniform(1.01, 5.0, *shape)


def _coin(*shape):
    return uniform(0, 2, *shape)


def _orders(*shape):
    """Whole numbers of any type: polygamma is NaN for others."""
    return lambda dtype, rng: rng.integers(1, 4, shape).astype(dtype)


def _small_integers(*shape):
    return uniform(1.0, 9.0, *shape)


SWEEPS = [
    *(
        _unary(op, f"math.{name}", name, source)
        for op, name, source in (
            ("Exp", "exp", normal),
            ("Expm1", "expm1", normal),
            ("Log", "log", _positive),
            ("Log1p", "log1p", _positive),
            ("Sin", "sin", normal),
            ("Cos", "cos", normal),
            ("Tan", "tan", normal),
            ("Asin", "asin", _unit),
            ("Acos", "acos", _unit),
            ("Atan", "atan", normal),
            ("Sinh", "sinh", normal),
            ("Cosh", "cosh", normal),
            ("Tanh", "tanh", normal),
            ("Asinh", "asinh", normal),
            ("Acosh", "acosh", _above_one),
            ("Atanh", "atanh", _unit),
            ("Sigmoid", "sigmoid", normal),
            ("Erf", "erf", normal),
            ("Erfc", "erfc", normal),
            ("Sqrt", "sqrt", _positive),
            ("Rsqrt", "rsqrt", _positive),
            ("Square", "square", normal),
            ("Abs", "abs", normal),
            ("Sign", "sign", normal),
            ("Ceil", "ceil", normal),
            ("Floor", "floor", normal),
            ("Lgamma", "lgamma", _positive),
            ("Digamma", "digamma", _positive),
        )
    ),
    _unary("Neg", "negative", "neg", dtypes="f32 f64 f16 i32 i64"),
    _unary("Rint", "math.rint", "round"),
    _unary("Reciprocal", "math.reciprocal", "reciprocal", _positive),
    _unary("Ndtri", "math.ndtri", "special.ndtri", lambda *s: uniform(0.01, 0.99, *s), "f32 f64"),
    _unary("Erfinv", "math.erfinv", "erfinv", _unit, "f32 f64"),
    _unary("BesselI0e", "math.bessel_i0e", "special.i0e", normal, "f32 f64"),
    _unary("BesselI1e", "math.bessel_i1e", "special.i1e", normal, "f32 f64"),
    _unary("IsNan", "math.is_nan", "isnan"),
    _unary("IsInf", "math.is_inf", "isinf"),
    _unary("IsFinite", "math.is_finite", "isfinite"),
    _unary("LogicalNot", "logical_not", "logical_not", _coin, "bool"),
    _unary("Relu", "nn.relu", "relu"),
    _unary("Relu6", "nn.relu6", "nn.functional.relu6"),
    _unary("Elu", "nn.elu", "nn.functional.elu"),
    _unary("Selu", "nn.selu", "nn.functional.selu"),
    _unary("LeakyRelu", "nn.leaky_relu", None),
    _unary("Softplus", "nn.softplus", "nn.functional.softplus"),
    _unary("Softsign", "nn.softsign", "nn.functional.softsign"),
    _unary("ComplexAbs", "abs", "abs", dtypes="c64"),
    _unary("Conj", "math.conj", None, dtypes="c64"),
    _unary("Real", "math.real", None, dtypes="c64"),
    _unary("Angle", "math.angle", "angle", dtypes="c64"),
    _unary("Invert", "bitwise.invert", "bitwise_not", dtypes="i32 u8"),
    *(
        _binary(op, f"math.{name}", torch_name, dtypes, source)
        for op, name, torch_name, dtypes, source in (
            ("Add", "add", "add", "f32 f64 f16 i32 i64 u8", normal),
            ("Sub", "subtract", "sub", "f32 f64 f16 i32", normal),
            ("Mul", "multiply", "mul", "f32 f64 f16 i32 i64 c64", normal),
            ("Div", "divide", "div", "f32 f64 f16 c64", _positive),
            ("Maximum", "maximum", "maximum", "f32 f64 f16 i32", normal),
            ("Minimum", "minimum", "minimum", "f32 i64", normal),
            ("Pow", "pow", "pow", "f32 f64 f16", _positive),
            ("FloorDiv", "floordiv", "floor_divide", "f32 i32 i64", _small_integers),
            ("FloorMod", "floormod", "remainder", "f32 i32 i64", _small_integers),
            ("Atan2", "atan2", "atan2", "f32 f64", normal),
            ("SquaredDifference", "squared_difference", None, "f32 f64 i32", normal),
            ("DivNoNan", "divide_no_nan", None, "f32 f64", normal),
            ("Xdivy", "xdivy", None, "f32 f64", _positive),
            ("Xlogy", "xlogy", "xlogy", "f32 f64", _positive),
            ("NextAfter", "nextafter", "nextafter", "f32", normal),
            ("Igamma", "igamma", "special.gammainc", "f32 f64", _positive),
            ("Igammac", "igammac", "special.gammaincc", "f32 f64", _positive),
            ("Zeta", "zeta", "special.zeta", "f32 f64", _above_one),
            ("Less", "less", "lt", "f32 f64 f16 i32 i64", normal),
            ("Equal", "equal", "eq", "f32 i32 u8 bool", normal),
            ("GreaterEqual", "greater_equal", "ge", "f32 i64", normal),
            ("LogicalAnd", "logical_and", "logical_and", "bool", _coin),
        )
    ),
    _binary("Polygamma", "math.polygamma", None, "f32", _orders, lambda *s: uniform(1, 3, *s)),
    _binary("BitwiseAnd", "bitwise.bitwise_and", "bitwise_and", "i32 u8"),
    _binary("LeftShift", "bitwise.left_shift", "bitwise_left_shift", "i32", lambda *s: uniform(0, 8, *s)),
    Sweep(
        "Betainc",
        lambda tf, a, b, x: tf.math.betainc(a, b, x),
        {n: [_positive(c), _positive(c), uniform(0, 1, c)] for n, c in (("1k", 1000), ("64k", 1 << 16))},
        "f32 f64",
    ),
    Sweep(
        "Add row",
        lambda tf, a, b: a + b,
        {"1024x1024": [normal(1024, 1024), normal(1024)]},
        "f32 f64 i32",
        lambda t, a, b: a + b,
    ),
    Sweep(
        "Add column",
        lambda tf, a, b: a + b,
        {"1024x1024": [normal(1024, 1024), normal(1024, 1)]},
        "f32 f64 i32",
        lambda t, a, b: a + b,
    ),
    Sweep(
        "Mul middle",
        lambda tf, a, b: a * b,
        {"64x128x64": [normal(64, 128, 64), normal(64, 1, 64)]},
        "f32 f16",
        lambda t, a, b: a * b,
    ),
    Sweep(
        "Mul outer",
        lambda tf, a, b: a * b,
        {"1024x1024": [normal(1024, 1), normal(1, 1024)]},
        "f32",
        lambda t, a, b: a * b,
    ),
    Sweep(
        "Add scalar", lambda tf, a, b: a + b, {"2M": [normal(1 << 21), normal()]}, "f32 f64 i32", lambda t, a, b: a + b
    ),
    Sweep("AddN", lambda tf, *xs: tf.add_n(list(xs)), {"4x1M": [normal(1 << 20)] * 4}, "f32 f64 i32"),
    Sweep(
        "ClipByValue",
        lambda tf, x: tf.clip_by_value(x, x.dtype.as_numpy_dtype(-1), x.dtype.as_numpy_dtype(1)),
        {"2M": [normal(1 << 21)]},
        "f32 f64",
        lambda t, x: t.clamp(x, -1, 1),
    ),
    Sweep(
        "Select",
        lambda tf, c, a, b: tf.where(c, a, b),
        {n: [lambda _, rng, c=c: rng.random(c) < 0.5, normal(c), normal(c)] for n, c in COUNTS.items()},
        "f32 f64 i32 f16",
        lambda t, c, a, b: t.where(c, a, b),
    ),
    *(
        Sweep(
            f"Cast to {target}",
            lambda tf, x, target=target: tf.cast(x, target),
            {"64k": [normal(1 << 16)], "2M": [normal(1 << 21)]},
            kinds,
            lambda t, x, target=target: x.to(getattr(t, target)),
        )
        for target, kinds in (
            ("float32", "f64 f16 i32 i64 u8 bool"),
            ("float16", "f32 f64"),
            ("float64", "f32 i32"),
            ("int32", "f32 f64 i64 u8"),
            ("int64", "f32 i32"),
            ("uint8", "f32 i32"),
            ("bool", "f32 i32"),
        )
    ),
    *(
        Sweep(
            op,
            partial(_gradient, op=op, names=names),
            {n: [source(c), normal(c)] for n, c in COUNTS.items()},
            "f32 f64 f16",
        )
        for op, names, source in (
            ("TanhGrad", ("y", "dy"), _unit),
            ("SigmoidGrad", ("y", "dy"), _unit),
            ("ReluGrad", ("features", "gradients"), normal),
            ("EluGrad", ("outputs", "gradients"), normal),
            ("SoftplusGrad", ("features", "gradients"), normal),
        )
    ),
]
