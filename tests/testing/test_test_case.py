"""tf.test itself: that its assertions fail when they should."""

from __future__ import annotations

import unittest
from typing import Any

import numpy as np
import pytest

import thalweg as tf


class _Case(tf.test.TestCase):
    def runTest(self) -> None:
        """Does nothing: the tests below call the methods."""


@pytest.fixture
def case() -> Any:
    test = _Case()
    test.setUp()
    yield test
    test.tearDown()


_ASSERTIONS: list[tuple[str, tuple[Any, ...], tuple[Any, ...]]] = [
    ("assertAllEqual", ([1, 2], np.array([1, 2])), ([1, 2], [1, 3])),
    ("assertAllEqual", ([np.nan], [np.nan]), ([1, 2], [[1, 2]])),
    ("assertAllEqual", (["a", "b"], [b"a", b"b"]), (["a"], [b"b"])),
    ("assertNotAllEqual", ([1], [2]), ([1], [1])),
    ("assertAllClose", ([1.0], [1.0 + 1e-7]), ([1.0], [1.1])),
    ("assertAllClose", ({"a": [1.0]}, {"a": [1.0]}), ({"a": 1.0}, {"b": 1.0})),
    ("assertAllClose", ([np.zeros(2), np.zeros(3)], [np.zeros(2), np.zeros(3)]), ([np.zeros(2)], [np.ones(2)])),
    ("assertAllCloseAccordingToType", (np.float16([1.0]), [1.0005]), (np.float32([1.0]), [1.0005])),
    ("assertNotAllClose", ([1.0], [1.1]), ([1.0], [1.0])),
    ("assertAllGreater", ([2, 3], 1), ([1, 2], 1)),
    ("assertAllLess", ([2, 3], 4), ([4], 4)),
    ("assertAllGreaterEqual", ([1, 2], 1), ([0], 1)),
    ("assertAllLessEqual", ([1], 1), ([2], 1)),
    ("assertAllInRange", ([0.0, 1.0], 0.0, 1.0), ([0.0], 0.0, 1.0, True)),
    ("assertAllInSet", ([1, 2], {1, 2}), ([3], {1, 2})),
    ("assertNear", (1.0, 1.05, 0.1), (1.0, 1.2, 0.1)),
    ("assertArrayNear", ([1.0], [1.05], 0.1), ([1.0], [1.2], 0.1)),
    ("assertNDArrayNear", ([1.0], [1.05], 0.1), ([1.0], [1.2], 0.1)),
    ("assertStartsWith", ("abc", "ab"), ("abc", "b")),
    ("assertEndsWith", ("abc", "bc"), ("abc", "b")),
    ("assertLen", ([1], 1), ([1], 2)),
    ("assertEmpty", ([],), ([1],)),
    ("assertNotEmpty", ([1],), ([],)),
    ("assertBetween", (1, 0, 2), (3, 0, 2)),
    ("assertItemsEqual", ([1, 2], [2, 1]), ([1], [1, 1])),
    ("assertContainsSubset", ([1], [1, 2]), ([3], [1, 2])),
    ("assertDeviceEqual", ("/cpu:0", "/device:CPU:0"), ("/cpu:0", "/cpu:1")),
    ("assertDTypeEqual", (np.float32(1), tf.float32), (np.float32(1), tf.int32)),
    ("assertShapeEqual", (np.zeros((2, 3)), np.ones((2, 3))), (np.zeros(2), np.zeros(3))),
]


@pytest.mark.parametrize(("name", "good", "bad"), _ASSERTIONS, ids=[f"{a[0]}-{i}" for i, a in enumerate(_ASSERTIONS)])
def test_assertions_pass_and_fail(case: Any, name: str, good: Any, bad: Any) -> None:
    getattr(case, name)(*good)
    with pytest.raises(AssertionError):
        getattr(case, name)(*bad)


def test_tensors_are_evaluated(case: Any) -> None:
    case.assertAllEqual(tf.constant([1, 2]) + 1, [2, 3])
    with case.session() as session:
        assert session.run(tf.constant(1)) == 1
        assert tf.get_default_session() is session
    with case.cached_session() as one, case.test_session() as two:
        assert one is two


def test_op_errors_match_by_message_or_predicate(case: Any) -> None:
    with case.cached_session(), case.assertRaisesOpError("NaN values"):
        tf.check_numerics(tf.constant(np.nan), "x").eval()
    with case.assertRaisesWithPredicateMatch(ValueError, lambda e: "b" in str(e)):
        raise ValueError("abc")
    with pytest.raises(AssertionError, match="not raised"), case.assertRaisesOpError("x"):
        pass
    with pytest.raises(AssertionError, match="abc"), case.assertRaisesWithPredicateMatch(ValueError, "z"):
        raise ValueError("abc")


def test_threads_hand_over_their_failures(case: Any) -> None:
    def fail() -> None:
        raise KeyError("inside")

    thread = case.checkedThread(target=fail)
    thread.start()
    with pytest.raises(AssertionError, match="inside"):
        thread.join()


def test_each_test_has_a_fresh_graph_and_the_same_seed() -> None:
    class Both(tf.test.TestCase):
        drawn: list[Any] = []  # noqa: RUF012 (shared by the two runs)

        def test_draw(self) -> None:
            with self.session() as session:
                self.drawn.append(session.run(tf.random_normal([3])))

        def test_draw_again(self) -> None:
            self.test_draw()

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Both).run(result)
    assert result.testsRun == 2 and result.wasSuccessful()
    np.testing.assert_array_equal(Both.drawn[0], Both.drawn[1])


def test_protobufs_are_compared_with_text(case: Any) -> None:
    node = tf.NodeDef(name="a", op="NoOp")
    case.assertProtoEquals("name: 'a' op: 'NoOp'", node)
    with pytest.raises(AssertionError):
        case.assertProtoEquals("name: 'b'", node)
    one, two = tf.GraphDef(node=[node, tf.NodeDef(name="b")]), tf.GraphDef(node=[tf.NodeDef(name="b"), node])
    tf.test.assert_equal_graph_def(one, two)
    with pytest.raises(AssertionError, match="missing"):
        tf.test.assert_equal_graph_def(tf.GraphDef(node=[node]), two)
    with pytest.raises(TypeError, match="GraphDef"):
        tf.test.assert_equal_graph_def(node, two)


def test_gradients_are_checked_against_differences(case: Any) -> None:
    with case.session():
        x = tf.constant([[1.0, 2.0]], tf.float64)
        symbolic, numeric = tf.test.compute_gradient(x, [1, 2], tf.square(x), [1, 2], np.array([[1.0, 2.0]]))
        np.testing.assert_allclose(symbolic, [[2, 0], [0, 4]])
        np.testing.assert_allclose(numeric, symbolic, atol=1e-6)
        assert tf.test.compute_gradient_error([x], [[1, 2]], tf.tanh(x), [1, 2]) < 1e-6
        z = tf.constant([1 + 2j], tf.complex128)
        assert tf.test.compute_gradient_error(z, [1], z * z, [1]) < 1e-6
        assert tf.test.compute_gradient_error(x, [1, 2], tf.stop_gradient(x), [1, 2]) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="default session"):
        tf.test.compute_gradient(x, [1, 2], x, [1, 2])


def test_benchmarks_time_a_step_and_queries_describe_the_build(tmp_path: Any) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        result = tf.test.Benchmark().run_op_benchmark(session, tf.constant(1.0) + 1.0, min_iters=3, mbs=1.0)
    assert result["iters"] == 3 and result["wall_time"] > 0 and result["throughput"] > 0
    assert not tf.test.is_gpu_available() and not tf.test.is_built_with_cuda() and tf.test.gpu_device_name() == ""
    assert tf.test.mock.patch is not None
