"""Collective operations over several hosts with several members each: the documented order of summation, and faults.

Hosts are network namespaces where the test may make them; otherwise tasks of one process are told that they have hosts.
"""

from __future__ import annotations

import contextlib
import functools
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.dist.all_reduce_process import values
from tests.dist.network_hosts import Hosts, hosts_if_permitted
from tests.dist.own_sessions import each_on_its_own
from tests.dist.processes import ROOT, ended_at_last, environment_of
from thalweg.dist.group_agreement import GroupAgreement, Member, member_of
from thalweg.dist.hosts import LONGEST_HOST, host_identity
from thalweg.dist.messages import messages
from thalweg.dist.ports import free_ports

LAYOUTS = ["aabb", "aaab", "abcc", "abab"]
# Bytes of float32: whole, in chunks, in lanes.
COUNTS = [0, 1, 7, 16385, 65537, 300001]


def in_order(layout: Sequence[str], given: Sequence[Any], merge: Callable[[Any, Any], Any] = np.add) -> Any:
    """Merges within each host in the order of ranks, then over the hosts in the order of their first ranks."""
    hosts: dict[str, list[Any]] = {}
    for host, each in zip(layout, given, strict=True):
        hosts.setdefault(host, []).append(each)
    return functools.reduce(merge, [functools.reduce(merge, members) for members in hosts.values()])


@contextlib.contextmanager
def workers_on(layout: Sequence[str], protocol: str = "grpc", devices: int = 1) -> Iterator[list[tf.train.Server]]:
    """Tasks that take the letters of the layout for their hosts."""
    config = tf.ConfigProto(device_count={"CPU": devices})
    workers, _ = tf.test.create_local_cluster(len(layout), 0, protocol, worker_config=config)
    for worker, host in zip(workers, layout, strict=True):
        worker._task.peers.host = host
    try:
        yield workers
    finally:
        for worker in workers:
            worker.stop()


@pytest.mark.parametrize("protocol", ["grpc", "thalweg+tcp"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_sums_have_the_bits_of_the_order_of_hosts(layout: str, protocol: str) -> None:
    with workers_on(layout, protocol) as workers:
        for instance, count in enumerate(COUNTS):
            given = [values(rank, count) for rank in range(len(layout))]

            def build(i: int, given: Any = given, instance: int = instance) -> Any:
                return tf.collective.all_reduce(tf.constant(given[i]), 4, 1, instance)

            for _ in range(2):
                found = each_on_its_own(workers, build, 2)
                assert [each.tobytes() for each in found] == [in_order(layout, given).tobytes()] * 4, count


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int32, tf.uint8])
def test_types_and_merges_over_hosts(dtype: Any) -> None:
    layout = "abba"
    numbers = [np.random.default_rng(i).integers(1, 50, 400001) for i in range(4)]
    given = [(each / 7 if dtype.is_floating else each).astype(dtype.as_numpy_dtype) for each in numbers]
    with workers_on(layout) as workers:
        for instance, (name, merge) in enumerate({"Add": np.add, "Mul": np.multiply, "Min": np.minimum}.items()):
            want = in_order(layout, given, merge).tobytes()

            def build(i: int, name: str = name, instance: int = instance) -> Any:
                return tf.collective.all_reduce(tf.constant(given[i]), 4, 1, instance, merge_op=name)

            assert [each.tobytes() for each in each_on_its_own(workers, build)] == [want] * 4, name


def test_means_gathers_broadcasts_and_scattered_sums_over_hosts() -> None:
    layout = "abab"
    given = [values(rank, 400000).reshape(8, 50000) for rank in range(4)]
    total = in_order(layout, given)

    def build(i: int) -> Any:
        mine = tf.constant(given[i])
        return [
            tf.collective.all_reduce(mine, 4, 1, 1, final_op="Div"),
            tf.collective.reduce_scatter(mine, 4, 1, 2),
            tf.collective.all_gather(mine[: i + 1], 4, 1, 3),
            tf.collective.broadcast(mine, 2, 4, 1, 4),
            tf.collective.all_gather(tf.fill([1], f"rank {i}"), 4, 1, 5),
            tf.collective.all_gather(tf.zeros([0, 3]), 4, 1, 6),
        ]

    with workers_on(layout) as workers:
        for rank, found in enumerate(each_on_its_own(workers, build, 3)):
            mean, scattered, gathered, sent, texts, none = found
            assert mean.tobytes() == (total / np.float32(4)).tobytes()
            assert scattered.tobytes() == total[2 * rank : 2 * rank + 2].tobytes()
            assert gathered.tobytes() == np.concatenate([given[i][: i + 1] for i in range(4)]).tobytes()
            assert sent.tobytes() == given[2].tobytes()
            assert texts.tolist() == [f"rank {i}".encode() for i in range(4)]
            assert none.shape == (0, 3)


def test_several_members_in_each_process() -> None:
    given = [values(rank, 300001) for rank in range(6)]
    members = []
    for rank in range(6):
        with tf.device(f"/job:worker/task:{rank // 2}/cpu:{rank % 2}"):
            mine = tf.constant(given[rank])
            members += [tf.collective.all_reduce(mine, 6, 1, 1), tf.collective.all_gather(mine, 6, 1, 2)]
    with workers_on("abb", devices=2) as workers, tf.Session(workers[0].target) as sess:
        for _ in range(3):
            found = sess.run(members)
            for reduced, gathered in zip(found[::2], found[1::2], strict=True):
                assert reduced.tobytes() == in_order("aabbbb", given).tobytes()
                assert gathered.tobytes() == np.concatenate(given).tobytes()


def test_members_on_several_hosts_that_disagree_all_get_the_reason() -> None:
    with workers_on("aabb") as workers:
        for instance, other in enumerate((300002, 20000, 3)):

            def build(i: int, other: int = other, instance: int = instance) -> Any:
                return tf.collective.all_reduce(tf.zeros([other if i == 2 else 300001]), 4, 1, instance)

            for error in each_on_its_own(workers, build):
                assert isinstance(error, tf.errors.InvalidArgumentError)
                assert "[300001] at rank 0" in error.message
                assert f"[{other}] at rank 2" in error.message
        found = each_on_its_own(workers, lambda i: tf.collective.all_reduce(tf.fill([300001], i + 1.0), 4, 1, 5))
        assert [each[-1] for each in found] == [10.0] * 4


def test_a_cancelled_run_over_hosts_ends_everywhere_and_the_next_one_is_right() -> None:
    def build(i: int) -> Any:
        return tf.collective.all_reduce(tf.fill([300001], i + 1.0), 4, 1, 1)

    with workers_on("aabb") as workers:
        assert [each[-1] for each in each_on_its_own(workers, build)] == [10.0] * 4
        with tf.Graph().as_default():
            for index in range(4):
                with tf.device(f"/job:worker/task:{index}"):
                    alone = build(index)
                with tf.Session(workers[index].target) as sess:
                    with pytest.raises(tf.errors.DeadlineExceededError):
                        sess.run(alone, options=tf.RunOptions(timeout_in_ms=100))
                assert [each[-1] for each in each_on_its_own(workers, build)] == [10.0] * 4


@pytest.mark.parametrize("lost", range(4))
def test_a_member_that_stops_ends_the_runs_on_all_hosts(lost: int) -> None:
    with workers_on("aabb") as workers:
        left = [index for index in range(4) if index != lost]
        each_on_its_own(workers, lambda i: tf.collective.barrier(4, 1, 1))

        def build(i: int) -> Any:
            return tf.collective.all_reduce(tf.zeros([1 << 20]), 4, 1, 2)

        timer = threading.Timer(0.3, workers[lost].stop)
        timer.start()
        found = each_on_its_own([workers[index] for index in left], lambda i: build(left[i]), runs=1, tasks=left)
        timer.join()
        for error in found:
            assert isinstance(error, tf.errors.UnavailableError)
            assert f"rank {lost}" in error.message


# What members say of their hosts.


@pytest.mark.parametrize("protocol", ["grpc", "thalweg+tcp"])
def test_processes_without_shared_memory_have_hosts_of_their_own(protocol: str) -> None:
    workers, _ = tf.test.create_local_cluster(2, 0, protocol)
    found = [worker.collective_groups.open_groups.member("device:CPU:0").host for worker in workers]
    for worker in workers:
        worker.stop()
    assert (found[0] == found[1] == host_identity()) == (protocol == "grpc")
    assert all(0 < len(host) <= LONGEST_HOST for host in found)


def test_devices_of_one_process_share_a_host_where_processes_share_no_memory() -> None:
    given = [values(rank, 300001) for rank in range(4)]
    members = []
    for rank in range(4):
        with tf.device(f"/job:worker/task:{rank // 2}/cpu:{rank % 2}"):
            members.append(tf.collective.all_reduce(tf.constant(given[rank]), 4, 1, 1))
    config = tf.ConfigProto(device_count={"CPU": 2})
    workers, _ = tf.test.create_local_cluster(2, 0, "thalweg+tcp", worker_config=config)
    with tf.Session(workers[0].target) as sess:
        found = sess.run(members)
    for worker in workers:
        worker.stop()
    assert [each.tobytes() for each in found] == [in_order("aabb", given).tobytes()] * 4


def test_hosts_are_part_of_the_list_that_all_members_get() -> None:
    agreement = GroupAgreement(lambda: 1)
    asked = [Member(f"/job:w/replica:0/task:{i}", "device:CPU:0", 1, "x", host) for i, host in enumerate("ab")]
    assert agreement.join(1, 2, asked[1]) == []
    [formed] = agreement.join(1, 2, asked[0])
    sent = messages()["GroupFormed"](generation=1, member=[each._asdict() for each in formed.members])
    received = messages()["GroupFormed"].FromString(sent.SerializeToString())
    assert [member_of(each) for each in received.member] == asked


def test_a_member_with_an_endless_host_is_refused_and_the_group_is_formed_without_it() -> None:
    with workers_on(["a", "b" * (LONGEST_HOST + 1)]) as workers:
        with tf.Graph().as_default(), tf.device("/job:worker/task:1"):
            fetched = tf.collective.all_reduce(tf.constant(1.0), 2, 1, 1)
            with tf.Session(workers[1].target) as sess:
                with pytest.raises(tf.errors.InvalidArgumentError, match="a text of 65 characters"):
                    sess.run(fetched)
        workers[1]._task.peers.host = "b"
        assert each_on_its_own(workers, lambda i: tf.collective.all_reduce(tf.constant(1.0), 2, 1, 1)) == [2.0, 2.0]


def test_a_member_that_lies_about_its_host_changes_the_order_for_all_and_nothing_else() -> None:
    given = [values(rank, 300001) for rank in range(4)]
    # All share memory; rank 3 says that it shares the host of rank 0, or one that nobody has.
    for layout in ("aaba", "aabz"):
        with workers_on(layout) as workers:
            found = each_on_its_own(workers, lambda i: tf.collective.all_reduce(tf.constant(given[i]), 4, 1, 1), 2)
            assert [each.tobytes() for each in found] == [in_order(layout, given).tobytes()] * 4


# Processes on hosts of their own.


@contextlib.contextmanager
def started(layout: str, what: str, hosts: Hosts | None) -> Iterator[list[subprocess.Popen[str]]]:
    """Starts the members of a group; without hosts they are told theirs, and share memory all the same."""
    order = sorted(set(layout), key=layout.index)
    places = [order.index(host) for host in layout]
    ports = free_ports(len(layout))
    addresses = [
        f"{'localhost' if hosts is None else hosts.addresses[place]}:{port}"
        for place, port in zip(places, ports, strict=True)
    ]
    members = []
    for index, place in enumerate(places):
        prefix = [] if hosts is None else ["ip", "netns", "exec", hosts.names[place]]
        told = [layout[index]] if hosts is None else []
        config = json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})
        members.append(
            subprocess.Popen(
                [*prefix, sys.executable, "-m", "tests.dist.all_reduce_process", what, *told], text=True, cwd=ROOT,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                env=environment_of(OMP_NUM_THREADS="1", TF_CONFIG=config),
            )
        )  # fmt: skip
    with ended_at_last(members):
        yield members


@pytest.fixture(params=["namespaces", "told"])
def hosts(request: pytest.FixtureRequest) -> Iterator[Hosts | None]:
    if request.param == "told":
        yield None
        return
    found = hosts_if_permitted(3)
    if found is None:
        pytest.skip("network namespaces cannot be made")
    with found:
        yield found


@pytest.mark.processes
@pytest.mark.timeout(300)  # Eight processes that start on a busy machine take a minute.
@pytest.mark.parametrize("layout", ["aabb", "abcc"])
def test_processes_on_hosts_get_the_bits_of_the_order_of_hosts(layout: str, hosts: Hosts | None) -> None:
    with started(layout, "sums", hosts) as members:
        found = [json.loads(member.communicate(timeout=200)[0]) for member in members]
    for count in (0, 1, 7, 300001):
        given = [values(rank, count) for rank in range(4)]
        total = in_order(layout, given)
        want = [total, total / np.float32(4), np.concatenate(given), given[0]]
        for member in found:
            assert member[str(count)] == [each.tobytes().hex() for each in want], (count, member["rank"])


@pytest.mark.processes
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("layout", "lost"), [("aabb", 0), ("aaab", 3)])
def test_members_on_hosts_go_on_without_a_lost_one(layout: str, lost: int, hosts: Hosts | None) -> None:
    with started(layout, "survivors", hosts) as members:
        for member in members:
            assert member.stdout is not None
            assert member.stdout.readline() == "ready\n"
        members[lost].send_signal(signal.SIGKILL)
        left = [member for rank, member in enumerate(members) if rank != lost]
        found = [json.loads(member.communicate(timeout=200)[0]) for member in left]
    assert [each["rank"] for each in found] == [0, 1, 2]
    assert len({each["before"] for each in found}) == 1
    for each in found:
        assert each["added"] == 9.0
        assert f"rank {lost}" in each["message"]
