"""Calls of functions in tests: with the bodies inlined, and with real calls."""

from __future__ import annotations

from typing import Any

import thalweg as tf
from thalweg.functions.graph_function import GraphFunction
from thalweg.graph.apply import apply

FLOAT = tf.TensorSpec(None, tf.float32)


class Mode:
    """Whether the bodies of functions take the place of calls; conftest.py tries both."""

    inline = True


def call(function: GraphFunction, *args: Any) -> list[tf.Tensor]:
    """Adds a call to the graph."""
    op = "StatefulPartitionedCall" if function.stateful else "PartitionedCall"
    result: list[tf.Tensor] = apply(op, [*args, *function.captures], f=function, Tout=function.output_dtypes)
    return result


def new_session(**options: Any) -> tf.Session:
    """A session of the mode that is tried."""
    config = tf.ConfigProto(**options)
    if not Mode.inline:
        rewrite = config.graph_options.rewrite_options
        rewrite.function_optimization = rewrite.OFF
    return tf.Session(config=config)


def run(fetches: Any, feeds: Any = None) -> Any:
    """Runs one step in a session of its own, with variables initialized."""
    with new_session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feeds)
