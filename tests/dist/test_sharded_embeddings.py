"""Embeddings sharded over parameter servers: the bits of one process, one message each way, and no table in a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import thalweg as tf
from tests.dist.lookups import FORMS, IDS, OPTIMIZERS, ROWS, WIDTH, sparse, table
from tests.dist.processes import Processes

pytestmark = pytest.mark.processes

PS = ("/job:ps/replica:0/task:0", "/job:ps/replica:0/task:1")


class Cluster(NamedTuple):
    """Two PS tasks in processes of their own, and a worker in this one, whose connections can be looked at."""

    processes: Processes
    worker: Any

    def place(self) -> Any:
        return tf.device(
            tf.train.replica_device_setter(cluster=self.processes.jobs, worker_device="/job:worker/task:0")
        )

    def session(self) -> Any:
        tf.Session.reset(self.worker.target)
        return tf.Session(self.worker.target)

    def traffic(self, step: Callable[[], Any]) -> dict[str, dict[str, int]]:
        """What a step, which has run before, exchanges with each PS task."""
        before = self.worker.traffic()
        step()
        after = self.worker.traffic()
        return {task: {name: after[task][name] - before[task][name] for name in after[task]} for task in PS}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Processes(ps=2, worker=1, own=("worker",)) as processes:
        worker = tf.train.Server(processes.jobs, "worker", 0)
        with tf.Graph().as_default(), tf.Session(worker.target) as session:  # Its connections stay.
            for task in PS:
                with tf.device(task):
                    session.run(tf.constant(1) + tf.placeholder_with_default(1, []))
        yield Cluster(processes, worker)
        worker.stop()


def _trained(session: Any, build: Callable[[], tuple[Any, Any]], steps: int = 2) -> list[Any]:
    """The values of a look-up in some training steps, and all variables after them."""
    value, train = build()
    session.run(tf.global_variables_initializer())
    found = [session.run([value, train])[0] for _ in range(steps)]
    return [*found, *session.run(tf.global_variables())]


def _same_in_cluster(cluster: Cluster, build: Callable[[], tuple[Any, Any]], steps: int = 2) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        expected = _trained(session, build, steps)
    with tf.Graph().as_default(), cluster.session() as session, cluster.place():
        got = _trained(session, build, steps)
    assert len(got) == len(expected)
    for i, (value, want) in enumerate(zip(got, expected, strict=True)):
        assert value.tobytes() == want.tobytes(), f"value {i}"


@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize("form", FORMS)
def test_values_and_updates_have_the_bits_of_one_process(cluster: Cluster, form: str, strategy: str) -> None:
    def build() -> tuple[Any, Any]:
        value = FORMS[form](table("t", 3, strategy=strategy), strategy)
        return value, tf.train.AdagradOptimizer(0.5).minimize(tf.reduce_sum(value * value))

    _same_in_cluster(cluster, build)


@pytest.mark.parametrize("form", ["lookup", "weighted_mean", "sampled_softmax"])
def test_a_whole_variable_of_a_task_is_looked_up_with_the_same_bits(cluster: Cluster, form: str) -> None:
    def build() -> tuple[Any, Any]:
        value = FORMS[form](table("t", 1), "div")
        return value, tf.train.AdagradOptimizer(0.5).minimize(tf.reduce_sum(value * value))

    _same_in_cluster(cluster, build)


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("form", ["lookup", "mean", "sampled_softmax"])
def test_gradients_may_be_placed_beside_their_operations(cluster: Cluster, form: str, shards: int) -> None:
    def build() -> tuple[Any, Any]:
        value = FORMS[form](table("t", shards), "div")
        loss = tf.reduce_sum(value * value)
        return value, tf.train.AdagradOptimizer(0.5).minimize(loss, colocate_gradients_with_ops=True)

    _same_in_cluster(cluster, build)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimizer_has_the_bits_of_one_process(cluster: Cluster, optimizer: str) -> None:
    def build() -> tuple[Any, Any]:
        weights = table("t", 2)
        value = FORMS["lookup"](weights, "div")
        again = FORMS["weighted_mean"](weights, "div")  # two look-ups of one variable: their gradients are added
        return value, OPTIMIZERS[optimizer]().minimize(tf.reduce_sum(value * value) + tf.reduce_sum(again))

    _same_in_cluster(cluster, build, steps=3)


def test_feature_columns_over_partitioned_variables_have_the_bits_of_one_process(cluster: Cluster) -> None:
    def build() -> tuple[Any, Any]:
        features = {f"f{k}": sparse(tf.constant((IDS * (k + 3)) % 1000)) for k in range(5)}
        columns = [tf.feature_column.categorical_column_with_identity(name, 1000) for name in features]
        tf.set_random_seed(3)
        with tf.variable_scope("model", partitioner=tf.fixed_size_partitioner(2)):
            deep = tf.feature_column.input_layer(features, [tf.feature_column.embedding_column(c, 4) for c in columns])
            shared = tf.feature_column.input_layer(features, tf.feature_column.shared_embedding_columns(columns[:2], 4))
            wide = tf.feature_column.linear_model(features, columns)
        value = tf.concat([deep, shared, wide], 1)
        return value, tf.train.FtrlOptimizer(0.1).minimize(tf.reduce_sum(value * value))

    _same_in_cluster(cluster, build)


def _model(features: int, rows: int, optimizer: Any) -> tuple[Any, Any, Any]:
    """Some features with a sharded embedding each; ids, the sum of all, and a training step."""
    ids = tf.placeholder(tf.int64, [features, None])
    found = [
        tf.nn.embedding_lookup(table(f"t{k}", 2, rows), ids[k], "div") if k % 2 else
        tf.nn.embedding_lookup_sparse(table(f"t{k}", 2, rows), sparse(ids[k][:10]), None, "div", combiner="sum")
        for k in range(features)
    ]  # fmt: skip
    total = tf.add_n([tf.reduce_sum(tf.square(each)) for each in found])
    return ids, total, optimizer.minimize(total)


@pytest.mark.parametrize("features", [1, 6])
def test_a_step_exchanges_one_message_each_way_with_each_task(cluster: Cluster, features: int) -> None:
    with cluster.place():
        ids, total, train = _model(features, 1000, tf.train.AdagradOptimizer(0.5))
    value = np.arange(features * 12).reshape(features, 12) * 13 % 1000
    with cluster.session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(2):
            session.run(total, {ids: value})
            session.run(train, {ids: value})
        for task, counts in cluster.traffic(lambda: session.run(total, {ids: value})).items():
            assert (counts["messages_sent"], counts["messages_received"]) == (1, 1), task
        for task, counts in cluster.traffic(lambda: session.run(train, {ids: value})).items():
            assert counts["messages_received"] == 1, task  # rows
            assert counts["messages_sent"] == 2, task  # ids, and the sums of the gradients


def _bytes(counts: dict[str, int]) -> int:
    return sum(count for name, count in counts.items() if name.startswith("bytes"))


def test_each_different_id_travels_once(cluster: Cluster) -> None:
    with cluster.place():
        ids = tf.placeholder(tf.int64, [None])
        value = tf.nn.embedding_lookup(table("t", 2, 100_000, 64), ids, "div")
        train = tf.train.AdagradOptimizer(0.5).minimize(tf.reduce_sum(value * value))
    few = np.arange(16) * 6000
    many = np.repeat(few, 500)
    with cluster.session() as session:
        session.run(tf.global_variables_initializer())
        for given in (few, many):
            session.run(train, {ids: given})
        once = cluster.traffic(lambda: session.run(train, {ids: few}))
        often = cluster.traffic(lambda: session.run(train, {ids: many}))
    for task in PS:
        # Fed values do not travel with the messages of a step: the worker is its own master.
        assert _bytes(often[task]) < _bytes(once[task]) + 2000
        assert _bytes(once[task]) < 20_000  # 8 rows of 256 bytes each way, their ids, and what starts a step


@pytest.mark.parametrize("name", [*FORMS, *(f"train_{name}" for name in OPTIMIZERS)])
def test_nothing_of_the_size_of_a_table_is_sent_or_allocated(cluster: Cluster, name: str) -> None:
    rows, width = 200_000, 64  # 51 MB
    optimizer = OPTIMIZERS[name.removeprefix("train_")] if name.startswith("train_") else OPTIMIZERS["adagrad"]
    with cluster.place():
        params = tf.get_variable(
            "t", [rows, width], initializer=tf.zeros_initializer(), partitioner=tf.fixed_size_partitioner(2)
        )
        if name in ("sampled_softmax", "nce"):
            biases = tf.get_variable("b", [rows], initializer=tf.zeros_initializer(),
                                     partitioner=tf.fixed_size_partitioner(2))  # fmt: skip
            loss = tf.nn.nce_loss if name == "nce" else tf.nn.sampled_softmax_loss
            value = loss(params, biases, IDS[:, None], tf.ones([len(IDS), width]), 50, rows, partition_strategy="div")
        else:
            value = FORMS.get(name, FORMS["lookup"])(params, "div")
        train = optimizer().minimize(tf.reduce_sum(tf.sin(value)))
        held = {task: sum(int(np.prod(v.shape.as_list())) * 4 for v in tf.global_variables() if _on(v, task))
                for task in PS}  # fmt: skip
    with cluster.session() as session:
        devices = {task: f"{task}/device:CPU:0" for task in PS}
        for variable in tf.global_variables():
            session.run(variable.initializer)
        for task in PS:
            _fill_to_peak(session, devices[task])
        before = {task: tf.experimental.get_memory_info(session, devices[task]) for task in PS}
        own = "/job:worker/task:0/device:CPU:0"
        peak = tf.experimental.get_memory_info(session, own)["peak"]  # of the tests before, in this process
        session.run(train)
        counts = cluster.traffic(lambda: session.run(train))
        for task in PS:
            after = tf.experimental.get_memory_info(session, devices[task])
            assert before[task]["current"] >= held[task]
            assert before[task]["peak"] <= before[task]["current"] + (4 << 20)
            assert after["peak"] < before[task]["peak"] + (2 << 20), "a step has allocated more than some rows"
            assert _bytes(counts[task]) < 100_000
        worker = tf.experimental.get_memory_info(session, own)
        assert worker["peak"] <= max(peak, 4 << 20)


def _fill_to_peak(session: Any, device: str) -> None:
    """Takes memory on a device until as much is in use as ever was, so that the peak shows what a step allocates."""
    info = tf.experimental.get_memory_info(session, device)
    with tf.device(device):
        rest = tf.get_variable(f"rest_{len(tf.global_variables())}", [(info["peak"] - info["current"]) // 4],
                               initializer=tf.zeros_initializer(), trainable=False)  # fmt: skip
    session.run(rest.initializer)


def _on(variable: Any, task: str) -> bool:
    return tf.DeviceSpec.from_string(variable.device).task == int(task[-1])


def test_empty_lists_of_ids(cluster: Cluster) -> None:
    with cluster.place():
        ids = tf.placeholder(tf.int64, [None])
        params = table("t", 2)
        value = tf.nn.embedding_lookup(params, ids, "div")
        none = tf.SparseTensor(tf.zeros([0, 2], tf.int64), ids, [3, 4])
        safe = tf.nn.safe_embedding_lookup_sparse(params, none)
        train = tf.train.AdagradOptimizer(0.5).minimize(tf.reduce_sum(value) + tf.reduce_sum(safe))
    with cluster.session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(tf.global_variables())
        found, zeros, _ = session.run([value, safe, train], {ids: []})
        assert found.shape == (0, WIDTH)
        np.testing.assert_array_equal(zeros, np.zeros((3, WIDTH)))
        for old, new in zip(before, session.run(tf.global_variables()), strict=True):
            np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize("wrong", [-1, ROWS + 5, 10**12])
def test_an_id_out_of_range_is_an_error_that_names_the_look_up(cluster: Cluster, strategy: str, wrong: int) -> None:
    with cluster.place():
        ids = tf.placeholder(tf.int64, [None])
        value = tf.nn.embedding_lookup(table("t", 2, strategy=strategy), ids, strategy, name="bad_look_up")
    with cluster.session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="bad_look_up"):
            session.run(value, {ids: [3, wrong]})
        assert session.run(value, {ids: [3, 4]}).shape == (2, WIDTH)


def test_look_ups_in_a_conditional_and_in_a_loop_still_work(cluster: Cluster) -> None:
    with cluster.place():
        params = table("t", 2)
        flag = tf.placeholder(tf.bool, [])
        chosen = tf.cond(
            flag,
            lambda: tf.nn.embedding_lookup(params, tf.constant([1, 2, 2]), "div"),
            lambda: tf.nn.embedding_lookup(params, tf.constant([4, 4, 4000]), "div"),
        )
        chained = tf.while_loop(
            lambda i, x: i < 3,
            lambda i, x: (i + 1, x + tf.nn.embedding_lookup(params, tf.stack([i, i * 1000]), "div")),
            (0, tf.zeros([2, WIDTH])),
        )[1]
    with cluster.session() as session:
        session.run(tf.global_variables_initializer())
        whole = np.concatenate(session.run(list(params)))
        for choice, rows in ((True, [1, 2, 2]), (False, [4, 4, 4000])):
            got, looped = session.run([chosen, chained], {flag: choice})
            np.testing.assert_array_equal(got, whole[rows])
            sums = [whole[[0, 1, 2]].sum(0), whole[[0, 1000, 2000]].sum(0)]
            np.testing.assert_allclose(looped, sums, rtol=1e-5, atol=1e-6)


def test_a_look_up_may_wait_for_a_queue_that_another_one_of_its_step_fills(cluster: Cluster) -> None:
    with cluster.place():
        params = table("t", 2)
        queue = tf.FIFOQueue(1, [tf.int64], shapes=[[]])
        first = tf.nn.embedding_lookup(params, tf.placeholder_with_default([5, 6], [None]), "div")
        fill = queue.enqueue(tf.cast(tf.size(first), tf.int64))
        second = tf.nn.embedding_lookup(params, tf.stack([queue.dequeue(), 3]), "div")
    with cluster.session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            got, _ = session.run([second, fill])
        np.testing.assert_array_equal(got, np.concatenate(session.run(list(params)))[[2 * WIDTH, 3]])
