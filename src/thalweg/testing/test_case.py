"""tf.test.TestCase and tf.test.main."""

from __future__ import annotations

import contextlib
import random
import re
import sys
import tempfile
import threading
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from thalweg import errors
from thalweg.graph.default_graph import get_default_graph, reset_default_graph, set_random_seed
from thalweg.graph.default_stack import get_default_session
from thalweg.graph.device_spec import canonical
from thalweg.platform import flags
from thalweg.platform.version import GRAPH_DEF_VERSION, GRAPH_DEF_VERSION_MIN_CONSUMER
from thalweg.runtime.session import Session
from thalweg.testing.array_assertions import ArrayAssertions
from thalweg.testing.environment import get_temp_dir

_SEED = 87654321


class _CheckedThread:
    """A thread whose failures `join` raises in the test."""

    def __init__(self, test: TestCase, target: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self._test = test
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(target, args or (), kwargs or {}))
        self._joined = False

    def _run(self, target: Callable[..., Any], args: Any, kwargs: Any) -> None:
        try:
            target(*args, **kwargs)
        except BaseException as e:
            self._failure = e

    def start(self) -> None:
        """Starts it."""
        self._thread.start()

    def join(self) -> None:
        """Waits for its end; raises its exception."""
        self._joined = True
        self._thread.join()
        if self._failure is not None:
            self._test.fail(f"Error in checkedThread: {self._failure!r}")

    def is_alive(self) -> bool:
        """Whether it is still running."""
        return self._thread.is_alive()

    def check_termination(self) -> None:
        """Raises unless it was joined."""
        if not self._joined:
            self._test.fail("A checked thread was not joined.")


class TestCase(ArrayAssertions):
    """A unittest.TestCase with sessions, assertions about tensors, and fixed seeds: each test has a fresh graph."""

    def __init__(self, methodName: str = "runTest") -> None:
        """Takes the name of the method to run, as unittest does."""
        super().__init__(methodName)
        self._threads: list[_CheckedThread] = []
        self._tempdir: str | None = None
        self._cached_session: Session | None = None

    def setUp(self) -> None:
        """Empties the default graph and sets the seeds of `random`, NumPy and the graph."""
        self._close_cached_session()
        random.seed(_SEED)
        np.random.seed(_SEED)  # noqa: NPY002 (programs use the global generator)
        reset_default_graph()
        set_random_seed(_SEED)

    def tearDown(self) -> None:
        """Checks that threads were joined; closes the session."""
        for thread in self._threads:
            thread.check_termination()
        self._close_cached_session()

    def _close_cached_session(self) -> None:
        if self._cached_session is not None:
            self._cached_session.close()
            self._cached_session = None

    def get_temp_dir(self) -> str:
        """A folder for the files of this test."""
        if self._tempdir is None:
            self._tempdir = tempfile.mkdtemp(dir=get_temp_dir())
        return self._tempdir

    @contextlib.contextmanager
    def session(
        self, graph: Any = None, config: Any = None, use_gpu: bool = True, force_gpu: bool = False
    ) -> Iterator[Session]:
        """A block with a session of its own, which is the default one; its graph is the default graph."""
        graph = graph or get_default_graph()
        with graph.as_default(), Session(graph=graph, config=config) as session:
            yield session

    @contextlib.contextmanager
    def cached_session(
        self, graph: Any = None, config: Any = None, use_gpu: bool = True, force_gpu: bool = False
    ) -> Iterator[Session]:
        """A block with the session of the test: the same one, with its variables, each time."""
        if self._cached_session is None:
            self._cached_session = Session(graph=graph or get_default_graph(), config=config)
        elif graph is not None and self._cached_session.graph is not graph:
            raise ValueError("The graph used to get the cached session is different than the one that was used before.")
        with self._cached_session.graph.as_default(), self._cached_session.as_default():
            yield self._cached_session

    @property
    def test_session(self) -> Callable[..., Any]:
        """The older name: the cached session if no graph is given, else one of its own.

        A property, because test loaders take methods of such a name for tests.
        """

        def opened(graph: Any = None, config: Any = None, use_gpu: bool = True, force_gpu: bool = False) -> Any:
            block = self.cached_session if graph is None else self.session
            return block(graph, config, use_gpu, force_gpu)

        return opened

    def evaluate(self, tensors: Any) -> Any:
        """The values of tensors, by the default session, or by the test's."""
        session = get_default_session()
        if session is not None:
            return session.run(tensors)
        with self.cached_session() as session:
            return session.run(tensors)

    def checkedThread(self, target: Callable[..., Any], args: Any = None, kwargs: Any = None) -> Any:
        """A thread that must be joined, and whose exceptions fail the test."""
        thread = _CheckedThread(self, target, args, kwargs)
        self._threads.append(thread)
        return thread

    @contextlib.contextmanager
    def assertRaisesWithPredicateMatch(self, exception_type: Any, expected_err_re_or_predicate: Any) -> Iterator[Any]:
        """A block that must raise an exception of that type whose message matches, or that the predicate accepts."""
        predicate = expected_err_re_or_predicate
        if not callable(predicate):
            pattern = predicate

            def predicate(e: Any) -> Any:
                text = str(e.message) if isinstance(e, errors.OpError) else str(e)
                op = getattr(e, "op", None) if isinstance(e, errors.OpError) else None
                text += f"\nCaused by: {op.name}" if op is not None else ""
                return re.search(pattern, text)

        try:
            yield
        except BaseException as e:
            if not isinstance(e, exception_type) or not predicate(e):
                raise AssertionError(f"Exception of type {type(e)}: {e}") from e
            return
        self.fail(f"{getattr(exception_type, '__name__', exception_type)} not raised")

    def assertRaisesOpError(self, expected_err_re_or_predicate: Any) -> Any:
        """A block that must raise an OpError whose message matches."""
        return self.assertRaisesWithPredicateMatch(errors.OpError, expected_err_re_or_predicate)

    def assertProtoEquals(
        self, expected_message_maybe_ascii: Any, validate_message: Any, msg: str | None = None,
        relative_tolerance: float | None = None,
    ) -> None:  # fmt: skip
        """A protobuf equals another one, or one in text form."""
        expected = expected_message_maybe_ascii
        if isinstance(expected, (str, bytes)):
            from google.protobuf import text_format  # Start-up time: protobuf is slow to import.

            expected = type(validate_message)()
            text_format.Parse(expected_message_maybe_ascii, expected)
        self.assertIs(type(expected), type(validate_message), msg)
        if expected != validate_message:
            self.maxDiff = None
            self.assertMultiLineEqual(str(expected), str(validate_message), msg)

    def assertProtoEqualsVersion(
        self, expected: str, actual: Any, producer: int | None = None, min_consumer: int | None = None,
        msg: str | None = None,
    ) -> None:  # fmt: skip
        """As assertProtoEquals, for a GraphDef with the versions of this build."""
        producer = GRAPH_DEF_VERSION if producer is None else producer
        consumer = GRAPH_DEF_VERSION_MIN_CONSUMER if min_consumer is None else min_consumer
        versions = f"versions {{ producer: {producer} min_consumer: {consumer} }};"
        self.assertProtoEquals(f"{versions}\n{expected}", actual, msg)

    def assertDeviceEqual(self, device1: Any, device2: Any, msg: str | None = None) -> None:
        """Two device names (or None) mean the same device."""
        self.assertEqual(canonical(device1 or ""), canonical(device2 or ""), msg)

    def assertStartsWith(self, actual: str, expected_start: str, msg: str | None = None) -> None:
        """A text begins with another."""
        if not actual.startswith(expected_start):
            self.fail(f"{actual!r} does not start with {expected_start!r}. {msg or ''}")

    def assertEndsWith(self, actual: str, expected_end: str, msg: str | None = None) -> None:
        """A text ends with another."""
        if not actual.endswith(expected_end):
            self.fail(f"{actual!r} does not end with {expected_end!r}. {msg or ''}")

    def assertLen(self, container: Any, expected_len: int, msg: str | None = None) -> None:
        """A container has so many elements."""
        self.assertEqual(len(container), expected_len, msg)

    def assertEmpty(self, container: Any, msg: str | None = None) -> None:
        """A container has no elements."""
        self.assertEqual(len(container), 0, msg)

    def assertNotEmpty(self, container: Any, msg: str | None = None) -> None:
        """A container has elements."""
        self.assertNotEqual(len(container), 0, msg)

    def assertBetween(self, value: Any, minv: Any, maxv: Any, msg: str | None = None) -> None:
        """A value lies between two bounds, which are included."""
        self.assertTrue(minv <= value <= maxv, msg or f"{value!r} is not between {minv!r} and {maxv!r}")

    def assertContainsSubset(self, expected_subset: Any, actual_set: Any, msg: str | None = None) -> None:
        """Everything in the first is in the second."""
        missing = set(expected_subset) - set(actual_set)
        self.assertFalse(missing, msg or f"missing elements {missing}")

    def assertSameElements(self, expected_seq: Any, actual_seq: Any, msg: str | None = None) -> None:
        """Both hold the same elements, however often."""
        self.assertEqual(set(expected_seq), set(actual_seq), msg)

    def assertRaisesWithLiteralMatch(self, expected_exception: Any, expected_exception_message: str) -> Any:
        """A block that must raise an exception with exactly this text."""
        return self.assertRaisesRegex(expected_exception, f"^{re.escape(expected_exception_message)}$")

    def assertItemsEqual(self, first: Any, second: Any, msg: str | None = None) -> None:
        """Both hold the same elements equally often; the old name of assertCountEqual."""
        self.assertCountEqual(first, second, msg)

    def assertRaisesRegexp(self, *args: Any, **kwargs: Any) -> Any:
        """The old name of assertRaisesRegex."""
        return self.assertRaisesRegex(*args, **kwargs)

    def assertRegexpMatches(self, *args: Any, **kwargs: Any) -> None:
        """The old name of assertRegex."""
        self.assertRegex(*args, **kwargs)

    def assertEquals(self, *args: Any, **kwargs: Any) -> None:
        """The old name of assertEqual."""
        self.assertEqual(*args, **kwargs)


def main(argv: list[str] | None = None) -> None:
    """Runs the tests of the main module, after parsing the flags that are defined."""
    arguments = flags.FLAGS(sys.argv if argv is None else argv, known_only=True)
    unittest.main(module="__main__", argv=arguments)
