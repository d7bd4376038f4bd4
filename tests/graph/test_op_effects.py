"""The effect of an op is declared once, in its definition: completeness, no second lists, old disagreements."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.functions.automatic_control import has_effect, is_repeatable
from thalweg.graph.definitions import op_registry
from thalweg.graph.definitions.op_registry import all_ops, define, effect_of, flow_of
from thalweg.graph.op_effects import Effect, Flow
from thalweg.passes.keep_weights import changes_resources
from thalweg.passes.prune import prune

SOURCE = Path(tf.__file__).parent
# Sets of stateful op types that do not express an effect, and their meaning.
OTHER_MEANING = {
    "train/device_setter.py": "the documented default of ps_ops, op types that we do not define included",
    "passes/null_device.py": "ops that the null device runs: cheap, or needed by shapes",
}


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def test_every_stateful_op_says_what_it_does() -> None:
    assert [op.name for op in all_ops() if op.effect is Effect.UNKNOWN] == []
    silent = [op.name for op in all_ops() if op.stateful and op.effect is Effect.NONE]
    assert silent == ["DeepCopy"]  # Stateful so that two copies stay two.
    quiet = [op.name for op in all_ops() if not op.stateful and op.effect not in (Effect.NONE, Effect.FED)]
    assert quiet == ["Abort"]  # Not stateful in TensorFlow.


def test_stateful_ops_of_other_libraries_may_do_anything() -> None:
    try:
        assert define("TestAnything", "x: float -> y: float", stateful=True).effect is Effect.UNKNOWN
        assert define("TestWriter", "x: float ->", effect=Effect.WRITES).stateful
        assert effect_of("TestAnything").must_run
    finally:
        for name in ("TestAnything", "TestWriter"):
            op_registry._OPS.pop(name, None)
    assert effect_of("NoSuchOp") is Effect.UNKNOWN
    assert flow_of("NoSuchOp") is Flow.NONE


def test_effects_follow_from_signatures_where_they_can() -> None:
    for op in all_ops():
        # A variant may hold a lock of a resource.
        kinds = {arg.dtype.name for arg in op.inputs if arg.dtype is not None}
        handles = kinds & {"resource", "variant"} or any(arg.is_ref for arg in op.inputs)
        if op.effect is Effect.WRITES and not handles:
            # Their state has a name, or belongs to the node.
            assert "shared_name" in op.attrs or op.name in {
                "DeleteSessionTensor", "GetSessionHandle", "GetSessionHandleV2", "LearnedUnigramCandidateSampler",
                "RecordInput", "ThreadUnsafeUnigramCandidateSampler",
            }, op.name  # fmt: skip
        if op.effect is Effect.RANDOM:
            # Elements that were not set have no value that two nodes could share.
            assert "seed" in op.attrs or op.name == "Empty", op.name
        if op.effect is Effect.READS:
            assert op.outputs, op.name
        if op.flow.is_primitive or op.flow is Flow.FORWARD:
            assert op.outputs and op.inputs and op.effect is Effect.NONE, op.name
        if op.flow.calls:
            assert any("func" in attr.kind for attr in op.attrs.values()), op.name
            assert op.effect in (Effect.NONE, Effect.CALLS), op.name


def test_control_flow_is_decided_by_the_step() -> None:
    assert {op.name for op in all_ops() if op.flow.is_primitive} == {
        "Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "RefSwitch", "RefMerge", "RefEnter", "RefExit",
        "RefNextIteration",
    }  # fmt: skip
    assert not any(op.is_foldable for op in all_ops() if op.flow.is_primitive or op.flow.calls or op.stateful)
    assert tf.identity(1.0).op.op_def.is_foldable


def _names(node: ast.AST) -> list[str]:
    """The strings that are elements (or keys) of a literal; nothing for other nodes."""
    elements: list[Any] = []
    if isinstance(node, ast.Set | ast.Tuple | ast.List):
        elements = node.elts
    elif isinstance(node, ast.Dict):
        elements = [key for key in node.keys if key is not None]
    return [each.value for each in elements if isinstance(each, ast.Constant) and isinstance(each.value, str)]


def test_there_is_no_second_list_of_what_ops_do() -> None:
    flows = {op.name for op in all_ops() if op.flow.is_primitive or op.flow.calls}
    effects = (Effect.READS, Effect.CREATES, Effect.RANDOM)
    groups = [flows, *({op.name for op in all_ops() if op.effect is effect} for effect in effects)]
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        name = file.relative_to(SOURCE).as_posix()
        tree = ast.parse(file.read_text())
        definitions = [node.iter for node in tree.body if isinstance(node, ast.For)]
        for node in ast.walk(tree):
            names = set(_names(node)) if node not in definitions else set()
            groups_named = groups[:1] if isinstance(node, ast.Dict) else groups  # Dictionaries of rules are no lists.
            if any(len(names & group) >= 3 for group in groups_named) and name not in OTHER_MEANING:
                found.append(f"{name}:{getattr(node, 'lineno', 0)}")
    assert found == []


# Where two lists disagreed.


def test_freezing_knows_every_read_of_a_variable() -> None:
    """Lists of reads elsewhere had ResourceGatherNd; freezing left it with a handle that was a constant."""
    table = tf.Variable(np.arange(6.0, dtype=np.float32).reshape(3, 2), use_resource=True, name="table")
    value = tf.gather_nd(table, [[2, 1], [0, 1]], name="found")
    assert value.op.inputs[0].op.type == "ResourceGatherNd"
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        frozen = tf.graph_util.convert_variables_to_constants(session, value.graph.as_graph_def(), ["found"])
    with tf.Graph().as_default():
        (again,) = tf.import_graph_def(frozen, return_elements=["found:0"], name="")
        with tf.Session() as session:
            np.testing.assert_array_equal(session.run(again), [5.0, 1.0])


def test_looking_something_up_does_not_count_as_a_change() -> None:
    """Weights stay packed in a step that reads a table, as in one that reads a variable."""
    initializer = tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2])
    found = tf.lookup.StaticHashTable(initializer, -1).lookup(tf.constant(["b"]))
    assert not changes_resources(prune([], [found], []))
    queue = tf.FIFOQueue(3, [tf.float32], [[]])
    assert not changes_resources(prune([], [queue.size()], []))
    assert changes_resources(prune([], [queue.dequeue()], []))


def test_random_ops_and_handles_are_no_effects_of_a_function() -> None:
    """Functions knew the random ops by a list that lacked samplers, and of ops that make resources only four."""
    classes = tf.constant([[1]], tf.int64)
    sampled = tf.nn.uniform_candidate_sampler(classes, 1, 2, True, 5).sampled_candidates.op
    learned = tf.nn.learned_unigram_candidate_sampler(classes, 1, 2, True, 5).sampled_candidates.op
    table = tf.raw_ops.MutableHashTableV2(key_dtype=tf.string, value_dtype=tf.int64).op
    named = tf.raw_ops.MutableHashTableV2(key_dtype=tf.string, value_dtype=tf.int64, shared_name="t").op
    assert [has_effect(op) for op in (sampled, learned, table, named)] == [False, True, False, False]
    assert [is_repeatable(op) for op in (sampled, learned, table, named)] == [False, False, False, True]


def test_recomputing_refuses_ops_that_change_a_resource() -> None:
    """Names that begin with Assign or ResourceApply were refused, and names with Dequeue; not those of tables."""
    x = tf.constant(1.0)
    table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.float32, 0.0, np.int64(-1), np.int64(-2))

    def counted(h: Any) -> Any:
        with tf.control_dependencies([table.insert(np.int64(1), h)]):
            return h * table.lookup(np.int64(1))

    y = tf.recompute_grad(counted)(x)
    with pytest.raises(ValueError, match="adds to a resource"):
        tf.gradients(y, x)
