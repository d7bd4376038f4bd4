"""tf.python_io: TFRecord files, written and read, the same as TensorFlow's."""

from __future__ import annotations

import gc
import gzip
import itertools
import os
import subprocess
import threading
import zlib
from pathlib import Path
from typing import Any

import pytest
from tests.data.make_records import RECORDS

import thalweg as tf
from thalweg import errors

GOLDEN = Path(__file__).parents[1] / "data" / "records"
PYTHON = os.path.join(os.environ.get("THALWEG_PEERS", ""), "tf", "bin", "python")
READ_ALL = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow.compat.v1 as tf
for name, kind in zip(sys.argv[1::2], sys.argv[2::2]):
    print([r.hex() for r in tf.python_io.tf_record_iterator(name, tf.python_io.TFRecordOptions(kind))])
"""
Options = tf.python_io.TFRecordOptions


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("plain", None),
        ("plain", ""),
        ("plain", Options()),
        ("zlib", Options("ZLIB")),
        ("zlib", tf.python_io.TFRecordCompressionType.ZLIB),
        ("gzip", "GZIP"),
        ("gzip", Options(tf.python_io.TFRecordCompressionType.GZIP)),
        ("zlib_small_window", "ZLIB"),
        ("gzip_stored", "GZIP"),
    ],
)
def test_reads_what_tensorflow_wrote(name: str, options: Any) -> None:
    assert list(tf.python_io.tf_record_iterator(str(GOLDEN / name), options)) == RECORDS


def test_writes_byte_for_byte_what_tensorflow_writes(tmp_path: Path) -> None:
    with tf.python_io.TFRecordWriter(tmp_path / "file") as writer:
        for record in RECORDS:
            writer.write(record)
    assert (tmp_path / "file").read_bytes() == (GOLDEN / "plain").read_bytes()


ALL_OPTIONS = [
    None,
    Options("ZLIB"),
    Options("GZIP"),
    Options("ZLIB", compression_level=0),
    Options("ZLIB", compression_level=9, mem_level=1, window_bits=9, compression_strategy=zlib.Z_FIXED),
    Options("GZIP", flush_mode=zlib.Z_SYNC_FLUSH, compression_method=8, input_buffer_size=100, output_buffer_size=100),
]


@pytest.mark.parametrize("options", ALL_OPTIONS)
def test_reads_what_it_wrote(options: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"
    with tf.python_io.TFRecordWriter(str(path), options=options) as writer:
        for record in RECORDS * 20:
            writer.write(record)
    assert list(tf.io.tf_record_iterator(path, options)) == RECORDS * 20
    kind = Options.get_compression_type_string(options)
    data = path.read_bytes()
    plain = {"": lambda: data, "ZLIB": lambda: zlib.decompress(data), "GZIP": lambda: gzip.decompress(data)}[kind]()
    assert plain == (GOLDEN / "plain").read_bytes() * 20


@pytest.mark.skipif(not os.path.exists(PYTHON), reason="needs THALWEG_PEERS")
def test_tensorflow_reads_what_we_write(tmp_path: Path) -> None:
    arguments = []
    for i, options in enumerate(ALL_OPTIONS):
        with tf.python_io.TFRecordWriter(tmp_path / str(i), options) as writer:
            for record in RECORDS:
                writer.write(record)
        arguments += [str(tmp_path / str(i)), Options.get_compression_type_string(options)]
    output = subprocess.run([PYTHON, "-c", READ_ALL, *arguments], capture_output=True, text=True, check=True).stdout
    expected = str([record.hex() for record in RECORDS])
    assert output.splitlines() == [expected] * len(ALL_OPTIONS)


def test_a_flushed_record_can_be_read_while_the_file_is_open(tmp_path: Path) -> None:
    for options in (None, Options("ZLIB", flush_mode=zlib.Z_SYNC_FLUSH)):
        with tf.python_io.TFRecordWriter(tmp_path / "file", options) as writer:
            writer.write(b"early")
            writer.flush()
            reader = tf.python_io.tf_record_iterator(tmp_path / "file", options)
            assert next(reader) == b"early"


@pytest.mark.parametrize("options", [None, "GZIP"])
def test_a_closed_writer_refuses_records(options: Any, tmp_path: Path) -> None:
    writer = tf.python_io.TFRecordWriter(tmp_path / "file", options)
    writer.write(b"one")
    writer.close()
    writer.close()
    for call in (lambda: writer.write(b"two"), writer.flush):
        with pytest.raises(errors.FailedPreconditionError, match="file; the writer was closed"):
            call()
    assert list(tf.python_io.tf_record_iterator(tmp_path / "file", options)) == [b"one"]


@pytest.mark.parametrize("options", [None, "ZLIB"])
def test_a_writer_that_is_dropped_writes_what_it_has(options: Any, tmp_path: Path) -> None:
    tf.python_io.TFRecordWriter(tmp_path / "file", options).write(b"one")
    gc.collect()
    assert list(tf.python_io.tf_record_iterator(tmp_path / "file", options)) == [b"one"]


@pytest.mark.parametrize("options", [None, "ZLIB"])
def test_only_bytes_are_records(options: Any, tmp_path: Path) -> None:
    with tf.python_io.TFRecordWriter(tmp_path / "file", options) as writer:
        for wrong in ("text", 3, None, [b"x"]):
            with pytest.raises(TypeError):
                writer.write(wrong)  # type: ignore[arg-type]
        writer.write(b"right")
    assert list(tf.python_io.tf_record_iterator(tmp_path / "file", options)) == [b"right"]


@pytest.mark.parametrize("options", [None, "ZLIB"])
def test_where_nothing_can_be_written(options: Any, tmp_path: Path) -> None:
    with pytest.raises(errors.NotFoundError, match="nowhere"):
        tf.python_io.TFRecordWriter(tmp_path / "nowhere" / "file", options)
    with pytest.raises(errors.FailedPreconditionError, match="directory"):
        tf.python_io.TFRecordWriter(tmp_path, options)
    writer = tf.python_io.TFRecordWriter("/dev/full", options)
    writer.write(os.urandom(1000))
    with pytest.raises(errors.ResourceExhaustedError, match="/dev/full"):
        writer.close()


def test_options(tmp_path: Path) -> None:
    for wrong in ("BZ", 5, "zlib"):
        with pytest.raises(ValueError, match=f'Not a valid compression_type: "{wrong}"'):
            Options(wrong)
        with pytest.raises(ValueError, match="Not a valid"):
            tf.python_io.tf_record_iterator(tmp_path / "file", wrong)
    assert Options.get_compression_type_string(Options("GZIP")) == "GZIP"
    assert Options.get_compression_type_string(1) == "ZLIB"
    assert Options("ZLIB", compression_level=3).compression_level == 3
    for wrong_options in (Options("ZLIB", window_bits=99), Options("GZIP", compression_level=12)):
        with pytest.raises(errors.InvalidArgumentError, match="zlib refuses"):
            tf.python_io.TFRecordWriter(tmp_path / "file", wrong_options)


def test_unreadable_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFoundError, match="nowhere"):
        next(tf.python_io.tf_record_iterator(tmp_path / "nowhere"))
    (tmp_path / "text").write_text("This is no file of records at all.")
    with pytest.raises(errors.DataLossError, match=r"text; corrupted record .* at 0"):
        list(tf.python_io.tf_record_iterator(tmp_path / "text"))
    with pytest.raises(errors.DataLossError, match="no zlib header"):
        list(tf.python_io.tf_record_iterator(tmp_path / "text", "ZLIB"))


def test_threads_share_a_writer_and_an_iterator(tmp_path: Path) -> None:
    records = [str(i).encode() * 20 for i in range(2000)]
    with tf.python_io.TFRecordWriter(tmp_path / "file") as writer:
        threads = [threading.Thread(target=lambda k=k: [writer.write(r) for r in records[k::4]]) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    reader = tf.python_io.tf_record_iterator(tmp_path / "file")
    found: list[list[bytes]] = [[] for _ in range(4)]
    threads = [threading.Thread(target=lambda out=out: out.extend(reader)) for out in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(itertools.chain(*found)) == sorted(records)


@pytest.mark.parametrize("name", ["example", "sequence_example"])
def test_examples_have_tensorflows_bytes(name: str) -> None:
    data = (GOLDEN / name).read_bytes()
    kind = {"example": tf.train.Example, "sequence_example": tf.train.SequenceExample}[name]
    message = kind.FromString(data)
    assert message.SerializeToString(deterministic=True) == data
    features = (message.features if name == "example" else message.context).feature
    assert list(features["numbers"].int64_list.value) == [-1, 0, 1, 2**62]
    assert list(features["texts"].bytes_list.value) == [b"", b"\xff\0"]
    assert features["none"].WhichOneof("kind") is None
    assert features["floats"].WhichOneof("kind") == "float_list"


def test_examples_are_built_as_in_tensorflow() -> None:
    numbers = tf.train.Feature(int64_list=tf.train.Int64List(value=[-1, 0, 1, 2**62]))
    floats = tf.train.Feature(float_list=tf.train.FloatList(value=[0.5, -1e30]))
    texts = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"", b"\xff\0"]))
    named = {"numbers": numbers, "floats": floats, "texts": texts, "none": tf.train.Feature()}
    features = tf.train.Features(feature=named)
    lists = tf.train.FeatureLists(feature_list={"steps": tf.train.FeatureList(feature=[numbers, texts])})
    example = tf.train.Example(features=features)
    assert example.SerializeToString(deterministic=True) == (GOLDEN / "example").read_bytes()
    sequence = tf.train.SequenceExample(context=features, feature_lists=lists)
    assert sequence.SerializeToString(deterministic=True) == (GOLDEN / "sequence_example").read_bytes()
    assert example.DESCRIPTOR.full_name == "tensorflow.Example"
    with pytest.raises(TypeError):
        tf.train.Int64List(value=["text"])
