"""Writes the golden graphs of tests/graph/test_golden_graph_defs.py: run it with a Python that has TensorFlow.

Each graph becomes `graph_defs/<name>.pbtxt`, and what TensorFlow computes with it `graph_defs/<name>.npz`: the arrays
are named `<step>/target/<op>`, `<step>/feed/<tensor>` and `<step>/fetch/<tensor>`; all steps run in one session.

    python tests/data/make_graph_defs.py [name ...]
"""

import os
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow.compat.v1 as tf

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "graph_defs")
GRAPHS: dict[str, Callable[[], Any]] = {}

Step = tuple[list[str], dict[str, Any], list[str]]
"""Targets, feeds, fetches."""


def graph(function: Callable[[], Any]) -> Callable[[], Any]:
    GRAPHS[function.__name__] = function
    return function


def _x(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 7 - 3) / 4


@graph
def arithmetic() -> list[Step]:
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    y = tf.constant([[1.0, -2.0, 3.0]], name="y")
    z = tf.tanh(x * y + 1.5) - tf.exp(-x) / (tf.square(y) + 1.0)
    tf.identity(tf.maximum(z, 0.25) + tf.sqrt(tf.abs(x)), name="out")
    tf.pow(tf.abs(y), 2.5, name="power")
    tf.floordiv(tf.constant([7, -7]), tf.constant([2, 2]), name="floordiv")
    return [([], {"x:0": _x(2, 3)}, ["out:0", "power:0", "floordiv:0"])]


@graph
def mlp() -> list[Step]:
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    hidden = tf.nn.relu(tf.matmul(x, tf.constant(_x(4, 5))) + tf.constant(_x(5)))
    logits = tf.nn.bias_add(tf.matmul(hidden, tf.constant(_x(3, 5)), transpose_b=True), tf.constant(_x(3)))
    tf.nn.softmax(logits, name="probabilities")
    tf.argmax(logits, 1, name="classes")
    return [([], {"x:0": _x(6, 4)}, ["probabilities:0", "classes:0"])]


def _regression() -> list[Step]:
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    labels = tf.placeholder(tf.int32, [None], name="labels")
    weights = tf.get_variable("weights", initializer=_x(4, 3))
    bias = tf.get_variable("bias", [3], initializer=tf.zeros_initializer())
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=tf.matmul(x, weights) + bias)
    loss = tf.reduce_mean(losses, name="loss")
    tf.train.GradientDescentOptimizer(0.5).minimize(loss, name="train")
    tf.global_variables_initializer()
    tf.identity(weights, name="weights_now")
    feeds = {"x:0": _x(6, 4), "labels:0": np.array([0, 1, 2, 2, 1, 0], np.int32)}
    steps: list[Step] = [(["init"], {}, [])]
    for _ in range(3):
        steps.append((["train"], feeds, ["loss:0"]))
    return [*steps, ([], {}, ["weights_now:0"])]


@graph
def regression_with_references() -> list[Step]:
    tf.disable_resource_variables()
    return _regression()


@graph
def regression_with_resources() -> list[Step]:
    tf.enable_resource_variables()
    return _regression()


@graph
def while_loop() -> list[Step]:
    x = tf.placeholder(tf.float32, [3], name="x")
    count, total = tf.while_loop(lambda i, s: i < 5, lambda i, s: (i + 1, s * 1.5 + x), [0, tf.zeros([3])])
    tf.identity(total, name="total")
    tf.identity(count, name="count")
    return [([], {"x:0": _x(3)}, ["total:0", "count:0"])]


@graph
def nested_loops() -> list[Step]:
    n = tf.placeholder(tf.int32, [], name="n")

    def outer(i: Any, total: Any) -> Any:
        _, inner = tf.while_loop(lambda j, t: j < i, lambda j, t: (j + 1, t + i * j), [0, total])
        return i + 1, inner

    tf.identity(tf.while_loop(lambda i, t: i < n, outer, [0, 0])[1], name="total")
    return [([], {"n:0": np.int32(n)}, ["total:0"]) for n in (0, 1, 6)]


@graph
def loop_gradient() -> list[Step]:
    x = tf.placeholder(tf.float32, [3], name="x")
    _, y = tf.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y * x + 1.0), [0, x])
    tf.identity(tf.gradients(y, x)[0], name="gradient")
    return [([], {"x:0": _x(3)}, ["gradient:0"])]


@graph
def cond() -> list[Step]:
    p = tf.placeholder(tf.bool, [], name="p")
    x = tf.placeholder(tf.float32, [3], name="x")
    y = tf.cond(p, lambda: tf.tanh(x) * 2.0, lambda: x - 1.0)
    tf.identity(y, name="y")
    tf.identity(tf.gradients(y, x)[0], name="gradient")
    return [([], {"p:0": np.bool_(p), "x:0": _x(3)}, ["y:0", "gradient:0"]) for p in (True, False)]


@graph
def slicing() -> list[Step]:
    x = tf.placeholder(tf.float32, [4, 5, 6], name="x")
    tf.identity(x[1:3, ::-2, tf.newaxis, 2], name="strided")
    tf.identity(x[..., -1], name="ellipsis")
    tf.slice(x, [1, 0, 2], [2, -1, 3], name="slice")
    tf.identity(tf.gradients(x[1:3, ::2, 4], x)[0], name="gradient")
    tf.reverse(x, [0, 2], name="reverse")
    tf.pad(x[0], [[1, 0], [0, 2]], name="pad")
    return [([], {"x:0": _x(4, 5, 6)}, ["strided:0", "ellipsis:0", "slice:0", "gradient:0", "reverse:0", "pad:0"])]


@graph
def gather_scatter() -> list[Step]:
    x = tf.placeholder(tf.float32, [5, 3], name="x")
    indices = tf.constant([4, 0, 4])
    tf.gather(x, indices, name="gather")
    tf.gather(x, [2, 0], axis=1, name="columns")
    tf.gather_nd(x, [[0, 1], [4, 2]], name="gather_nd")
    tf.scatter_nd([[1], [3]], _x(2, 3), [5, 3], name="scatter_nd")
    tf.identity(tf.convert_to_tensor(tf.gradients(tf.gather(x, indices), x)[0]), name="gradient")
    tf.unsorted_segment_sum(x, [0, 1, 0, 2, 1], 3, name="segments")
    fetches = ["gather:0", "columns:0", "gather_nd:0", "scatter_nd:0", "gradient:0", "segments:0"]
    return [([], {"x:0": _x(5, 3)}, fetches)]


@graph
def reductions() -> list[Step]:
    x = tf.placeholder(tf.float32, [2, 3, 4], name="x")
    for name in ("sum", "mean", "prod", "max", "min"):
        getattr(tf, f"reduce_{name}")(x, [0, 2], name=name)
    tf.reduce_any(x > 0.5, 1, name="any")
    tf.reduce_all(x > -2, 1, keepdims=True, name="all")
    tf.identity(tf.reduce_logsumexp(x, -1), name="logsumexp")
    tf.argmin(x, 2, name="argmin")
    tf.identity(tf.gradients(tf.reduce_mean(tf.square(x), 1), x)[0], name="gradient")
    names = ["sum", "mean", "prod", "max", "min", "any", "all", "argmin", "gradient", "logsumexp"]
    return [([], {"x:0": _x(2, 3, 4)}, [f"{name}:0" for name in names])]


@graph
def strings() -> list[Step]:
    words = tf.placeholder(tf.string, [None], name="words")
    tf.strings.join([words, tf.constant(["x", "y"])], separator="-", name="join")
    tf.strings.length(words, name="length")
    tf.strings.substr(words, 0, 2, name="substr")
    tf.strings.to_number(tf.constant(["1.5", "-2e3"]), name="number")
    tf.as_string(tf.constant([1, 20]), name="text")
    tf.strings.to_hash_bucket_fast(words, 1000, name="hash")
    tf.strings.regex_replace(words, "[aeiou]", "*", name="replaced")
    words_in = np.array([b"hello", b"graph"], object)
    names = ("join", "length", "substr", "number", "text", "hash", "replaced")
    return [([], {"words:0": words_in}, [f"{name}:0" for name in names])]


@graph
def casts() -> list[Step]:
    x = tf.placeholder(tf.float32, [4], name="x")
    for dtype in (tf.float16, tf.float64, tf.int32, tf.int64, tf.uint8, tf.bool, tf.complex64, tf.bfloat16):
        y = tf.cast(tf.abs(x), dtype, name=f"to_{dtype.name}")
        if dtype == tf.bfloat16:
            tf.cast(y, tf.float32, name="from_bfloat16")
    tf.identity(tf.constant([1.0, 2.5, 2.5], tf.float16), name="halves")
    tf.cast(tf.constant(3, tf.int8), tf.float32, name="scalar")
    names = ["to_float16", "to_float64", "to_int32", "to_int64", "to_uint8", "to_bool", "to_complex64"]
    return [([], {"x:0": _x(4) * 9}, [f"{n}:0" for n in (*names, "from_bfloat16", "halves", "scalar")])]


@graph
def random() -> list[Step]:
    tf.set_random_seed(7)
    tf.identity(tf.random_uniform([3, 4], -1.0, 2.0, seed=3), name="uniform")
    tf.identity(tf.random_normal([5], 5.0, 0.5), name="normal")
    tf.identity(tf.truncated_normal([2, 6], seed=4), name="truncated")
    tf.identity(tf.random_uniform([7], 10, 99, tf.int32), name="integers")
    tf.identity(tf.random_shuffle(tf.constant([1, 2, 3, 4, 5, 6, 7]), seed=5), name="shuffled")
    fetches = ["uniform:0", "normal:0", "truncated:0", "integers:0", "shuffled:0"]
    return [([], {}, fetches), ([], {}, fetches)]


@graph
def tensor_array() -> list[Step]:
    x = tf.placeholder(tf.float32, [4, 2], name="x")
    array = tf.TensorArray(tf.float32, 4).unstack(x)
    result = tf.TensorArray(tf.float32, 4)
    _, result = tf.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a.write(i, array.read(i) * 2.0)), [0, result])
    tf.identity(result.stack(), name="stacked")
    return [([], {"x:0": _x(4, 2)}, ["stacked:0"])]


@graph
def sparse() -> list[Step]:
    x = tf.placeholder(tf.float32, [3, 2], name="x")
    matrix = tf.SparseTensor([[0, 0], [1, 2]], tf.constant([1.0, -2.0]), [2, 3])
    tf.identity(tf.sparse_tensor_dense_matmul(matrix, x), name="product")
    tf.sparse_to_dense([[0, 1], [2, 0]], [3, 2], [1.0, 2.0], name="dense")
    tf.identity(tf.sparse_reduce_sum(matrix, 1), name="sum")
    return [([], {"x:0": _x(3, 2)}, ["product:0", "dense:0", "sum:0"])]


@graph
def joining() -> list[Step]:
    x = tf.placeholder(tf.float32, [2, 6], name="x")
    parts = tf.split(x, 3, axis=1, name="split")
    tf.split(x, [1, 5], 1, name="splitv")
    tf.concat([parts[2], parts[0]], 0, name="concat")
    tf.stack(tf.unstack(x, axis=1, name="unstack")[:2], 1, name="stack")
    tf.transpose(tf.reshape(x, [3, -1]), name="transpose")
    tf.tile(x, [1, 2], name="tile")
    tf.expand_dims(tf.squeeze(x[:1], [0]), -1, name="expand")
    tf.where(x > 0, x, tf.zeros_like(x), name="where")
    tf.one_hot([1, 0], 3, name="one_hot")
    names = ["split:1", "splitv:1", "concat:0", "stack:0", "transpose:0", "tile:0", "expand:0", "where:0", "one_hot:0"]
    return [([], {"x:0": _x(2, 6)}, names)]


@graph
def control_dependencies() -> list[Step]:
    tf.enable_resource_variables()
    counter = tf.get_variable("counter", initializer=1.0)
    with tf.control_dependencies([tf.assign_add(counter, 2.0).op]):
        tf.multiply(counter.read_value(), 10.0, name="after")
    tf.global_variables_initializer()
    return [(["init"], {}, []), ([], {}, ["after:0"]), ([], {}, ["after:0"])]


def _storable(value: Any) -> np.ndarray:
    array = np.asarray(value)
    return array.astype("S") if array.dtype == object else array


def write(name: str) -> None:
    """Builds a graph, runs its steps, and writes both files."""
    tf.disable_resource_variables()
    with tf.Graph().as_default() as built, tf.Session() as session:
        steps = GRAPHS[name]()
        arrays: dict[str, np.ndarray] = {}
        for i, (targets, feeds, fetches) in enumerate(steps):
            for target in targets:
                arrays[f"{i}/target/{target}"] = np.zeros(0)
            for tensor, value in feeds.items():
                arrays[f"{i}/feed/{tensor}"] = _storable(value)
            values, _ = session.run([fetches, targets], feeds)
            for tensor, value in zip(fetches, values, strict=True):
                arrays[f"{i}/fetch/{tensor}"] = _storable(value)
    tf.train.write_graph(built.as_graph_def(), FOLDER, f"{name}.pbtxt")
    np.savez_compressed(os.path.join(FOLDER, f"{name}.npz"), **arrays)


@graph
def defined_functions() -> list[Step]:
    """Functions of TensorFlow 1, with captured tensors, a call within a call, and a symbolic gradient."""
    from tensorflow.python.framework import function

    x = tf.placeholder(tf.float32, [None, 2], name="x")
    w = tf.get_variable("w", initializer=_x(2, 2), use_resource=True).value()
    c = tf.constant([0.5, -1.0], name="c")

    @function.Defun(tf.float32, tf.float32, func_name="Dense", out_names=["product", "sums"])
    def dense(x: Any, bias: Any) -> Any:
        return tf.matmul(x, w) + bias * c, tf.split(tf.reduce_sum(x, 0), 2)[1]

    @function.Defun(tf.float32, func_name="Network", noinline=True)
    def network(x: Any) -> Any:
        y, sums = dense(x, [1.0, 2.0])
        y, more = dense(tf.tanh(y), y[0])
        return tf.nn.softmax(y), sums + more

    y, sums = network(x, name="network")
    tf.identity(y, name="y")
    tf.identity(sums, name="sums")
    grads = tf.gradients([y[:, 0], sums], [x, w])
    tf.identity(grads[0], name="dx")
    tf.identity(grads[1], name="dw")
    tf.global_variables_initializer()
    return [(["init"], {}, []), ([], {"x:0": _x(3, 2)}, ["y:0", "sums:0", "dx:0", "dw:0"])]


@graph
def traced_functions() -> list[Step]:
    """Functions of TensorFlow 2: PartitionedCall, If, While and Case, also recursive, with variables and effects."""
    tf.enable_control_flow_v2()
    x = tf.placeholder(tf.float32, [], name="x")
    n = tf.placeholder(tf.int32, [], name="n")
    v = tf.get_variable("v", initializer=2.0, use_resource=True)

    @tf.function
    def step(x: Any, n: Any) -> Any:
        v.assign_add(1.0)
        y = tf.while_loop(lambda i, _: i < n, lambda i, y: (i + 1, y * x + v), (0, x))[1]
        return tf.cond(y > 10.0, lambda: y - 10.0, lambda: tf.square(y)), tf.switch_case(
            n % 3, [lambda: tf.constant(1.0), lambda: x, lambda: v.read_value()]
        )

    first, second = step(x, n)
    tf.identity(first, name="first")
    tf.identity(second, name="second")
    with tf.control_dependencies([first]):
        tf.identity(v.read_value(), name="v_now")
    tf.global_variables_initializer()
    steps: list[Step] = [(["init"], {}, [])]
    for value, count in ((0.5, 2), (1.5, 3), (2.0, 4)):
        feeds = {"x:0": np.float32(value), "n:0": np.int32(count)}
        steps.append(([], feeds, ["first:0", "second:0", "v_now:0"]))
    return steps


@graph
def functional_loops() -> list[Step]:
    """Loops and branches of functions, and their gradients as TensorFlow builds them."""
    tf.enable_control_flow_v2()
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, tf.tanh(y) * x), (0, x))[1]
    z = tf.cond(tf.reduce_sum(x) > 0.0, lambda: y * y, lambda: tf.sin(y))
    tf.identity(z, name="z")
    return [([], {"x:0": np.array(value, np.float32)}, ["z:0"]) for value in ([0.5, 1.5], [-1.0, 0.25])]


if __name__ == "__main__":
    tf.disable_v2_behavior()
    tf.disable_control_flow_v2()
    for wanted in sys.argv[1:] or GRAPHS:
        write(wanted)
