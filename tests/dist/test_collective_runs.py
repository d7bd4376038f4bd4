"""Collective ops that fail, are cancelled, repeat or wait: nothing hangs, and the next run is right."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.dist.own_sessions import each_on_its_own
from thalweg.dist.group_agreement import Formed
from thalweg.dist.open_groups import OpenGroups


@pytest.fixture(params=["grpc", "thalweg+tcp"])
def workers(request: pytest.FixtureRequest) -> Iterator[list[tf.train.Server]]:
    found, _ = tf.test.create_local_cluster(2, 0, protocol=request.param)
    yield found
    for server in found:
        server.stop()


@pytest.mark.parametrize("count", [0, 1, 3, 16384, 16385, 100003])
def test_sessions_of_their_own_get_the_same_bits(workers: list[tf.train.Server], count: int) -> None:
    given = [np.random.default_rng(i).standard_normal(count) for i in range(2)]
    for dtype in (np.float64, np.float32, np.float16):
        values = [each.astype(dtype) for each in given]
        found = each_on_its_own(workers, lambda i, v=values: tf.collective.all_reduce(tf.constant(v[i]), 2, 1, 1), 3)
        want = (values[0] + values[1]).tobytes()
        assert [each.tobytes() for each in found] == [want, want]


def test_members_that_disagree_all_get_the_reason(workers: list[tf.train.Server]) -> None:
    def shapes(index: int) -> Any:
        return tf.collective.all_reduce(tf.zeros([20000 + index]), 2, 1, 1)

    def types(index: int) -> Any:
        return tf.collective.all_reduce(tf.zeros([2], [tf.float32, tf.int32][index]), 2, 1, 2)

    def merges(index: int) -> Any:
        return tf.collective.all_reduce(tf.zeros([2]), 2, 1, 3, merge_op=["Add", "Max"][index])

    def kinds(index: int) -> Any:
        function = [tf.collective.all_reduce, tf.collective.all_gather][index]
        return function(tf.zeros([2]), 2, 1, 4)

    for build, text in (
        (shapes, "the shape is"),
        (types, "the type is"),
        (merges, "merge_op"),
        (kinds, "operation is"),
    ):
        for error in each_on_its_own(workers, build):
            assert isinstance(error, tf.errors.InvalidArgumentError), build
            assert text in error.message
            assert "at rank 0" in error.message
            assert "at rank 1" in error.message
    # The group is as it was.
    found = each_on_its_own(workers, lambda i: tf.collective.all_reduce(tf.constant(i + 1.0), 2, 1, 5))
    assert found == [3.0, 3.0]


def test_members_that_expect_different_group_sizes_all_get_the_reason(workers: list[tf.train.Server]) -> None:
    for error in each_on_its_own(workers, lambda i: tf.collective.all_reduce(tf.constant(1.0), 2 + i, 1, 1)):
        assert isinstance(error, tf.errors.InvalidArgumentError)
        assert "expects 2" in error.message
        assert "expects 3" in error.message
    assert each_on_its_own(workers, lambda i: tf.collective.all_reduce(tf.constant(1.0), 2, 1, 1)) == [2.0, 2.0]
    # Once the group is formed, too.
    for error in each_on_its_own(workers, lambda i: tf.collective.all_reduce(tf.constant(1.0), 2 + i, 1, 1)):
        assert isinstance(error, (tf.errors.InvalidArgumentError, tf.errors.DeadlineExceededError))
        assert "group_size 3" in error.message


def test_a_member_between_two_calls_learns_that_another_expects_a_different_group_size(
    workers: list[tf.train.Server],
) -> None:
    def alone(index: int, size: int) -> float:
        with tf.Graph().as_default(), tf.device(f"/job:worker/task:{index}"):
            fetched = tf.collective.all_reduce(tf.constant(1.0), size, 1, 1)
            with tf.Session(workers[index].target) as sess:
                return float(sess.run(fetched))

    assert each_on_its_own(workers, lambda i: tf.collective.all_reduce(tf.constant(1.0), 2, 1, 1)) == [2.0, 2.0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="group_size 3"):
        alone(1, 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="group_size 3"):
        alone(0, 2)
    assert each_on_its_own(workers, lambda i: tf.collective.all_reduce(tf.constant(1.0), 2, 1, 1)) == [2.0, 2.0]


def test_the_members_of_a_group_are_known_when_its_first_run_has_ended(
    workers: list[tf.train.Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(OpenGroups, "begun", lambda self, formed: go_on.wait(60))
    assert each_on_its_own(workers, lambda i: tf.collective.all_reduce(tf.constant(1.0), 2, 1, 1)) == [2.0, 2.0]
    for worker in workers:
        assert [each.task[-1] for each in worker.collective_groups.open_groups.members(1)] == ["0", "1"]
    go_on.set()


def test_a_departure_is_noted_after_all_that_the_member_has_sent() -> None:
    noted: list[str] = []
    native = SimpleNamespace(generation=lambda group: 5, left=lambda group, task, *rest: noted.append(task))
    groups = OpenGroups("a", 1, native, *[None] * 4, is_closed=lambda: False)  # type: ignore[arg-type]
    leaver, request = SimpleNamespace(task="b", incarnation=2), SimpleNamespace(group=1, last_generation=5)
    thread = threading.Thread(target=groups.leave_group, args=(leaver, request))
    thread.start()
    thread.join(0.2)
    assert noted == []  # The core still delivers early messages.
    groups.begun(Formed(1, 5, ()))
    thread.join()
    assert noted == ["b"]


def test_a_member_that_is_alone_times_out_and_the_group_works_afterwards(workers: list[tf.train.Server]) -> None:
    def build(index: int) -> Any:
        return tf.collective.all_reduce(tf.constant(index + 1.0), 2, 1, 1)

    with tf.Graph().as_default():
        with tf.device("/job:worker/task:0"):
            alone = tf.collective.all_reduce(tf.constant(1.0), 2, 1, 1, timeout=0.2)
            cancelled = tf.collective.all_reduce(tf.constant(1.0), 2, 1, 1)
        for _ in range(2):  # before the group is formed, and afterwards
            with tf.Session(workers[0].target) as sess:
                with pytest.raises(tf.errors.DeadlineExceededError, match="timeout_seconds"):
                    sess.run(alone)
                with pytest.raises(tf.errors.DeadlineExceededError):
                    sess.run(cancelled, options=tf.RunOptions(timeout_in_ms=200))
            assert each_on_its_own(workers, build) == [3.0, 3.0]


def test_a_step_that_fails_elsewhere_leaves_the_group_usable(workers: list[tf.train.Server]) -> None:
    x = tf.placeholder(tf.int32, [])
    members = []
    for index in range(2):
        with tf.device(f"/job:worker/task:{index}"):
            value = tf.gather([1.0, 2.0], x if index else tf.constant(0))
            members.append(tf.collective.all_reduce(value, 2, 1, 1))
    with tf.Session(workers[0].target) as sess:
        for _ in range(5):
            assert sess.run(members, {x: 1}) == [3.0, 3.0]
            with pytest.raises(tf.errors.InvalidArgumentError, match="indices"):
                sess.run(members, {x: 9})


def test_collectives_in_the_iterations_of_a_loop_meet_their_own(workers: list[tf.train.Server]) -> None:
    def build(index: int) -> Any:
        def body(i: Any, total: Any) -> Any:
            value = tf.cast(i, tf.float32) * (index + 1.0)
            return i + 1, total + tf.collective.all_reduce(value, 2, 1, 1)

        return tf.while_loop(lambda i, total: i < 20, body, [0, 0.0], parallel_iterations=10)[1]

    assert each_on_its_own(workers, build, 2) == [570.0, 570.0]


def test_many_collectives_at_once_meet_by_instance(workers: list[tf.train.Server]) -> None:
    def build(index: int) -> Any:
        order = range(50) if index else reversed(range(50))
        made = {k: tf.collective.all_reduce(tf.fill([k * 700], float(k + index)), 2, 1, k) for k in order}
        return [made[k] for k in range(50)]

    for values in each_on_its_own(workers, build, 3):
        for k, value in enumerate(values):
            np.testing.assert_array_equal(value, np.full([k * 700], 2.0 * k + 1))


def test_a_stopped_server_ends_the_runs_of_its_peers() -> None:
    workers, _ = tf.test.create_local_cluster(2, 0)
    assert each_on_its_own(workers, lambda i: tf.collective.all_reduce(tf.constant(1.0), 2, 1, 1)) == [2.0, 2.0]
    with tf.device("/job:worker/task:0"):
        waits = tf.collective.all_reduce(tf.constant(1.0), 2, 1, 1)
    with tf.Session(workers[0].target) as sess:
        timer = threading.Timer(0.3, workers[1].stop)
        timer.start()
        with pytest.raises(tf.errors.UnavailableError, match=r"(?s)rank 1.*/job:worker/replica:0/task:1"):
            sess.run(waits)
        timer.join()
    workers[0].stop()


def test_gradients_of_collectives_are_collectives() -> None:
    def members(build: Callable[[Any], Any]) -> list[Any]:
        given, found = [], []
        for index in range(2):
            with tf.device(f"/cpu:{index}"):
                given.append(tf.constant([[1.0], [2.0]]) * (index + 1))
                found.append(tf.gradients(build(given[-1]), given[-1], grad_ys=None)[0])
        with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as sess:
            return [value.ravel().tolist() for value in sess.run(found)]

    assert members(lambda x: tf.collective.all_reduce(x, 2, 1, 1) ** 2) == [[12.0, 24.0]] * 2
    assert members(lambda x: tf.collective.all_reduce(x, 2, 1, 2, final_op="Div") ** 2) == [[3.0, 6.0]] * 2
    assert members(lambda x: tf.collective.all_gather(x, 2, 1, 3) ** 2) == [[4.0, 8.0], [8.0, 16.0]]
    assert members(lambda x: tf.collective.reduce_scatter(x, 2, 1, 4) ** 2) == [[6.0, 12.0]] * 2
    with pytest.raises(NotImplementedError, match="Only sums"):
        members(lambda x: tf.collective.all_reduce(x, 2, 1, 5, merge_op="Max"))
