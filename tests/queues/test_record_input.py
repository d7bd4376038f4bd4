"""RecordInput: every record once in each pass, mixed, from several files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import thalweg as tf


def write(folder: Path, files: int = 3, records: int = 10) -> str:
    for f in range(files):
        with tf.python_io.TFRecordWriter(str(folder / f"part{f}")) as writer:
            for i in range(records):
                writer.write(f"{f}-{i}".encode())
    return str(folder / "part*")


@pytest.mark.parametrize(("buffer_size", "parallelism"), [(1, 1), (10, 2), (100, 16)])
def test_a_pass_has_every_record_once(tmp_path: Path, buffer_size: int, parallelism: int) -> None:
    source = tf.queue.RecordInput(
        write(tmp_path), batch_size=5, buffer_size=buffer_size, parallelism=parallelism, shift_ratio=0.3, seed=1
    )
    batch = source.get_yield_op()
    assert batch.shape.as_list() == [5]
    with tf.Session() as session:
        passes = [[r for _ in range(6) for r in session.run(batch)] for _ in range(2)]
    assert sorted(passes[0]) == sorted(passes[1]) == sorted(f"{f}-{i}".encode() for f in range(3) for i in range(10))
    assert passes[0] != passes[1]


def test_batches_are_dealt_out(tmp_path: Path) -> None:
    lists = tf.queue.RecordInput(write(tmp_path), batch_size=4, batches=2).get_yield_op()
    assert [[t.shape.as_list() for t in each] for each in lists] == [[[]] * 4] * 2
    with tf.Session() as session:
        assert len({r for each in session.run(lists) for r in each}) == 8


def test_missing_and_empty_files_are_errors(tmp_path: Path) -> None:
    def run(**kwargs: Any) -> Any:
        attrs = {"file_pattern": str(tmp_path / "part*"), **kwargs}
        with tf.Session() as session:
            return session.run(tf.raw_ops.RecordInput(**attrs))

    with pytest.raises(tf.errors.NotFoundError, match="Found no files"):
        run()
    write(tmp_path, records=0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="no records"):
        run()
    for bad in ({"batch_size": 0}, {"batch_size": -1}, {"file_buffer_size": 0}, {"file_parallelism": 0},
                {"file_shuffle_shift_ratio": 2.0}, {"compression_type": "LZ4"}):  # fmt: skip
        with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
            run(**bad)
    (tmp_path / "part1").write_bytes(b"nonsense" * 4)
    with pytest.raises(tf.errors.DataLossError):
        run()
