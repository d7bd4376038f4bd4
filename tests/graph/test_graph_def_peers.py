"""Graphs written here run in TensorFlow, and compute the same there.

Needs a TensorFlow: set THALWEG_PEERS to a folder in which `tf/bin/python` is a Python that has one.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.functions.graph_function import trace
from thalweg.graph.apply import apply

PYTHON = os.path.join(os.environ.get("THALWEG_PEERS", ""), "tf", "bin", "python")
SCRIPT = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow.compat.v1 as tf
for name in sys.argv[2:]:
    path = os.path.join(sys.argv[1], name)
    with open(path + ".pb", "rb") as file:
        graph_def = tf.GraphDef.FromString(file.read())
    given = np.load(path + ".in.npz")
    feeds = {key: given[key].astype(object) if given[key].dtype.kind == "S" else given[key] for key in given.files}
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.import_graph_def(graph_def, name="")
        if any(op.name == "init" for op in graph.get_operations()):
            session.run("init")
            session.run("train", feeds)
        outputs = sorted(op.name for op in graph.get_operations() if op.name.startswith("out_"))
        values = session.run({name: name + ":0" for name in outputs}, feeds)
    values = {key: np.asarray(value) for key, value in values.items()}
    np.savez(path + ".out.npz", **{key: v.astype("S") if v.dtype == object else v for key, v in values.items()})
"""
GRAPHS: dict[str, Callable[[], dict[str, Any]]] = {}


def peer_graph(function: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """A function that builds a graph, with outputs named 'out_...', and returns the feeds."""
    GRAPHS[function.__name__] = function
    return function


def _x(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 7 - 3) / 4


@peer_graph
def arithmetic() -> dict[str, Any]:
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    tf.tanh(x * [1.0, 2.0, 3.0] - 0.5, name="out_tanh")
    tf.negative(tf.constant([[1, 2]], tf.int64), name="out_negative")
    tf.identity(tf.gradients(tf.tanh(x * x), x)[0], name="out_gradient")
    return {"x:0": _x(2, 3)}


@peer_graph
def matrices() -> dict[str, Any]:
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    y = tf.matmul(x, tf.constant(_x(4, 5)), transpose_a=True)
    tf.identity(y, name="out_product")
    tf.identity(tf.gradients(tf.reduce_sum(y * y), x)[0], name="out_gradient")
    tf.reduce_max(y, 1, name="out_max")
    return {"x:0": _x(4, 3)}


@peer_graph
def arrays() -> dict[str, Any]:
    x = tf.placeholder(tf.float32, [4, 6], name="x")
    tf.identity(x[1:, ::-2], name="out_strided")
    tf.concat(tf.split(x, 2, 1)[::-1], 0, name="out_concat")
    tf.transpose(tf.reshape(x, [2, -1, 3]), [2, 0, 1], name="out_transpose")
    tf.gather(x, [3, 0], axis=1, name="out_gather")
    tf.identity(tf.gradients(x[1:3, 2], x)[0], name="out_gradient")
    return {"x:0": _x(4, 6)}


@peer_graph
def random_numbers() -> dict[str, Any]:
    tf.set_random_seed(5)
    tf.identity(tf.random_uniform([3, 2]), name="out_uniform")
    tf.identity(tf.random_normal([4], seed=2), name="out_normal")
    return {}


@peer_graph
def constants() -> dict[str, Any]:
    for name, value in (
        ("strings", [b"a", b"bcd"]), ("bools", [True, False]), ("halves", np.array([0.5, 2.0], np.float16)),
        ("complex", np.array([1 + 2j], np.complex64)), ("bytes", np.arange(4, dtype=np.uint8)), ("int64", 2**40),
        ("empty", np.zeros((0, 2), np.float32)),
    ):  # fmt: skip
        tf.identity(tf.constant(value), name=f"out_{name}")
    return {}


@peer_graph
def loops() -> dict[str, Any]:
    x = tf.placeholder(tf.float32, [3], name="x")
    count, y = tf.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y * x + 1.0), [0, x])
    tf.identity(count, name="out_count")
    tf.identity(y, name="out_y")
    z = tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2.0, lambda: tf.tanh(x))
    tf.identity(z, name="out_cond")
    return {"x:0": _x(3)}


@peer_graph
def training() -> dict[str, Any]:
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    w = tf.Variable(_x(3, 2), name="w")
    b = tf.Variable([0.5, -0.5], name="b")
    y = tf.matmul(x, w) + b
    gradients = tf.gradients(tf.reduce_sum(y * y), [w, b])
    steps = [tf.assign_sub(v, 0.1 * g) for v, g in zip([w, b], gradients, strict=True)]
    tf.group(*[step.op for step in steps], name="train")
    tf.variables_initializer([w, b], name="init")
    tf.identity(w, name="out_w")
    tf.identity(b, name="out_b")
    return {"x:0": _x(4, 3)}


@peer_graph
def functions() -> dict[str, Any]:
    x = tf.placeholder(tf.float32, [3], name="x")
    n = tf.placeholder(tf.int32, [], name="n")
    w = tf.Variable(_x(3), name="w")
    scale = tf.constant(1.5)

    @tf.experimental.Defun(tf.float32, func_name="Scaled", out_names=["first", "second"])
    def scaled(x: Any) -> Any:
        return x * w * scale, tf.split(x, 3)[1]

    @tf.experimental.Defun(tf.float32, func_name="Twice", noinline=True)
    def twice(x: Any) -> Any:
        first, second = scaled(x)
        return tf.tanh(scaled(first)[0]) + second

    y = twice(x)
    tf.identity(y, name="out_y")
    tf.identity(tf.gradients(scaled(x)[0], x)[0], name="out_dx")
    spec = [tf.TensorSpec([], tf.int32), tf.TensorSpec([3], tf.float32)]
    body = trace(lambda i, v: (i + 1, v * 2.0 + scale), spec)
    padded = trace(lambda i, v, s: (i + 1, v * 2.0 + s, s), [*spec, tf.TensorSpec([], tf.float32)])
    cond = trace(lambda i, v, s: i < 5, [*spec, tf.TensorSpec([], tf.float32)])
    tf.identity(apply("StatelessWhile", [n, x, scale], cond=cond, body=padded)[1], name="out_while")
    called = apply("PartitionedCall", [n, x, *body.captures], f=body, Tout=body.output_dtypes)
    tf.identity(called[1], name="out_call")
    other = trace(lambda i, v, s: (-i, v - s), [*spec, tf.TensorSpec([], tf.float32)])
    chosen = apply("If", n > 1, [n, x, *body.captures], then_branch=body, else_branch=other, Tout=body.output_dtypes)
    tf.identity(chosen[1], name="out_if")
    tf.gradients(tf.reduce_sum(x), x)
    tf.group(w.assign_sub(w * 0.5).op, name="train")
    tf.variables_initializer([w], name="init")
    return {"x:0": _x(3), "n:0": np.int32(2)}


def _run_here(name: str, folder: Path) -> dict[str, Any]:
    with tf.Graph().as_default() as graph, tf.Session() as session:
        feeds = GRAPHS[name]()
        tf.train.write_graph(graph, str(folder), f"{name}.pb", as_text=False)
        np.savez(folder / f"{name}.in.npz", **feeds)
        operations = {op.name for op in graph.get_operations()}
        if "init" in operations:
            session.run("init")
            session.run("train", feeds)
        outputs = sorted(op for op in operations if op.startswith("out_"))
        values: dict[str, Any] = session.run({output: f"{output}:0" for output in outputs}, feeds)
        return values


@pytest.mark.skipif(
    not os.access(PYTHON, os.X_OK), reason="THALWEG_PEERS names no folder with a TensorFlow (tf/bin/python)"
)
@pytest.mark.processes
def test_tensorflow_computes_the_same_from_graphs_written_here(tmp_path: Path) -> None:
    here = {name: _run_here(name, tmp_path) for name in GRAPHS}
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [PYTHON, "-c", SCRIPT, str(tmp_path), *GRAPHS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    for name, values in here.items():
        with np.load(tmp_path / f"{name}.out.npz") as there:
            assert set(there.files) == set(values)
            for output, value in values.items():
                expected = there[output]
                label = f"{name}/{output}"
                actual = np.asarray(value)
                if expected.dtype.kind == "S":
                    expected = expected.astype(object)
                assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), label
                if expected.dtype.kind in "fc":
                    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5, err_msg=label)
                else:
                    np.testing.assert_array_equal(actual, expected, err_msg=label)


META_SCRIPT = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
with tf.Graph().as_default() as graph, tf.Session() as session:
    tf.train.import_meta_graph(sys.argv[1])
    x, y = (graph.get_tensor_by_name(name) for name in ("x:0", "y:0"))
    session.run(tf.global_variables_initializer())
    print("RESULT", *session.run([y, tf.gradients(y, x)[0]], {x: 2.0}))
"""


@pytest.mark.skipif(
    not os.access(PYTHON, os.X_OK), reason="THALWEG_PEERS names no folder with a TensorFlow (tf/bin/python)"
)
@pytest.mark.processes
def test_tensorflow_differentiates_loops_and_branches_of_a_meta_graph_written_here(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [], name="x")
        factor = tf.Variable(1.5, name="factor")
        y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), [0, x])[1]
        y = tf.cond(x > 0, lambda: y * 2.0, lambda: -y)
        tf.multiply(y, factor, name="y")
        tf.global_variables_initializer()
        tf.train.export_meta_graph(str(tmp_path / "graph.meta"))
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [PYTHON, "-c", META_SCRIPT, str(tmp_path / "graph.meta")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split("RESULT")[1].split() == ["48.0", "96.0"]
