"""A While on functions, 10,000 iterations over two scalars: the cost of a call of a small function."""

import importlib

import numpy as np

from case import Case, session

ORDER = 3
N, A, B = np.int32(10000), np.float32(0.999), np.float32(0.5)


def function_calls(tf, setting):
    package = "tensorflow" if "tensorflow" in tf.__name__ else "thalweg"
    function = importlib.import_module(f"{package}.python.framework.function")
    types = (tf.int32, tf.float32, tf.int32, tf.float32, tf.float32)
    graph = tf.Graph()
    with graph.as_default():
        n = tf.placeholder(tf.int32, [])
        a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        condition = function.Defun(*types, func_name="Condition")(lambda i, s, n, a, b: i < n)
        body = function.Defun(*types, func_name="Body")(lambda i, s, n, a, b: (i + 1, s * a + b, n, a, b))
        values = [tf.constant(0), tf.constant(1.0), n, a, b]
        if package == "tensorflow":
            functional = importlib.import_module("tensorflow.python.ops.functional_ops")
            s = functional.While(values, condition, body)[1]
        else:
            condition.add_to_graph(graph)
            body.add_to_graph(graph)
            s = tf.raw_ops.While(input=values, cond=condition, body=body)[1]
    sess = session(tf, setting, graph)
    return lambda: sess.run(s, {n: N, a: A, b: B})


CASES = {
    "function_calls": Case(
        "While on functions, 10,000 iterations over two scalars", function_calls, targets={"tensorflow": 3}
    )
}
