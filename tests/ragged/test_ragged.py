"""tf.RaggedTensor and tf.ragged: making, taking apart, indexing, ordinary functions, sessions."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import thalweg as tf

ROWS = [[3, 1, 4, 1], [], [5, 9], [2]]
FLAT = [3, 1, 4, 1, 5, 9, 2]


def run(value: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        found = session.run(value, feeds)
    return found.to_list() if hasattr(found, "to_list") else found


def test_every_way_to_make_one() -> None:
    make = tf.RaggedTensor
    for rt in (
        make.from_row_splits(FLAT, [0, 4, 4, 6, 7]),
        make.from_row_lengths(FLAT, [4, 0, 2, 1]),
        make.from_value_rowids(FLAT, [0, 0, 0, 0, 2, 2, 3]),
        make.from_row_starts(FLAT, [0, 4, 4, 6]),
        make.from_row_limits(FLAT, [4, 4, 6, 7]),
        make.from_tensor([[3, 1, 4, 1], [0] * 4, [5, 9, 0, 0], [2, 0, 0, 0]], lengths=[4, 0, 2, 1]),
        make.from_tensor([[3, 1, 4, 1], [0] * 4, [5, 9, 0, 0], [2, 0, 0, 0]], padding=0),
        make.from_sparse(tf.ragged.constant(ROWS).to_sparse()),
        tf.ragged.constant(ROWS),
    ):
        assert run(rt) == ROWS
    assert run(make.from_value_rowids(FLAT[:2], [0, 2], nrows=5)) == [[3], [], [1], [], []]
    assert run(make.from_tensor(np.ones((2, 2, 2), np.int32), ragged_rank=2)) == [[[1, 1]] * 2] * 2


def test_the_parts_of_one() -> None:
    rt = tf.ragged.constant(ROWS)
    assert rt.ragged_rank == 1 and rt.dtype == tf.int32 and rt.shape.as_list() == [4, None]
    assert run(rt.nrows()) == 4 and run(rt.row_lengths()).tolist() == [4, 0, 2, 1]
    assert run(rt.row_starts()).tolist() == [0, 4, 4, 6] and run(rt.row_limits()).tolist() == [4, 4, 6, 7]
    assert run(rt.value_rowids()).tolist() == [0, 0, 0, 0, 2, 2, 3]
    assert run(rt.bounding_shape()).tolist() == [4, 4]
    deep = tf.ragged.constant([[[1, 2], [3]], [], [[4]]])
    assert deep.ragged_rank == 2 and [len(run(s)) for s in deep.nested_row_splits] == [4, 4]
    assert run(deep.row_lengths(axis=2)) == [[2, 1], [], [1]]
    assert run(deep.bounding_shape()).tolist() == [3, 2, 2]
    pairs = tf.ragged.constant([[[1, 2], [3, 4]], [[5, 6]]], ragged_rank=1)
    assert pairs.ragged_rank == 1 and pairs.shape.as_list() == [2, None, 2]


def test_to_dense_and_sparse() -> None:
    rt = tf.ragged.constant(ROWS)
    dense = rt.to_tensor(-1)
    assert run(dense).tolist() == [[3, 1, 4, 1], [-1] * 4, [5, 9, -1, -1], [2, -1, -1, -1]]
    assert run(tf.ragged.constant([["a"], ["b", "c"]]).to_tensor()).tolist() == [[b"a", b""], [b"b", b"c"]]
    sparse = run(rt.to_sparse())
    assert sparse.indices.tolist() == [[0, 0], [0, 1], [0, 2], [0, 3], [2, 0], [2, 1], [3, 0]]
    values = tf.constant([1.0, 2.0, 3.0])
    (slope,) = tf.gradients(
        tf.RaggedTensor.from_row_lengths(values, [2, 1]).to_tensor() * [[1.0, 2.0], [3.0, 4.0]], values
    )
    assert run(slope).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (2, [5, 9]), (-1, [2]), ((0, 2), 4), ((0, slice(1, 3)), [1, 4]),
        (slice(1, 3), ROWS[1:3]), (slice(None, None, 2), ROWS[::2]),
        ((slice(None), slice(1, None)), [r[1:] for r in ROWS]),
        ((slice(None), slice(None, -1)), [r[:-1] for r in ROWS]),
        ((slice(None), slice(-2, None)), [r[-2:] for r in ROWS]), ((slice(2, None), 0), [5, 2]),
    ],
)  # fmt: skip
def test_indexing(key: Any, expected: Any) -> None:
    found = run(tf.ragged.constant(ROWS)[key])
    assert (found.tolist() if isinstance(found, (np.ndarray, np.generic)) else found) == expected


def test_a_column_that_a_row_lacks_is_an_error() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="out of range"):
        run(tf.ragged.constant(ROWS)[:, 0])
    with pytest.raises(ValueError, match="Steps"):
        tf.ragged.constant(ROWS)[:, ::2]


def test_ordinary_functions_and_operators() -> None:
    rt = tf.ragged.constant([[1.0, 4.0], [], [9.0]])
    assert run(tf.sqrt(rt)) == [[1, 2], [], [3]]
    assert run(rt + 1.0) == [[2, 5], [], [10]] and run(2.0 * rt - rt) == [[1, 4], [], [9]]
    assert run(-rt) == [[-1, -4], [], [-9]] and run(rt > 3.0) == [[False, True], [], [True]]
    assert run(tf.cast(rt, tf.int32)) == [[1, 4], [], [9]]
    assert run(tf.reduce_sum(rt, axis=1)).tolist() == [5, 0, 9] and run(tf.reduce_sum(rt)) == 14
    assert run(tf.reduce_sum(rt, axis=0)).tolist() == [10, 4]
    assert run(tf.reduce_max(rt[::2], axis=1)).tolist() == [4, 9]
    assert run(tf.reduce_mean(rt[::2], axis=1)).tolist() == [2.5, 9]
    assert run(tf.concat([rt, rt * 2.0], axis=0)) == [[1, 4], [], [9], [2, 8], [], [18]]
    assert run(tf.concat([rt, rt * 2.0], axis=1)) == [[1, 4, 2, 8], [], [9, 18]]
    assert run(tf.stack([rt, rt])) == [[[1, 4], [], [9]]] * 2
    assert run(tf.stack([rt, rt], axis=1)) == [[[1, 4]] * 2, [[], []], [[9]] * 2]
    assert run(tf.expand_dims(rt, 1)) == [[[1, 4]], [[]], [[9]]]
    assert run(tf.gather(rt, [2, 0])) == [[9], [1, 4]]
    assert run(tf.boolean_mask(rt, [True, False, True])) == [[1, 4], [9]]
    assert run(tf.ragged.boolean_mask(rt, rt > 1.0)) == [[4], [], [9]]
    assert run(tf.ragged.map_flat_values(tf.add, rt, rt)) == [[2, 8], [], [18]]
    assert run(tf.strings.length(tf.ragged.constant([["ab"], ["c", ""]]))) == [[2], [1, 0]]
    assert run(tf.reduce_sum(tf.constant([[1, 2]]), axis=1)).tolist() == [3]  # Dense tensors as before.


def test_rows_that_differ_do_not_add() -> None:
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match="splits"):
        run(tf.ragged.constant([[1], [2, 3]]) + tf.ragged.constant([[1, 2], [3]]))


def test_sessions_feed_and_fetch_them() -> None:
    given = tf.ragged.placeholder(tf.float32, 1)
    value = tf.ragged.constant_value([[1.0], [2.0, 3.0]], dtype=tf.float32)
    with tf.Session() as session:
        both = session.run({"rt": given * 2.0, "n": given.nrows()}, {given: value})
        assert isinstance(both["rt"], tf.ragged.RaggedTensorValue)
        assert both["rt"].to_list() == [[2], [4, 6]] and both["n"] == 2
        with pytest.raises(TypeError, match="RaggedTensorValue"):
            session.run(given, {given: [[1.0]]})


def test_ranges_and_segment_ids() -> None:
    assert run(tf.ragged.range([3, 5], [6, 4], [1, -1])) == [[3, 4, 5], [5]]
    assert run(tf.ragged.row_splits_to_segment_ids([0, 2, 2, 3])).tolist() == [0, 0, 2]
    assert run(tf.ragged.segment_ids_to_row_splits([0, 0, 2])).tolist() == [0, 2, 2, 3]


def test_wrong_rows_are_refused() -> None:
    make = tf.RaggedTensor
    with pytest.raises(ValueError, match="private"):
        make([1], [0, 1])
    with pytest.raises(ValueError, match="begin with 0"):
        make.from_row_splits([1, 2], [1, 2])
    with pytest.raises(ValueError, match="negative"):
        make.from_row_lengths([1, 2], [-1, 3])
    with pytest.raises(ValueError, match="both"):
        make.from_tensor([[1]], lengths=[1], padding=0)
    with pytest.raises(ValueError, match="nesting depth"):
        tf.ragged.constant([1, [2]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="2 values, but there are 3"):
        run(make.from_row_splits([1, 2, 3], [0, 2], validate=False).to_tensor())


def test_functions_are_the_same_objects_before_and_after_the_first_use() -> None:
    program = """
from thalweg import add, reduce_sum, math
import sys
import thalweg as tf
assert not any(name.startswith("thalweg.ragged.") for name in sys.modules)
rt = tf.ragged.constant([[1, 2], [], [3]])
assert add is tf.add and math.add is add and reduce_sum is tf.reduce_sum
with tf.Session() as session:
    assert session.run(add(rt, 1)).to_list() == [[2, 3], [], [4]]
    assert session.run(reduce_sum(rt, axis=1)).tolist() == [3, 0, 3]
    assert session.run(add(1, 1)) == 2
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_ragged_value_among_keywords_lists_and_old_names_is_found() -> None:
    rt = tf.ragged.constant(ROWS)
    assert run(tf.multiply(2, y=rt)) == [[2 * x for x in row] for row in ROWS]
    assert run(tf.add_n([rt, rt])) == [[2 * x for x in row] for row in ROWS]
    assert run(tf.neg(rt)) == [[-x for x in row] for row in ROWS]


def test_nested_rows_of_values_to_and_fro() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        ragged = tf.ragged.constant([[[1, 2], []], [[3]]])
        value = session.run(ragged)
        assert value.shape == (2, None, None)
        assert str(value) == "<tf.RaggedTensorValue [[[1, 2], []], [[3]]]>"
        assert [rows.tolist() for rows in session.run(ragged.nested_value_rowids())] == [[0, 0, 1], [0, 0, 2]]
        made = tf.RaggedTensor.from_nested_value_rowids([5, 6, 7], [[0, 1, 1], [0, 0, 2]])
        longer = tf.RaggedTensor.from_nested_value_rowids([5, 6], [[0, 0, 1], [0, 0]], [3, 3])
        assert session.run(made).to_list() == [[[5, 6]], [[], [7]]]
        with pytest.raises(ValueError, match="same length"):
            tf.RaggedTensor.from_nested_value_rowids([5], [[0], [0]], [2])
        assert session.run(longer).to_list() == [[[5, 6], []], [[]], []]


def test_splits_of_another_type() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        ragged = tf.ragged.constant([[[1, 2], []], [[3]]])
        narrow = ragged.with_row_splits_dtype(tf.int32)
        assert [splits.dtype for splits in narrow.nested_row_splits] == [tf.int32, tf.int32]
        assert session.run(narrow).to_list() == session.run(ragged).to_list()
        assert ragged.with_row_splits_dtype("int64") is ragged
        with pytest.raises(ValueError, match="int32 or int64"):
            ragged.with_row_splits_dtype(tf.float32)


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (tf.RaggedTensor.from_row_splits, [0, 1, 5]),
        (tf.RaggedTensor.from_row_lengths, [1, 4]),
        (tf.RaggedTensor.from_row_limits, [1, 5]),
    ],
)
def test_rows_end_with_the_values(make: Any, wrong: list[int]) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="do not form a valid RaggedTensor"):
        run(make([7, 8, 9], wrong))
    values, rows = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int64, [None])
    made = make(values, rows)
    with tf.Session() as session:
        assert session.run(made, {values: range(5), rows: wrong}).to_list() == [[0], [1, 2, 3, 4]]
        with pytest.raises(tf.errors.InvalidArgumentError, match="do not form a valid RaggedTensor"):
            session.run(made, {values: range(3), rows: wrong})
        unchecked = make(values, rows, validate=False)
        session.run(unchecked.row_splits, {values: range(3), rows: wrong})


def test_converted_loops_go_over_rows():
    @tf.function
    def total(values):
        found, longest = 0, 0
        for row in values:
            for value in row:
                found += value
            longest = tf.maximum(longest, tf.size(row))
        return found, longest

    with tf.Session() as session:
        assert session.run(total(tf.ragged.constant([[1, 2], [], [3, 4, 5]]))) == (15, 3)
    with tf.eager():
        assert [int(each) for each in total(tf.ragged.constant([[7], [1]]))] == [8, 1]
