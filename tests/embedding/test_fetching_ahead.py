"""Rows on disk are fetched for the ids of the next batch, which the look-up finds in the input pipeline by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf

ROWS, BATCH, STEPS = 4000, 50, 10


def make_table(folder: Path, parts: int = 0, name: str = "table", **more: Any) -> Any:
    options = tf.EmbeddingOptions(ram_bytes=1, folder=str(folder))
    partitioner = tf.fixed_size_partitioner(parts) if parts else None
    return tf.get_embedding_variable(name, 2, initializer=0.0, options=options, partitioner=partitioner, **more)


def fill(session: Any, table: Any) -> None:
    session.run(tf.global_variables_initializer())
    keys = np.arange(ROWS) if table_parts(table)[0].key_dtype is tf.int64 else [str(i) for i in range(ROWS)]
    session.run(tf.nn.insert_rows(table, keys, np.repeat(np.arange(ROWS, dtype=np.float32)[:, None], 2, 1)))


def table_parts(table: Any) -> list[Any]:
    return [table] if isinstance(table, tf.EmbeddingVariable) else list(table)


def promotions(session: Any, table: Any) -> int:
    return sum(int(session.run(part.statistics()["promotions"])) for part in table_parts(table))


def wait_for(session: Any, table: Any, at_least: int) -> int:
    end = time.monotonic() + 10
    while (found := promotions(session, table)) < at_least and time.monotonic() < end:
        time.sleep(0.01)
    return found


def fetched_in_steps(session: Any, table: Any, rows: Any, expected: np.ndarray) -> int:
    """Runs some steps, and returns how many rows came back from disk.

    A look-up changes nothing: rows come back only because the next batch is known. At first it may not be there.
    """
    before = promotions(session, table)
    for batch in expected[:STEPS]:
        assert (session.run(rows).reshape(-1, 2)[:, 0] == batch).all()
        time.sleep(0.01)
    wait_for(session, table, before + 1)
    time.sleep(0.1)
    return promotions(session, table) - before


def batches() -> np.ndarray:
    return np.random.default_rng(0).permutation(ROWS).reshape(-1, BATCH)


@pytest.mark.parametrize("parts", [0, 3])
@pytest.mark.parametrize("change", [lambda x: x, lambda x: tf.cast(x, tf.int32), lambda x: tf.reshape(x, [-1, 5])])
def test_the_next_batch_of_a_dataset_is_fetched(tmp_path: Path, parts: int, change: Callable[[Any], Any]) -> None:
    table = make_table(tmp_path, parts)
    dataset = tf.data.Dataset.from_tensor_slices(batches()).prefetch(4)
    rows = tf.nn.embedding_lookup(table, change(tf.data.make_one_shot_iterator(dataset).get_next()))
    with tf.Session() as session:
        fill(session, table)
        assert 0 < fetched_in_steps(session, table, rows, batches()) <= STEPS * BATCH


def test_all_batches_arrive_and_the_end_is_the_end(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    iterator = tf.data.make_initializable_iterator(tf.data.Dataset.from_tensor_slices(batches()).prefetch(2))
    rows = tf.nn.embedding_lookup(table, iterator.get_next())
    with tf.Session() as session:
        fill(session, table)
        for _ in range(2):
            session.run(iterator.initializer)
            for batch in batches():
                assert (session.run(rows)[:, 0] == batch).all()
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(rows)


@pytest.mark.parametrize("pick", [lambda x: x[:, 1], lambda x: tf.unstack(x, axis=1)[1]])
def test_of_a_matrix_each_look_up_fetches_its_column(tmp_path: Path, pick: Callable[[Any], Any]) -> None:
    matrix = np.stack([np.arange(ROWS), np.arange(ROWS)[::-1]], 1).reshape(-1, BATCH, 2)
    element = tf.data.make_one_shot_iterator(tf.data.Dataset.from_tensor_slices(matrix).prefetch(4)).get_next()
    table = make_table(tmp_path)
    rows = tf.nn.embedding_lookup(table, pick(element))
    with tf.Session() as session:
        fill(session, table)
        # With the first column, it would be twice as many.
        assert 0 < fetched_in_steps(session, table, rows, matrix[:, :, 1]) <= STEPS * BATCH


@pytest.mark.parametrize("many", [False, True])
def test_the_next_elements_of_a_queue_are_fetched(tmp_path: Path, many: bool) -> None:
    table = make_table(tmp_path, key_dtype=tf.string)
    queue = tf.FIFOQueue(ROWS, [tf.string], [[] if many else [BATCH]])
    keys = np.char.mod("%d", batches())
    enqueue = queue.enqueue_many([keys.reshape(-1) if many else keys])
    rows = tf.nn.embedding_lookup(table, queue.dequeue_many(BATCH) if many else queue.dequeue())
    with tf.Session() as session:
        fill(session, table)
        session.run(enqueue)
        before = promotions(session, table)
        assert (session.run(rows)[:, 0] == batches()[0]).all()
        assert before < wait_for(session, table, before + 1) <= before + BATCH
        assert (session.run(rows)[:, 0] == batches()[1]).all()


def test_a_fed_batch_takes_no_element(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    element = tf.data.make_one_shot_iterator(tf.data.Dataset.range(1).batch(1).prefetch(2)).get_next()
    rows = tf.nn.embedding_lookup(table, element)
    with tf.Session() as session:
        fill(session, table)
        for _ in range(3):
            assert session.run(rows, {element: [7]})[0, 0] == 7
        assert session.run(rows)[0, 0] == 0
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(rows)


def test_tables_in_memory_look_at_no_next_batch() -> None:
    table = tf.get_embedding_variable("table", 2)
    element = tf.data.make_one_shot_iterator(tf.data.Dataset.range(4).batch(2).prefetch(2)).get_next()
    tf.nn.embedding_lookup(table, element)
    assert not [op for op in tf.get_default_graph().get_operations() if op.type == "_IteratorPeek"]
