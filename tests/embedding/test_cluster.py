"""Embedding variables on parameter servers: between-graph replication, sharded checkpoints, synchronous replicas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf


@pytest.fixture
def cluster() -> Iterator[tuple[list[Any], Any]]:
    """Two workers and two parameter servers in this process."""
    workers, servers = tf.test.create_local_cluster(2, 2)
    yield workers, tf.train.replica_device_setter(ps_tasks=2)
    for server in (*workers, *servers):
        server.stop()


def build(setter: Any, key_dtype: Any = tf.string) -> tuple[Any, Any, Any, Any]:
    """The graph of a worker."""
    with tf.device(setter):
        table = tf.get_embedding_variable(
            "table", 4, key_dtype, initializer=tf.zeros_initializer(), partitioner=tf.fixed_size_partitioner(2)
        )
        ids = tf.placeholder(key_dtype, [None])
        rows = tf.nn.embedding_lookup(table, ids)
        step = tf.train.GradientDescentOptimizer(1.0).minimize(-tf.reduce_sum(rows))
    return table, ids, rows, step


@pytest.mark.parametrize("sharded", [False, True])
def test_workers_share_tables_on_parameter_servers(cluster: Any, tmp_path: Path, sharded: bool) -> None:
    workers, setter = cluster
    words = [f"word {i}" for i in range(50)]
    graphs, sessions = [], []
    for worker in workers:
        with tf.Graph().as_default() as graph:
            table, ids, rows, step = build(setter)
            saver = tf.train.Saver(sharded=sharded)
            graphs.append((table, ids, rows, step, saver, tf.global_variables_initializer()))
            sessions.append(tf.Session(worker.target, graph=graph))
    assert [part.device for part in graphs[0][0]] == ["/job:ps/task:0", "/job:ps/task:1"]
    sessions[0].run(graphs[0][5])
    for _ in range(3):
        for session, (_, ids, _, step, _, _) in zip(sessions, graphs, strict=True):
            session.run(step, {ids: [*words, "word 0"]})
    table, ids, rows, step, saver, initializer = graphs[1]
    found = sessions[1].run(rows, {ids: ["word 0", "word 49", "new"]})
    assert found.tolist() == [[12] * 4, [6] * 4, [0] * 4]
    path = saver.save(sessions[1], str(tmp_path / "model"), write_meta_graph=False)
    sessions[1].run(step, {ids: words})
    sessions[1].run(initializer)
    saver.restore(sessions[1], path)
    found = sessions[0].run(graphs[0][2], {graphs[0][1]: ["word 0", "word 49", "new"]})
    assert found.tolist() == [[12] * 4, [6] * 4, [0] * 4]
    for session in sessions:
        session.close()
    # In one process, in one part.
    with tf.Graph().as_default(), tf.Session() as session:
        whole = tf.get_embedding_variable("table", 4, tf.string)
        session.run(tf.train.restore_rows(whole, path))
        assert (session.run(whole.lookup(words[1:])) == 6).all()
        assert session.run(whole.size()) == 50


def test_rows_only_travel(cluster: Any) -> None:
    """Nodes on the worker get rows and ids: everything on tables is on the parameter servers."""
    workers, setter = cluster
    with tf.Graph().as_default() as graph:
        build(setter, tf.int64)
        on_tables = [op for op in graph.get_operations() if op.type.startswith("EmbeddingTable")]
        assert {op.device.split("/task")[0] for op in on_tables if op.type != "EmbeddingTablePart"} == {"/job:ps"}
    del workers
    assert np.unique([op.type for op in on_tables]).size >= 5
