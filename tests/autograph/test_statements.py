"""Statements of Python on tensors: each function gives in a graph, converted in two ways, what it gives in Python."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.autograph.running import both, converted, run


def sign(x: Any) -> Any:
    if x > 0:
        return 1
    elif x < 0:
        return -1
    return 0


def collatz(n: Any) -> Any:
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


def first_factor(n: Any) -> Any:
    for i in range(2, n):
        if n % i == 0:
            return i
    return n


def prime_in_else(n: Any) -> Any:
    kind = 0
    for i in range(2, n):
        if n % i == 0:
            break
        kind = i
    else:
        kind = -1
    return kind


def odd_sum_below(n: Any, limit: Any) -> Any:
    total = 0
    for i in range(n):
        if i % 2 == 0:
            continue
        if total > limit:
            break
        total += i
    return total


def nested(n: Any) -> Any:
    found = 0
    for i in range(n):
        for j in range(i):
            if i * j % 7 == 3:
                found += i
                break
            if j > 4:
                return found * 100 + j
    return found


def forever(n: Any) -> Any:
    i = 0
    while True:
        i += 1
        if i * i > n:
            break
    return i


def python_loop_tensor_break(n: Any) -> Any:
    total = 0
    for i in (1, 2, 3, 4):
        if i > n:
            break
        total += i
    return total


def chained(a: Any, b: Any) -> Any:
    return (1 if 0 < a < b <= 10 else 0) + (10 if a == b != 3 else 20)


def logic(a: Any, b: Any) -> Any:
    value = 0
    if a > 0 and b > 0 and a != b:
        value += 1
    if a > 0 or b // a > 0:
        value += 10
    if not (a > 0):
        value += 100
    return value


def walrus(n: Any) -> Any:
    total = 0
    while (half := n // 2) > 0:
        total += half
        n = half
    return total + (third if (third := total // 3) > 2 else 0)


def walrus_in_and(a: Any, b: Any) -> Any:
    c = 7
    if a == a and b is not None:
        c = 8
    return c


def in_with(n: Any) -> Any:
    with contextlib.suppress(KeyError):
        if n > 3:
            return n
        n += 1
    return -n


def in_try(n: Any) -> Any:
    done = 0
    try:
        if n > 3:
            return n * 2
        n += 5
    except KeyError:
        n = 0
    else:
        n += 100
    finally:
        done = 1
    return n + done


def unpacking(n: Any) -> Any:
    a, (b, *c) = n, (n + 1, n + 2, n + 3)
    for _ in range(n):
        a, b = b, a + b
    return a + sum(c)


def inner_function(n: Any) -> Any:
    total = 0

    def add(amount: Any, times: Any = 2) -> None:
        nonlocal total
        if amount > 2:
            total += amount * times

    for i in range(n):
        add(i)
        add(i, times=1)
    return total


def lambdas(n: Any) -> Any:
    choose = lambda v: v * 2 if v > 3 else -v  # noqa: E731
    return choose(n) + (lambda w: 1 if w > n else 0)(4)


def annotated(n: Any) -> Any:
    total: Any = 0
    unused: int  # noqa: F842
    for i in range(n):
        part: Any = i * i
        total += part
    return total


def deep_return(n: Any) -> Any:
    while n < 50:
        for i in range(3):
            n += i
            if n % 11 == 0:
                if n % 2 == 0:
                    return n
                else:
                    n += 100
                    break
    return -n


def deleted(n: Any) -> Any:
    temporary = n
    if n > 2:
        result = temporary
        del temporary
    else:
        result = 0
    return result


def starred(*args: Any, **kwargs: Any) -> Any:
    total = kwargs.get("start", 0)
    for each in args:
        if each > 1:
            total += each
    return total


def star_call(a: Any, b: Any) -> Any:
    return starred(*[a, b], **{"start": 3})  # noqa: PIE804


def matched(n: Any) -> Any:
    mode = ("double", 3)
    match mode:
        case ("single", _):
            return n
        case ("double", factor) if factor > 2:
            if n > 2:
                return n * factor
            return n
    return -1


def text(n: Any) -> Any:
    label = f"{'big' if isinstance(n, str) else 'small'}"
    return n + len(label)


ONE = [sign, collatz, first_factor, prime_in_else, nested, forever, python_loop_tensor_break, walrus, in_with, in_try,
       unpacking, inner_function, lambdas, annotated, deep_return, deleted, matched, text]  # fmt: skip
TWO = [odd_sum_below, chained, logic, walrus_in_and, star_call]


@pytest.mark.parametrize("value", [1, 2, 5, 9, 12])
@pytest.mark.parametrize("function", ONE, ids=lambda f: f.__name__)
def test_one_number(function: Any, value: int) -> None:
    both(function, np.int32(value))


@pytest.mark.parametrize("values", [(1, 2), (5, 5), (9, 30), (3, 3)])
@pytest.mark.parametrize("function", TWO, ids=lambda f: f.__name__)
def test_two_numbers(function: Any, values: Any) -> None:
    both(function, *np.array(values, np.int32))


def test_a_sign_below_zero() -> None:
    both(sign, np.int32(-4))


def test_operands_that_are_not_needed_are_not_computed() -> None:
    def checked(x: Any) -> Any:
        return x == 0 or tf.debugging.check_numerics(1.0 / x, "divided") > 0.5

    assert converted(checked, np.float32(0.0))
    assert converted(checked, np.float32(1.0))


def test_python_values_are_decided_by_python() -> None:
    traced = []

    def choose(x: Any, mode: str) -> Any:
        if mode == "a":
            traced.append("a")
            x = x + 1
        elif mode == "b":
            traced.append("b")
        for _ in range(2):
            traced.append("turn")
        return x

    assert run(tf.autograph.to_graph(choose)(tf.constant(1), "a")) == 2
    assert traced == ["a", "turn", "turn"]


def test_a_loop_that_python_begins_goes_on_in_the_graph() -> None:
    def grows(n: Any) -> Any:
        x = 1
        while x < 100:
            x = x * n
        return x

    both(grows, np.int32(3))


def test_structures_go_around_a_loop() -> None:
    def fibonacci(n: Any) -> Any:
        state = {"pair": (0, 1), "list": [0, 0]}
        for i in range(n):
            a, b = state["pair"]
            state["pair"] = (b, a + b)
            state["list"][1] += i
        return state["pair"][0], state["list"][1]

    both(fibonacci, np.int32(10))


def test_loop_options_are_those_of_while_loop() -> None:
    def limited(n: Any) -> Any:
        i = 0
        while i < n:
            tf.autograph.experimental.set_loop_options(maximum_iterations=3)
            i += 1
        return i

    assert converted(limited, 10) == 3


def test_names_of_a_class_are_private_in_converted_methods() -> None:
    class Account:
        def __init__(self) -> None:
            self.__sum = 0

        def add(self, x: Any) -> Any:
            if x > 0:
                self.__sum = x
            else:
                self.__sum = -x
            return self.__sum

    assert run(tf.autograph.to_graph(Account().add)(tf.constant(-3))) == 3
