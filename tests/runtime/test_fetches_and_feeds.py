"""What Session.run takes and returns: structures of fetches, any tensor fed, values of every layout."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest

import thalweg as tf


@pytest.fixture
def session() -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_fetches_keep_their_structure(session: Any) -> None:
    Pair = collections.namedtuple("Pair", ["first", "second"])
    a, b = tf.constant(1.0, name="a"), tf.constant([2, 3], name="b")
    assert session.run(a) == 1.0
    assert session.run([]) == []
    assert session.run("a:0") == 1.0
    assert session.run(a.op) is None
    value = session.run({"x": [a, (b, {"y": a})], "z": Pair(a, b.op)})
    assert value["x"][0] == 1.0
    assert isinstance(value["x"][1], tuple)
    np.testing.assert_array_equal(value["x"][1][0], [2, 3])
    assert value["z"] == Pair(1.0, None)
    ordered = session.run(collections.OrderedDict([("q", a), ("p", b)]))
    assert list(ordered) == ["q", "p"]


def test_a_scalar_comes_back_as_a_numpy_scalar_and_a_string_as_bytes(session: Any) -> None:
    assert type(session.run(tf.constant(1.5))) is np.float32
    assert type(session.run(tf.constant(True))) is np.bool_
    assert session.run(tf.constant("x")) == b"x"
    assert session.run(tf.constant(["a", "bc"])).tolist() == [b"a", b"bc"]


def test_a_sparse_value_is_fetched_and_fed_as_its_parts(session: Any) -> None:
    sparse = tf.SparseTensor([[0, 1]], [5.0], [2, 2])
    value = session.run(sparse)
    assert isinstance(value, tf.SparseTensorValue)
    assert value.values.tolist() == [5.0]
    doubled = sparse.values * 2.0
    fed = tf.SparseTensorValue(np.array([[1, 1]]), np.array([7.0], np.float32), np.array([2, 2]))
    assert session.run(doubled, {sparse: fed}).tolist() == [14.0]


@pytest.mark.parametrize("bad", [None, 3, object(), "no_such_tensor:0", "a:5", [None], {"x": 1.5}])
def test_what_is_not_a_graph_element_cannot_be_fetched(session: Any, bad: Any) -> None:
    tf.constant(1.0, name="a")
    with pytest.raises((TypeError, ValueError)):
        session.run(bad)


def test_an_element_of_another_graph_cannot_be_fetched(session: Any) -> None:
    tf.constant(1.0)
    with tf.Graph().as_default():
        foreign = tf.constant(1.0)
    with pytest.raises(ValueError, match="not an element of this graph"):
        session.run(foreign)


def test_any_tensor_can_be_fed(session: Any) -> None:
    a = tf.constant(2.0)
    b = a * 3.0
    c = b + 1.0
    assert session.run(c) == 7.0
    assert session.run(c, {b: 10.0}) == 11.0
    assert session.run([b, c], {b: 10.0}) == [10.0, 11.0]
    assert session.run(c, {a: 1.0}) == 4.0


@pytest.mark.parametrize("value", [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.arange(6, dtype=np.float64).reshape(2, 3),
    np.arange(6, dtype=">f4").reshape(2, 3),
    np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
    np.arange(24, dtype=np.float32).reshape(4, 6)[::2, ::2],
    np.arange(6, dtype=np.float32)[::-1][::-1].reshape(2, 3),
    [[0.0, 1.0, 2.0], [3, 4, 5]],
    [np.arange(3), np.arange(3, 6)],
], ids=["plain", "wide", "byte-swapped", "fortran", "strided", "view", "lists", "list-of-arrays"])  # fmt: skip
def test_values_of_every_layout_are_fed(session: Any, value: Any) -> None:
    x = tf.placeholder(tf.float32, [2, 3])
    np.testing.assert_array_equal(session.run(x + 1.0, {x: value}), np.asarray(value, np.float32) + 1)


def test_a_large_array_is_not_copied_and_never_changed(session: Any) -> None:
    x = tf.placeholder(tf.float32, [100_000])
    value = np.ones(100_000, np.float32)
    result = session.run([x, x * 2.0, x + 1.0], {x: value})
    assert (value == 1).all()
    result[0][:] = 5  # A fetch of a feed is a copy.
    assert (value == 1).all()
    assert (result[1] == 2).all()


def test_a_fetched_array_belongs_to_the_caller(session: Any) -> None:
    c = tf.constant(np.ones(100_000, np.float32))
    first = session.run(c)
    first[:] = 7
    assert (session.run(c) == 1).all()


@pytest.mark.parametrize(("value", "error"), [
    (np.zeros(3, np.float32), ValueError), (np.zeros((2, 3, 1), np.float32), ValueError), ("text", ValueError),
    ([[1.0], [2.0, 3.0]], ValueError), (None, TypeError), (object(), TypeError),
])  # fmt: skip
def test_a_value_that_does_not_fit_is_refused(session: Any, value: Any, error: type[Exception]) -> None:
    x = tf.placeholder(tf.float32, [2, 3], name="images")
    y = x + 1.0
    session.run(y, {x: np.zeros((2, 3))})  # Also on the fast path.
    with pytest.raises((error, TypeError)):
        session.run(y, {x: value})


def test_the_error_for_a_wrong_shape_names_the_tensor_and_both_shapes(session: Any) -> None:
    x = tf.placeholder(tf.float32, [None, 3], name="images")
    with pytest.raises(ValueError, match=r"\[2,2\].*'images:0'.*\[\?,3\]"):
        session.run(x + 1.0, {x: np.zeros((2, 2), np.float32)})


def test_nested_tuples_of_tensors_are_fed_as_a_whole(session: Any) -> None:
    Pair = collections.namedtuple("Pair", ["c", "h"])
    a, b, c = (tf.placeholder(tf.float32) for _ in range(3))
    total = a + 10.0 * b + 100.0 * c
    for _ in range(2):  # the second time, the step is known
        assert session.run(total, {(a, Pair(b, c)): (1, Pair(np.float32(2), np.array(3)))}) == 321.0
    assert session.run(total, {(a, b): [1, 2], c: 3}) == 321.0
    assert session.run(total, {(a, (b, c)): (4, 5, 6)}) == 654.0


def test_nested_feeds_that_do_not_match_are_refused(session: Any) -> None:
    a, b = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    with pytest.raises(ValueError, match=r"nests 2 tensors, .*its value 3"):
        session.run(a + b, {(a, b): (1, 2, 3)})
    with pytest.raises(ValueError, match="gives two values for"):
        session.run(a + b, {(a, b): (1, 2), a: 3})
    with pytest.raises(TypeError, match="Cannot interpret feed_dict key as Tensor"):
        session.run(a + b, {(a, "missing:0"): (1, 2)})


def test_feeding_a_tensor_object_or_a_non_tensor_key_is_refused(session: Any) -> None:
    x = tf.placeholder(tf.float32)
    with pytest.raises(TypeError, match=r"tf\.Tensor"):
        session.run(x, {x: tf.constant(1.0)})
    with pytest.raises(TypeError, match="feed_dict key"):
        session.run(x, {3: 1.0})
    with pytest.raises(TypeError, match="dictionary"):
        session.run(x, [1.0])


def test_a_placeholder_without_a_value_is_an_error_with_the_line_that_made_it(session: Any) -> None:
    x = tf.placeholder(tf.float32, name="inputs")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"inputs.*float32") as error:
        session.run(x + 1.0)
    assert error.value.op is x.op
    assert "test_fetches_and_feeds.py" in str(error.value)


def test_strings_go_in_and_out(session: Any) -> None:
    x = tf.placeholder(tf.string)
    assert session.run(tf.identity(x), {x: ["a", b"\x00\xff", "é"]}).tolist() == [b"a", b"\x00\xff", "é".encode()]
    assert session.run(tf.identity(x), {x: "one"}) == b"one"
    assert session.run(tf.identity(x), {x: np.array([["ab", "c"]])}).tolist() == [[b"ab", b"c"]]
    with pytest.raises((tf.errors.InvalidArgumentError, TypeError)):
        session.run(tf.identity(x), {x: 3.5})


def test_zero_sized_and_high_rank_values_pass(session: Any) -> None:
    x = tf.placeholder(tf.int64)
    assert session.run(tf.identity(x), {x: np.zeros((0, 3), np.int64)}).shape == (0, 3)
    assert session.run(tf.identity(x), {x: np.zeros((1,) * 9 + (2,), np.int64)}).shape == (1,) * 9 + (2,)


_DTYPES = (
    "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64 complex128 "
    "qint8 quint8 qint16 quint16 qint32"
)


@pytest.mark.parametrize("dtype", _DTYPES.split())
def test_every_element_type_survives_the_way_in_and_out(session: Any, dtype: str) -> None:
    x = tf.placeholder(tf.as_dtype(dtype))
    kind = tf.as_dtype(dtype).as_numpy_dtype
    for shape in ((), (3,), (2, 2000)):
        value = np.ones(shape, kind)
        out = session.run(tf.identity(x), {x: value})
        assert np.asarray(out).dtype == value.dtype
        assert np.asarray(out).tobytes() == value.tobytes()


def test_nested_fetches_keep_their_structure_when_they_are_run_again() -> None:
    a, b = tf.constant(1), tf.constant(2)
    structures: list[tuple[Any, Any]] = [
        ([a, [b]], [1, [2]]),
        ((a, [b]), (1, [2])),
        ([a, (b,)], [1, (2,)]),
        ({"x": [a], "y": b}, {"x": [1], "y": 2}),
        ({"y": [a], "x": b}, {"y": [1], "x": 2}),
        ([{"x": a}, [[b]]], [{"x": 1}, [[2]]]),
    ]
    with tf.Session() as session:
        for _ in range(3):
            for fetches, expected in structures:
                assert session.run(fetches) == expected
                assert session.run(fetches, {b: 2}) == expected
