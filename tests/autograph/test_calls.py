"""Which called functions are converted, and which are left alone."""

from __future__ import annotations

import functools
import logging
import threading
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.autograph.running import both, converted, defined, run


def positive(x: Any) -> Any:
    """A function of the module."""
    if x > 0:
        return x
    return -x


def traced_by(decorator: Any) -> Any:
    """A decorator with functools.wraps."""

    @functools.wraps(decorator)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        result = decorator(*args, **kwargs)
        if result > 10:
            result = result + 1000
        return result

    return wrapper


@traced_by
def decorated(x: Any, by: Any = 2) -> Any:
    """A decorated function."""
    if x > 3:
        return x * by
    return x


class Layer:
    """A callable object."""

    def __init__(self, scale: Any) -> None:
        """Takes a factor."""
        self.scale = scale

    def __call__(self, x: Any) -> Any:
        """Scales positive values."""
        return self.forward(x)

    def forward(self, x: Any) -> Any:
        """Scales positive values."""
        if x > 0:
            return x * self.scale
        return self.other(x)

    @staticmethod
    def other(x: Any) -> Any:
        """Of negative values."""
        return x - 1 if x < -5 else x

    @classmethod
    def named(cls, x: Any) -> Any:
        """Makes a layer."""
        if x > 0:
            return cls(2)(x)
        return x


class Deeper(Layer):
    """Calls its base class."""

    def forward(self, x: Any) -> Any:
        """Adds one."""
        if x > 4:
            y = super().forward(x) + 1
        else:
            y = super().forward(x)
        return y


@pytest.mark.parametrize("value", [-7, -2, 3, 9, 30])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: positive(x),
        lambda x: decorated(x) + decorated(x, by=3),
        lambda x: Layer(3)(x),
        lambda x: Deeper(3)(x),
        lambda x: Deeper(3).forward(x),
        lambda x: Layer.named(x),
        lambda x: Layer.other(x),
        lambda x: functools.partial(decorated, by=5)(x),
        lambda x: functools.reduce(lambda a, b: a + b, [x, x]) + [positive, Layer(2)][0](x),
        lambda x: (lambda f: f(x))(positive),
    ],
)
def test_called_functions_are_converted(function: Any, value: int) -> None:
    both(function, np.int32(value))


@pytest.mark.parametrize("entity", [Deeper(3), Deeper(3).forward, functools.partial(decorated, by=3), decorated])
def test_callables_of_all_kinds_can_be_converted(entity: Any) -> None:
    both(entity, np.int32(7))


def test_a_class_becomes_a_subclass_with_converted_methods() -> None:
    layer = tf.autograph.to_graph(Deeper)(3)
    assert isinstance(layer, Deeper)
    assert run(layer.forward(tf.constant(7))) == 22


def test_a_method_as_a_function() -> None:
    class Model:
        def __init__(self) -> None:
            self.calls = 0

        @tf.function
        def __call__(self, x: Any) -> Any:
            self.calls += 1
            if x > 0:
                return x
            return -x

    model = Model()
    assert run([model(tf.constant(-3)), model(tf.constant(4))]) == [3, 4]
    assert model.calls == 1


def test_recursive_false_leaves_called_functions_alone() -> None:
    def outer(x: Any) -> Any:
        return positive(x)

    with pytest.raises(TypeError, match="as a Python `bool` is not allowed"):
        tf.autograph.to_graph(outer, recursive=False)(tf.constant(1))


def test_what_do_not_convert_marks_is_left_alone() -> None:
    @tf.autograph.do_not_convert
    def plain(x: Any) -> Any:
        return 1 if x is not None and x else 0

    def outer(x: Any) -> Any:
        return plain(x)

    with pytest.raises(TypeError, match="as a Python `bool` is not allowed"):
        tf.autograph.to_graph(outer)(tf.constant(True))
    assert plain(3) == 1
    assert tf.autograph.experimental.do_not_convert is tf.autograph.do_not_convert


def test_autograph_false_leaves_a_function_alone() -> None:
    with pytest.raises(TypeError, match="as a Python `bool` is not allowed"):
        tf.function(positive, autograph=False)(tf.constant(1))


def test_libraries_are_left_alone() -> None:
    from thalweg.autograph.calls import callee

    for function in (np.mean, functools.wraps, tf.reduce_sum, logging.getLogger, tf.layers.dense, pytest.raises):
        assert callee(function) is function


def test_a_generator_is_left_alone_when_called_and_refused_by_itself() -> None:
    def numbers(n: int) -> Any:
        for i in range(n):
            if i != 1:
                yield i

    def total(x: Any) -> Any:
        found = x
        for i in numbers(4):
            found += i
        return found

    both(total, np.int32(1))
    with pytest.raises(ValueError, match=r"the generator 'numbers' cannot become part of a graph.*test_calls.py"):
        tf.autograph.to_graph(numbers)

    async def later(x: Any) -> Any:
        return x

    with pytest.raises(ValueError, match="the coroutine 'later'"):
        tf.autograph.to_graph(later)


def test_a_generator_inside_of_a_function() -> None:
    def total(x: Any) -> Any:
        def numbers() -> Any:
            yield x
            yield x * 2

        found = 0
        for i in numbers():
            found += i
        return found + sum(each for each in numbers())

    both(total, np.int32(3))


def test_a_jump_out_of_finally_is_refused() -> None:
    def odd(x: Any) -> Any:
        while x > 0:
            try:
                x -= 1
            finally:
                break  # noqa: B012
        return x

    with pytest.raises(ValueError, match=r"`finally` block discards exceptions.*line"):
        tf.autograph.to_graph(odd)


@pytest.mark.parametrize("entity", [3, None, "text", len])
def test_what_has_no_python_code_is_refused(entity: Any) -> None:
    with pytest.raises(ValueError, match="AutoGraph converts functions, methods, callable objects and classes"):
        tf.autograph.to_graph(entity)


def test_a_function_without_source_is_refused_or_left_alone_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    space: dict[str, Any] = {}
    exec("def lost(x):\n    return x + 1", space)
    with pytest.raises(ValueError, match="source code of 'lost' is not available"):
        tf.autograph.to_graph(space["lost"])
    with warnings_of_tensorflow(caplog):
        assert run(tf.function(space["lost"])(tf.constant(1))) == 2
        assert converted(lambda x: space["lost"](x), 1) == 2
    assert caplog.text.count("AutoGraph could not convert 'lost'") == 1


def warnings_of_tensorflow(caplog: pytest.LogCaptureFixture) -> Any:
    """A block in which the log is captured."""
    caplog.handler.setLevel(logging.WARNING)
    logger = logging.getLogger("tensorflow")
    logger.propagate = True
    return caplog.at_level(logging.WARNING, "tensorflow")


def test_a_file_that_was_changed_is_noticed() -> None:
    import linecache

    function = defined("def f(x):\n    return x\n")
    name = function.__code__.co_filename
    text = "\n\ndef other(x):\n    return x\n"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    with pytest.raises(ValueError, match="the file was changed after it was imported"):
        tf.autograph.to_graph(function)


def test_lambdas_of_one_line_are_told_apart() -> None:
    pair = (lambda x: 1 if x > 0 else 2), (lambda x: 3 if x > 0 else 4)
    assert [converted(each, -1) for each in pair] == [2, 4]
    nested = lambda x: (lambda x: 5 if x > 0 else 6)(x)  # noqa: E731
    assert converted(nested, 1) == 5


def test_threads_convert_at_the_same_time() -> None:
    function = defined("def f(x):\n    if x > 0:\n        return x\n    return -x\n")
    found: list[Any] = []

    def work() -> None:
        with tf.Graph().as_default(), tf.Session() as session:
            found.append(session.run(tf.autograph.to_graph(function)(tf.constant(-3))))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [3] * 8


def test_a_function_is_converted_once() -> None:
    from thalweg.autograph import conversion

    function = defined("def f(x):\n    if x > 0:\n        return x\n    return -x\n")
    first, second = tf.autograph.to_graph(function), tf.autograph.to_graph(function)
    assert conversion._convert(function.__code__, {}) is conversion._convert(function.__code__, {})
    assert run([first(tf.constant(1)), second(tf.constant(-1))]) == [1, 1]


def test_the_code_can_be_looked_at() -> None:
    code = tf.autograph.to_code(positive)
    assert code.startswith("def positive(x):")
    assert "ag__.if_(x > 0" in code
    assert tf.autograph.to_code(Layer).count("def ") >= 5


def test_other_public_names(capsys: pytest.CaptureFixture[str]) -> None:
    tf.autograph.trace("here", 3)
    assert capsys.readouterr().out == "here 3\n"
    tf.autograph.set_verbosity(0)
    feature = tf.autograph.experimental.Feature
    assert feature.LISTS not in feature.all_but(feature.LISTS)
    assert run(tf.autograph.to_graph(positive, experimental_optional_features=feature.ALL)(tf.constant(-1))) == 1
    with pytest.raises(ValueError, match="Feature"):
        tf.autograph.to_graph(positive, experimental_optional_features="ALL")


def test_defaults_and_keywords_of_a_function_stay() -> None:
    def scaled(x: Any, by: Any = 2, *, plus: Any = 1) -> Any:
        """Its text."""
        if x > 0:
            return x * by + plus
        return x

    function = tf.autograph.to_graph(scaled)
    assert (function.__name__, function.__doc__) == ("scaled", "Its text.")
    assert run([function(tf.constant(3)), function(tf.constant(3), plus=5, by=3)]) == [7, 14]
    assert tf.function(scaled).python_function is scaled
