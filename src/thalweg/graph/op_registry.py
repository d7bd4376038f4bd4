"""The op registry under the path that user-written op libraries import (`tf.load_op_library`)."""

from thalweg.graph.definitions.op_registry import (
    all_ops,
    define,
    export,
    gradient,
    not_differentiable,
    op_def,
    python_kernel,
    work,
)

__all__ = ["all_ops", "define", "export", "gradient", "not_differentiable", "op_def", "python_kernel", "work"]
