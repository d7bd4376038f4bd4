"""Datasets of files: records, lines, CSV, Parquet and Arrow; missing and damaged ones; positions in them."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.data_pipeline.elements import elements, plain, rest, values

Dataset = tf.data.Dataset


def _records(path: Path, count: int, first: int = 0) -> str:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for i in range(first, first + count):
            writer.write(b"record %d" % i)
    return str(path)


def test_records_of_several_files_in_order(tmp_path: Path) -> None:
    paths = [_records(tmp_path / "a", 2), _records(tmp_path / "b", 0), _records(tmp_path / "c", 1, 2)]
    assert values(tf.data.TFRecordDataset(paths)) == [b"record 0", b"record 1", b"record 2"]
    names = Dataset.from_tensor_slices(paths)
    assert values(tf.data.TFRecordDataset(names)) == [b"record 0", b"record 1", b"record 2"]
    assert sorted(values(tf.data.TFRecordDataset(paths, num_parallel_reads=3))) == [
        b"record 0", b"record 1", b"record 2",
    ]  # fmt: skip


def test_lines_compressed_or_not(tmp_path: Path) -> None:
    text = b"one\r\ntwo\n\nthree"
    (tmp_path / "plain").write_bytes(text)
    (tmp_path / "zlib").write_bytes(zlib.compress(text))
    with gzip.open(tmp_path / "gzip", "wb") as file:
        file.write(text)
    for name, compression in (("plain", None), ("zlib", "ZLIB"), ("gzip", "GZIP")):
        assert values(tf.data.TextLineDataset(str(tmp_path / name), compression)) == [b"one", b"two", b"", b"three"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="LZMA"):
        values(tf.data.TextLineDataset(str(tmp_path / "plain"), "LZMA"))


def test_records_of_one_length(tmp_path: Path) -> None:
    path = tmp_path / "fixed"
    path.write_bytes(b"HEAD" + b"aabbcc" + b"F")
    dataset = tf.data.FixedLengthRecordDataset(str(path), 2, header_bytes=4, footer_bytes=1)
    assert values(dataset) == [b"aa", b"bb", b"cc"]
    with pytest.raises(tf.errors.InvalidArgumentError):
        values(tf.data.FixedLengthRecordDataset(str(path), 0))
    with pytest.raises(tf.errors.InvalidArgumentError, match="whole records"):
        values(tf.data.FixedLengthRecordDataset(str(path), 4, header_bytes=4))


def test_a_missing_file_is_an_error_that_names_it_and_the_next_file_follows(tmp_path: Path) -> None:
    paths = [str(tmp_path / "missing"), _records(tmp_path / "there", 1)]
    element = tf.data.TFRecordDataset(paths).make_one_shot_iterator().get_next()
    with tf.Session() as session:
        with pytest.raises(tf.errors.NotFoundError, match="missing"):
            session.run(element)
        assert rest(session, element) == [b"record 0"]


def test_damaged_records_are_errors_that_name_the_file(tmp_path: Path) -> None:
    path = Path(_records(tmp_path / "damaged", 3))
    content = bytearray(path.read_bytes())
    for damage in (content[:-2], content[:14] + b"\xff" + content[15:], b"nonsense" * 5):
        path.write_bytes(bytes(damage))
        with tf.Graph().as_default(), pytest.raises(tf.errors.DataLossError, match="damaged"):
            values(tf.data.TFRecordDataset(str(path)))


def test_names_of_files(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "c.dat"):
        (tmp_path / name).write_text(name)
    names = [str(tmp_path / name).encode() for name in ("a.txt", "b.txt")]
    assert values(Dataset.list_files(str(tmp_path / "*.txt"), shuffle=False)) == names
    assert sorted(values(Dataset.list_files([str(tmp_path / "a*"), str(tmp_path / "b*")]))) == names
    seeded = Dataset.list_files(str(tmp_path / "*"), seed=1)
    assert values(seeded) == values(seeded)
    one_shot = Dataset.list_files(str(tmp_path / "*.txt"), shuffle=False).make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert rest(session, one_shot) == names
    with pytest.raises(tf.errors.InvalidArgumentError, match="none-such"):
        values(Dataset.list_files(str(tmp_path / "none-such*")))


@pytest.mark.parametrize("kind", ["records", "lines", "fixed", "csv"])
def test_a_position_in_files_is_restored(tmp_path: Path, kind: str) -> None:
    for name in ("a", "b"):
        with tf.io.TFRecordWriter(str(tmp_path / f"{name}.records")) as writer:
            for i in range(4):
                writer.write(f"{name}{i}".encode())
        (tmp_path / f"{name}.lines").write_text("".join(f"{name}{i}\n" for i in range(4)))
    records, lines = ([str(tmp_path / f"{name}.{suffix}") for name in "ab"] for suffix in ("records", "lines"))
    dataset = {
        "records": lambda: tf.data.TFRecordDataset(records),
        "lines": lambda: tf.data.TextLineDataset(lines),
        "fixed": lambda: tf.data.FixedLengthRecordDataset(lines, 3),
        "csv": lambda: tf.data.experimental.CsvDataset(lines, [tf.string]),
    }[kind]()
    iterator = dataset.make_initializable_iterator()
    element = iterator.get_next()
    position = tf.raw_ops._IteratorPosition(resource_handle=iterator._iterator_resource)
    text = tf.placeholder(tf.string, [])
    restore = tf.raw_ops._RestoreIteratorPosition(resource_handle=iterator._iterator_resource, position=text)
    for taken in (0, 1, 4, 6, 8):
        with tf.Session() as session:
            session.run(iterator.initializer)
            assert len(rest(session, element, taken)) == taken
            saved = session.run(position)
            expected = plain(rest(session, element))
            session.run(iterator.initializer)
            session.run(restore, {text: saved})
            assert plain(rest(session, element)) == expected
            assert len(expected) == 8 - taken


def test_csv_files(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text('n,text,x\n1,"quoted, with\na line end and ""marks""",0.5\n2,,NA\n')
    dataset = tf.data.experimental.CsvDataset(str(path), [tf.int32, "none", [7.5]], header=True, na_value="NA")
    assert dataset.output_types == (tf.int32, tf.string, tf.float32)
    assert values(dataset) == [(1, b'quoted, with\na line end and "marks"', 0.5), (2, b"none", 7.5)]
    picked = tf.data.experimental.CsvDataset(str(path), [tf.int64], header=True, select_cols=[0])
    assert values(picked) == [(1,), (2,)]
    left = tf.data.experimental.CsvDataset(str(path), [tf.int64], header=True, exclude_cols=[1, 2])
    assert values(left) == [(1,), (2,)]


def test_csv_records_that_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("1,2\n3\nx,4\n5,6\n,7\n")
    dataset = tf.data.experimental.CsvDataset(str(path), [tf.int32, tf.int32])
    element = dataset.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert plain(session.run(element)) == (1, 2)
        with pytest.raises(tf.errors.InvalidArgumentError, match="2 fields but have 1"):
            session.run(element)
        with pytest.raises(tf.errors.InvalidArgumentError, match="not a valid int32: x"):
            session.run(element)
        assert plain(session.run(element)) == (5, 6)
        with pytest.raises(tf.errors.InvalidArgumentError, match="required but missing"):
            session.run(element)
        assert rest(session, element) == []


def test_make_csv_dataset_guesses_names_and_types(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,b,c\n1,x,0.5\n2,y,1.5\n")
    (tmp_path / "2.csv").write_text("a,b,c\n3,z,2.5\n")
    dataset = tf.data.experimental.make_csv_dataset(
        str(tmp_path / "*.csv"), 2, label_name="c", num_epochs=1, shuffle=False
    )
    assert dataset.output_types[0] == {"a": tf.int32, "b": tf.string}
    assert dataset.output_types[1] == tf.float32
    batches = elements(dataset)
    assert [plain(dict(features)) for features, _ in batches] == [
        {"a": [1, 2], "b": [b"x", b"y"]},
        {"a": [3], "b": [b"z"]},
    ]
    endless = tf.data.experimental.make_csv_dataset(str(tmp_path / "*.csv"), 2, select_columns=["a"], shuffle_seed=1)
    assert endless.output_shapes["a"].as_list() == [2]
    assert len(elements(endless, 5)) == 5
    with pytest.raises(ValueError, match="No files"):
        tf.data.experimental.make_csv_dataset(str(tmp_path / "*.none"), 2)
    with pytest.raises(ValueError, match="label_name"):
        tf.data.experimental.make_csv_dataset(str(tmp_path / "*.csv"), 2, label_name="d")
    with pytest.raises(ValueError, match="select_columns"):
        tf.data.experimental.make_csv_dataset(str(tmp_path / "*.csv"), 2, select_columns=["d"])


def test_batched_features(tmp_path: Path) -> None:
    path = str(tmp_path / "examples")
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(5):
            example = tf.train.Example()
            example.features.feature["x"].int64_list.value.append(i)
            example.features.feature["y"].float_list.value.append(i / 2)
            writer.write(example.SerializeToString())
    features = {"x": tf.FixedLenFeature([], tf.int64), "y": tf.FixedLenFeature([], tf.float32)}
    dataset = tf.data.experimental.make_batched_features_dataset(
        path, 2, features, label_key="y", num_epochs=1, shuffle=False
    )
    assert [(plain(x), plain(y)) for x, y in elements(dataset)] == [
        ({"x": [0, 1]}, [0.0, 0.5]), ({"x": [2, 3]}, [1.0, 1.5]), ({"x": [4]}, [2.0]),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_columnar_files(tmp_path: Path, kind: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {
        "n": list(range(5)),
        "x": [0.5, None, 1.5, 2.5, 3.5],
        "s": ["a", None, "c", "d", "e"],
        "v": pyarrow.array([[i, i + 1] for i in range(5)], pyarrow.list_(pyarrow.int32(), 2)),
    }
    table = pyarrow.table(columns)
    path = str(tmp_path / "table")
    if kind == "parquet":
        parquet.write_table(table, path, row_group_size=2)
        make: Any = tf.data.experimental.ParquetDataset
    else:
        with pyarrow.OSFile(path, "wb") as sink, pyarrow.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
        make = tf.data.experimental.ArrowDataset
    dataset = make(path)
    assert dataset.output_types == {"n": tf.int64, "x": tf.float64, "s": tf.string, "v": tf.int32}
    assert dataset.output_shapes["v"].as_list() == [2]
    found = elements(dataset)
    assert [int(e["n"]) for e in found] == [0, 1, 2, 3, 4]
    assert [e["s"] for e in found] == [b"a", b"", b"c", b"d", b"e"]
    assert np.isnan(found[1]["x"]) and found[4]["v"].tolist() == [4, 5]
    assert [len(e["n"]) for e in elements(make([path, path], ["n"], batch_size=2))] == [2, 2, 1, 2, 2, 1]
    with pytest.raises(ValueError, match="nonsense"):
        make(path, ["nonsense"])


def test_without_pyarrow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ImportError, match=r"thalweg\[parquet\]"):
        tf.data.experimental.ParquetDataset("nothing")
