"""Tests of tf.logging and of the deprecation warnings that go through it."""

import logging as stdlib_logging
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from thalweg.platform import deprecation, logging

LINE = re.compile(r"^([DIWEF])(\d{4} \d\d:\d\d:\d\d\.\d{6}) (\d+) (\S+):(\d+)\] (.*)$")


class NoHandlers(list[stdlib_logging.Handler]):
    """The handlers of a root logger that is not set up: pytest adds its own when a test begins, to no effect."""

    def append(self, handler: stdlib_logging.Handler) -> None:
        pass


@pytest.fixture(autouse=True)
def fresh_logging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Takes pytest's own handlers off the root logger, and forgets the levels and counts of other tests."""
    monkeypatch.setattr(stdlib_logging.getLogger(), "handlers", NoHandlers())
    monkeypatch.setattr(logging, "_counts", {})
    monkeypatch.setattr(deprecation, "_warned", set())
    before = logging.get_verbosity()
    logging.set_verbosity(logging.WARN)
    yield
    logging.set_verbosity(before)


def messages(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str, str]]:
    """The level, file and message of every line on the standard error stream."""
    matches = [LINE.match(line) for line in capsys.readouterr().err.splitlines()]
    assert all(matches), "every line has a prefix like Google's logging library"
    return [(m[1], m[4], m[6]) for m in matches if m]


def test_each_function_logs_at_its_level_with_the_callers_file(capsys: pytest.CaptureFixture[str]) -> None:
    logging.set_verbosity(logging.DEBUG)
    logging.debug("d %d", 1)
    logging.info("i %s", "x")
    logging.warn("w")
    logging.warning("w2")
    logging.error("e")
    logging.fatal("f")
    logging.log(logging.INFO, "l")
    logging.vlog(logging.DEBUG, "v")
    logging.TaskLevelStatusMessage("t")
    expected = [("D", "d 1"), ("I", "i x"), ("W", "w"), ("W", "w2"), ("E", "e"), ("F", "f"), ("I", "l"), ("D", "v")]
    assert messages(capsys) == [(level, "test_logging.py", text) for level, text in [*expected, ("E", "t")]]


def test_levels_are_the_standard_librarys_numbers() -> None:
    levels = (logging.DEBUG, logging.INFO, logging.WARN, logging.ERROR, logging.FATAL)
    assert levels == (10, 20, 30, 40, 50)


def test_messages_below_the_verbosity_are_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    assert logging.get_verbosity() == logging.WARN
    logging.info("hidden")
    logging.vlog(1, "hidden")
    logging.set_verbosity(logging.INFO)
    assert logging.get_verbosity() == logging.INFO
    logging.info("shown")
    assert [text for _, _, text in messages(capsys)] == ["shown"]


@pytest.mark.parametrize(("name", "level"), [("DEBUG", 10), ("info", 20), ("WARN", 30), ("WARNING", 30), ("FATAL", 50)])
def test_a_level_can_be_given_by_name(name: str, level: int) -> None:
    logging.set_verbosity(name)
    assert logging.get_verbosity() == level


def test_a_level_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="No logging level is called 'LOUD'"):
        logging.set_verbosity("LOUD")
    with pytest.raises(TypeError):
        logging.set_verbosity([1])  # type: ignore[arg-type]


def test_every_n_and_first_n_count_per_call(capsys: pytest.CaptureFixture[str]) -> None:
    for i in range(7):
        logging.log_every_n(logging.WARN, "every %d", 3, i)
        logging.log_first_n(logging.WARN, "first %d", 2, i)
        logging.log_every_n(logging.WARN, "other %d", 5, i), logging.log_first_n(logging.WARN, "same line %d", 1, i)
    texts = [text for _, _, text in messages(capsys)]
    assert [t for t in texts if t.startswith("every")] == ["every 0", "every 3", "every 6"]
    assert [t for t in texts if t.startswith("first")] == ["first 0", "first 1"]
    assert [t for t in texts if t.startswith("other")] == ["other 0", "other 5"]
    assert [t for t in texts if t.startswith("same")] == ["same line 0"]


def test_log_if_needs_the_condition(capsys: pytest.CaptureFixture[str]) -> None:
    logging.log_if(logging.ERROR, "yes %d", True, 1)
    logging.log_if(logging.ERROR, "no %d", False, 1)
    assert messages(capsys) == [("E", "test_logging.py", "yes 1")]


def test_a_configured_root_logger_gets_each_message_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    records: list[stdlib_logging.LogRecord] = []

    class Collector(stdlib_logging.Handler):
        def emit(self, record: stdlib_logging.LogRecord) -> None:
            records.append(record)

    monkeypatch.setattr(stdlib_logging.getLogger(), "handlers", [Collector()])
    logging.error("to the program's own handler")
    logging.flush()
    assert [(r.name, r.filename, r.getMessage()) for r in records] == [
        ("thalweg", "test_logging.py", "to the program's own handler")
    ]
    assert capsys.readouterr().err == ""


def test_the_logger_is_made_once() -> None:
    handlers = list(logging.get_logger().handlers)
    assert logging.get_logger() is logging._make_logger()
    assert logging.get_logger().handlers == handlers


def test_a_message_with_wrong_arguments_does_not_stop_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    logging.error("%d", "not a number")
    assert "Logging error" in capsys.readouterr().err


def test_importing_the_module_does_not_load_the_standard_librarys_logging() -> None:
    # In a bare interpreter, and past the package's __init__, which loads NumPy.
    program = (
        "import sys, importlib.util as u;"
        f"s = u.spec_from_file_location('tf_logging', {logging.__file__!r});"
        "m = u.module_from_spec(s); s.loader.exec_module(m); print('logging' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"


@deprecation.deprecated("2030-01-31", "Use new() instead.")
def old(x: int, *, y: int = 0) -> int:
    """Adds."""
    return x + y


def test_a_deprecated_function_warns_once_per_line_that_calls_it(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        assert old(1, y=2) == 3
    old(1)
    lines = messages(capsys)
    assert len(lines) == 2
    level, file, text = lines[0]
    assert (level, file) == ("W", "test_logging.py")
    assert "old" in text and "after 2030-01-31. Use new() instead." in text and f"From {__file__}:" in text


def test_a_deprecated_function_keeps_its_name_and_says_so_in_its_docstring() -> None:
    assert old.__name__ == "old"
    assert old.__doc__ is not None
    assert old.__doc__.startswith("Adds.")
    assert "Deprecated: it will be removed after 2030-01-31. Use new() instead." in old.__doc__


def test_an_alias_of_a_function_does_the_same_and_warns(capsys: pytest.CaptureFixture[str]) -> None:
    alias = deprecation.deprecated_alias("legacy.length", len, "size")
    assert alias([1, 2]) == 2
    [(_, _, text)] = messages(capsys)
    assert text.endswith("The name tf.legacy.length is deprecated. Please use tf.size instead.")


def test_an_alias_of_a_class_still_serves_as_a_base_class(capsys: pytest.CaptureFixture[str]) -> None:
    class Optimizer:
        def __init__(self, rate: float = 0.1) -> None:
            self.rate = rate

    alias: Any = deprecation.deprecated_alias("OldOptimizer", Optimizer)
    assert isinstance(alias(0.5), Optimizer)
    assert alias(rate=0.5).rate == 0.5

    class Mine(alias):  # type: ignore[misc]
        pass

    assert Mine(0.25).rate == 0.25
    assert all("tf.OldOptimizer is deprecated. Please use tf.Optimizer" in text for _, _, text in messages(capsys))


def test_the_old_name_of_an_argument_is_accepted_alone() -> None:
    lookup = deprecation.deprecated_argument_lookup
    assert lookup("axis", 1, "dim", None) == 1
    assert lookup("axis", None, "dim", 2) == 2
    assert lookup("axis", None, "dim", None) is None
    with pytest.raises(ValueError, match="both 'dim' and 'axis'"):
        lookup("axis", 1, "dim", 2)
