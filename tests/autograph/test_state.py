"""State that branches and loops change: attributes, items, lists, dicts, closures and globals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.autograph.running import both, converted, defined, run


class Counter:
    """Counts."""

    def __init__(self) -> None:
        """Starts at zero."""
        self.count = 0
        self.seen: dict[str, Any] = {}
        self.inner: Any = None


def test_attributes_are_results_of_branches_and_loops() -> None:
    def count(n: Any) -> Any:
        counter = Counter()
        for i in range(n):
            if i % 3 == 1:
                counter.count += i
        return counter.count

    both(count, np.int32(8))


def test_attributes_of_attributes() -> None:
    def count(n: Any) -> Any:
        counter = Counter()
        counter.inner = Counter()
        if n > 2:
            counter.inner.count = n
        else:
            counter.inner.count = -n
        return counter.inner.count

    both(count, np.int32(8))
    both(count, np.int32(1))


def test_items_of_dicts_are_results_of_branches() -> None:
    def put(n: Any) -> Any:
        table = {"a": 1, "b": 2}
        alias = table
        if n > 2:
            table["a"] = n
        else:
            table["b"] = n
        return alias["a"] * 100 + alias["b"]

    both(put, np.int32(8))
    both(put, np.int32(1))


def test_a_dict_of_an_attribute() -> None:
    def put(n: Any) -> Any:
        counter = Counter()
        counter.seen["x"] = 0
        for i in range(n):
            counter.seen["x"] += i
        return counter.seen["x"]

    both(put, np.int32(5))


def test_items_of_an_argument_are_changed_in_place() -> None:
    def put(table: Any, n: Any) -> None:
        if n > 0:
            table[0] = n
        else:
            table[1] = n

    table = [tf.constant(1), tf.constant(2)]
    tf.autograph.to_graph(put)(table, tf.constant(5))
    assert run(table) == [5, 2]


def test_items_of_tensors_are_replaced() -> None:
    def squares(n: Any) -> Any:
        a = tf.zeros([5, 2], tf.int32)
        for i in tf.range(n):
            a[i, 1] = i * i
            a[i, 0] += i + a[i, 1]
        a[3:, 0] = [7, 8]
        a[-1, :] += 100
        return a

    expected = [[0, 0], [2, 1], [6, 4], [7, 0], [108, 100]]
    assert converted(squares, 3).tolist() == expected


def test_lists_that_loops_append_to() -> None:
    def evens(n: Any) -> Any:
        found = []
        for i in tf.range(n):
            if i % 2 == 0:
                found.append(i)
        total = 0
        for each in found:
            total += each
        return tf.stack(found), len(found), found[-1], found[0], total

    stacked, count, last, first, total = converted(evens, 7)
    assert stacked.tolist() == [0, 2, 4, 6]
    assert (count, last, first, total) == (4, 6, 0, 12)


def test_lists_that_loops_append_to_and_pop_from() -> None:
    def work(n: Any) -> Any:
        stack = [tf.constant([1, 1])]
        out = tf.constant([0, 0])
        while n > 0:
            stack.append(tf.stack([n, n]))
            if n % 2 == 0:
                out += stack.pop()
            n -= 1
        return out, stack

    out, stack = converted(lambda n: [tf.convert_to_tensor(v) for v in work(n)], 5)
    assert out.tolist() == [6, 6]
    assert stack.tolist() == [[1, 1], [5, 5], [3, 3], [1, 1]]


def test_lists_within_nested_loops() -> None:
    def pairs(n: Any) -> Any:
        found = []
        for i in tf.range(n):
            for j in tf.range(i):
                found.append(i * 10 + j)
        return tf.stack(found)

    assert converted(pairs, 4).tolist() == [10, 20, 21, 30, 31, 32]


def test_a_list_that_a_branch_appends_to_in_both_cases() -> None:
    def pair(x: Any) -> Any:
        values = [x]
        if x > 0:
            values.append(x * 2)
        else:
            values.append(x * 3)
        return values[0] + values[1]

    both(pair, np.int32(4))
    both(pair, np.int32(-4))


def test_a_list_that_only_a_loop_in_one_branch_appends_to() -> None:
    def work(n: Any) -> Any:
        values = [n]
        if n > 2:
            for i in tf.range(n):
                values.append(i * 10)
        values.append(-n)
        return tf.stack(values)

    assert converted(work, 3).tolist() == [3, 0, 10, 20, -3]
    assert converted(work, 1).tolist() == [1, -1]


def test_tensor_arrays_by_index() -> None:
    def cubes(n: Any) -> Any:
        array = tf.TensorArray(tf.int32, size=n, clear_after_read=False)
        for i in tf.range(n):
            array[i] = i * i * i
        total = 0
        for each in array:
            total += each
        return array.stack(), array[2], total

    stacked, third, total = converted(cubes, 4)
    assert stacked.tolist() == [0, 1, 8, 27]
    assert (third, total) == (8, 36)


def test_globals_and_closures() -> None:
    function = defined(
        """
level = 0
def f(n):
    global level
    local = 0
    def raise_local(by):
        nonlocal local
        local = local + by
    for i in tf.range(n):
        level = level + i
        raise_local(2)
        if i > 2:
            raise_local(i)
    return level, local
"""
    )
    level, local = run(tf.autograph.to_graph(function)(tf.constant(5)))
    assert (level, local) == (10, 17)


def test_closures_see_the_variables_of_the_original() -> None:
    scale = 2

    def scaled(x: Any) -> Any:
        return x * scale if x > 0 else x

    graph_function = tf.autograph.to_graph(scaled)
    assert run(graph_function(tf.constant(3))) == 6
    scale = 5
    assert run(graph_function(tf.constant(3))) == 15


def test_closures_that_a_function_returns() -> None:
    def make(x: Any) -> Any:
        y = x * 2

        def inner(z: Any) -> Any:
            if z > y:
                return z
            return y

        return inner

    assert run(tf.autograph.to_graph(make)(tf.constant(4))(tf.constant(3))) == 8


def test_what_a_branch_alone_uses_is_not_there_later() -> None:
    def work(x: Any) -> Any:
        if x > 0:
            temporary = x * 2
            result = temporary + 1
        else:
            result = x
        return result, "temporary" in locals()

    result, left = tf.autograph.to_graph(work)(tf.constant(2))
    assert run(result) == 5
    assert not left


def test_equal_constants_of_both_branches_stay_constants() -> None:
    def work(x: Any) -> Any:
        mode = "start"
        if x > 0:
            y = x
            mode = "end"
        else:
            y = -x
            mode = "end"
        if mode == "end":
            y += 1
        return y

    both(work, np.int32(-3))


def test_methods_that_change_their_object_in_a_loop() -> None:
    class Model:
        def __init__(self) -> None:
            self.total = tf.constant(0)

        def step(self, x: Any) -> Any:
            self.total += x
            return self.total

        def run(self, n: Any) -> Any:
            for i in tf.range(n):
                self.total = self.step(i)
            return self.total

    assert run(tf.function(Model().run)(tf.constant(5))) == 10


def test_a_tensor_of_a_function_around_cannot_be_replaced() -> None:
    a = tf.zeros([3])

    def work(x: Any) -> Any:
        a[0] = x
        return a

    with pytest.raises(TypeError, match="declare the name nonlocal"):
        tf.autograph.to_graph(work)(tf.constant(1.0))
