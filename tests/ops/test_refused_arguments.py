"""Arguments that TensorFlow refuses, and what it returns in corner cases of templates, conditionals and loops."""

from __future__ import annotations

import collections
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import thalweg as tf


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as graph:
        yield graph


def run(fetch: Any) -> Any:
    with tf.Session() as session:
        return session.run(fetch)


def x() -> Any:
    return tf.ones([2, 3])


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: tf.placeholder(tf.float32, (-1, 10)), "Dimension -1"),
        (lambda: tf.reduce_sum(x(), [[0], [1]]), "at most rank 1"),
        (lambda: tf.reduce_all(x() > 0, [[0, 1]]), "at most rank 1"),
        (lambda: tf.scatter_nd([[0]], [1.0], [0]), "empty output"),
        (lambda: tf.PaddingFIFOQueue(3, [tf.float32], shapes=None), "list of shapes"),
        (lambda: tf.layers.max_pooling2d(tf.ones([1, 4, 4, 1]), 2, strides=None), "strides"),
        (lambda: tf.get_variable("a", [], custom_getter=3), "custom_getter"),
        (lambda: tf.nn.dropout(x(), rate=tf.constant([0.5, 0.5])), "scalar"),
        (lambda: tf.nn.dropout(x(), rate=tf.constant(0.5, tf.float64)), "float64"),
        (lambda: tf.nn.dropout(x(), rate="much"), "string"),
        (lambda: tf.image.resize_images(tf.ones([1, 2, 2, 1]), [3.0, 4.0]), "int32"),
        (lambda: tf.image.resize_images(tf.ones([1, 2, 2, 1]), tf.constant([3.0, 4.0])), "int32"),
        (lambda: tf.raw_ops.RandomShuffle(value=x(), seed2=10**30), "'seed2' of 'RandomShuffle' Op is out of range"),
        (lambda: tf.raw_ops.FIFOQueueV2(component_types=[tf.int8], capacity=-(2**63) - 1), "out of range"),
        (lambda: tf.placeholder(tf.float32, [2**63]), "larger than"),
        (lambda: tf.raw_ops.ArgMax(input=x(), dimension=np.zeros(0, np.int32)), "scalar"),
        (lambda: tf.raw_ops.MatrixDiagV2(diagonal=x(), k=0, num_rows=np.zeros(0, np.int32), num_cols=1,
                                         padding_value=0.0), "scalars"),
        (lambda: tf.raw_ops.FusedResizeAndPadConv2D(
            input=tf.ones([1, 3, 3, 1]), size=[3, 3], paddings=np.int32(1), filter=tf.ones([1, 1, 1, 1]),
            mode="REFLECT", strides=[1, 1, 1, 1], padding="SAME"), "rank"),
    ],
)  # fmt: skip
def test_arguments_are_refused(make: Callable[[], Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.raw_ops.RaggedRange(starts=tf.constant(0, tf.int64), limits=2**39, deltas=1),
        lambda: tf.audio.decode_wav(tf.audio.encode_wav(tf.zeros([2, 1]), 8000), desired_samples=2**31 - 1),
        lambda: [tf.strings.unsorted_segment_join(["a", "b"], [1, 0], 2**31 - 1)],
    ],
    ids=["RaggedRange", "DecodeWav", "UnsortedSegmentJoin"],
)
def test_more_than_the_machine_has_is_refused_before_it_is_filled(
    make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**18}
    monkeypatch.setattr(os, "sysconf", names.__getitem__)
    with pytest.raises(tf.errors.ResourceExhaustedError, match=r"out of memory: \d+ bytes are needed of 1073741824"):
        run(make()[0])


@pytest.mark.parametrize("value", [np.ma.masked, object(), float("inf"), "1"])
def test_what_is_no_number_is_no_attribute_of_one(value: Any) -> None:
    with pytest.raises(TypeError, match="Expected int for argument 'seed' of 'RandomShuffle' Op"):
        tf.raw_ops.RandomShuffle(value=x(), seed=value)
    graph_variable = tf.get_variable("v", initializer=1.0, use_resource=True)
    with pytest.raises(TypeError, match="Cannot convert the variable"):
        tf.constant(graph_variable)
    with pytest.raises(TypeError, match="Expected float for argument 'epsilon'"):
        tf.raw_ops.FusedBatchNorm(x=x(), scale=x(), offset=x(), mean=x(), variance=x(), epsilon=graph_variable)


def test_a_supervisor_that_is_not_chief_needs_variables_with_devices() -> None:
    tf.Variable(1.0)
    with pytest.raises(ValueError, match="must have their device set"):
        tf.train.Supervisor(is_chief=False)


def test_later_calls_of_a_template_must_not_create_trainable_variables() -> None:
    template = tf.make_template("s", lambda: tf.Variable(1.0))
    template()
    with pytest.raises(ValueError, match="perhaps you used"):
        template()
    untrained = tf.make_template("t", lambda: tf.Variable(1.0, trainable=False))
    untrained()
    untrained()


def test_structures_of_branches() -> None:
    one = collections.namedtuple("one", "value")
    result = tf.cond(tf.constant(True), lambda: one(tf.constant(1)), lambda: one(tf.constant(2)))
    assert run(result) == 1
    with pytest.raises(ValueError, match="structure"):
        tf.cond(tf.constant(True), lambda: [tf.constant(1), tf.constant(1)], lambda: [tf.constant(2)])


def test_shape_invariants_of_sparse_values_are_shapes_of_dense_shapes() -> None:
    row = tf.SparseTensor([[0, 0]], [1.0], [1, 2])
    _, rows = tf.while_loop(
        lambda i, _: i < 3,
        lambda i, s: (i + 1, tf.sparse_concat(0, [s, row])),
        (0, row),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([2])),
    )
    assert run(rows).dense_shape.tolist() == [4, 2]


def test_quantized_constants_of_tuples() -> None:
    for value, shape in (([(1,), (2,)], [2]), ([[(1,)], [(2,)]], [2, 1]), ((1,), []), ([1, 2], [2])):
        constant = tf.constant(value, tf.quint8)
        assert constant.shape.as_list() == shape
        assert np.ravel(run(constant)).view(np.uint8).tolist() in ([1], [1, 2])


def test_a_stateless_call_without_results_gives_an_empty_list() -> None:
    assert tf.py_func(lambda v: None, [tf.constant(1)], [], stateful=False) == []
    assert run(tf.py_func(lambda v: None, [tf.constant(1)], [])) is None


def test_graph_defs_without_a_library_stay_so() -> None:
    graph_def = tf.get_default_graph().as_graph_def()
    graph_def.ClearField("library")
    assert not tf.graph_util.remove_training_nodes(graph_def).HasField("library")
