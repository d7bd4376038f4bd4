"""Every op has a shape function, a CPU kernel, a case, and a gradient or the statement that it has none."""

from __future__ import annotations

import thalweg as tf  # noqa: F401 (defines the ops)
from tests.op_cases import CASES, COVERED_ELSEWHERE
from tests.ops import test_op_cases  # noqa: F401 (loads the cases)
from thalweg._native import core
from thalweg.graph.definitions.op_registry import all_ops
from thalweg.runtime.install import register_python_kernels

# "Several hundred": raise it when a family is added, so that none gets lost.
AT_LEAST = 650


def test_the_registry_holds_several_hundred_ops() -> None:
    assert len(list(all_ops())) >= AT_LEAST


def test_every_op_has_a_shape_function() -> None:
    assert [op.name for op in all_ops() if op.outputs and op.shape is None] == []


def test_every_op_has_a_cpu_kernel() -> None:
    register_python_kernels()
    # passes/references.py replaces ops on references by ops on resources.
    by_reference = {op.name for op in all_ops() if any(arg.is_ref for arg in (*op.inputs, *op.outputs))}
    assert [op.name for op in all_ops() if not core.has_kernel(op.name) and op.name not in by_reference] == []


def test_every_op_has_a_case() -> None:
    covered = {case.op for case in CASES} | set(COVERED_ELSEWHERE)
    assert [op.name for op in all_ops() if op.name not in covered] == []


def test_every_op_has_a_gradient_or_says_that_it_has_none() -> None:
    assert [op.name for op in all_ops() if not op.has_gradient] == []


def test_no_kernel_is_left_without_an_op() -> None:
    register_python_kernels()
    internal = {name for name in core.kernel_ops() if name.startswith("_")}
    assert set(core.kernel_ops()) - {op.name for op in all_ops()} - internal == set()
