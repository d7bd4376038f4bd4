"""pprof output of tf.profiler.profile: what a reader of profile.proto finds in it."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.profiler.pprof import messages

Builder = tf.profiler.ProfileOptionBuilder


def layer(x: Any) -> Any:
    return tf.matmul(x, tf.ones([16, 4]) * tf.reduce_sum(x), name="product")


def written(path: Path, columns: list[str], **bounds: int) -> Any:
    x = tf.placeholder(tf.float32, [8, 16], name="x")
    y = tf.nn.relu(layer(x), name="clipped")
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        full = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        session.run(y, {x: np.ones((8, 16))}, full, metadata)
    options = Builder(Builder.time_and_memory(min_micros=0, min_bytes=0)).select(columns)
    options = options.with_min_float_operations(0).with_pprof_output(str(path)).build()
    root = tf.profiler.profile(tf.get_default_graph(), metadata, cmd="code", options=options)
    profile = messages()["Profile"].FromString(gzip.decompress(path.read_bytes()))
    return profile, root


def test_samples_are_nodes_with_the_stacks_that_made_them(tmp_path: Path) -> None:
    profile, root = written(tmp_path / "p.pb.gz", ["micros", "float_ops"])
    text = profile.string_table
    assert text[0] == ""
    assert [(text[kind.type], text[kind.unit]) for kind in profile.sample_type] == [
        ("count", "count"),
        ("micros", "microseconds"),
        ("float_ops", "count"),
    ]
    assert text[profile.default_sample_type] == "micros"
    samples = {text[sample.label[0].str]: sample for sample in profile.sample}
    assert text[samples["product"].label[0].key] == "graph node:"
    assert text[samples["product"].label[1].str] == "MatMul"
    assert samples["product"].value[2] == 2 * 8 * 16 * 4
    assert sum(sample.value[1] for sample in profile.sample) == root.total_exec_micros
    functions = {function.id: function for function in profile.function}
    lines = {location.id: location.line[0] for location in profile.location}
    stack = [text[functions[lines[id_].function_id].name] for id_ in samples["product"].location_id]
    assert stack[:2] == ["test_pprof:layer", "test_pprof:written"]
    inner = lines[samples["product"].location_id[0]]
    assert text[functions[inner.function_id].filename] == __file__
    assert inner.line == layer.__code__.co_firstlineno + 1


def test_every_number_refers_to_something_that_is_there_once(tmp_path: Path) -> None:
    profile, _ = written(tmp_path / "p.pb.gz", ["micros"])
    locations = [location.id for location in profile.location]
    functions = [function.id for function in profile.function]
    assert sorted(locations) == list(range(1, len(locations) + 1))
    assert sorted(functions) == list(range(1, len(functions) + 1))
    assert {id_ for sample in profile.sample for id_ in sample.location_id} == set(locations)
    assert {line.function_id for location in profile.location for line in location.line} == set(functions)
    assert len(set(profile.string_table)) == len(profile.string_table)
    assert all(len(sample.value) == len(profile.sample_type) for sample in profile.sample)


def test_the_file_is_a_gzip_of_fields_by_their_published_numbers(tmp_path: Path) -> None:
    path = tmp_path / "p.pb.gz"
    written(path, ["micros"])
    assert struct.unpack("<HB", path.read_bytes()[:3]) == (0x8B1F, 8)
    data = gzip.decompress(path.read_bytes())
    found, at = set(), 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        found.add((key >> 3, key & 7))
        size = number()
        at += size if key & 7 == 2 else 0
    # sample_type, sample, location, function and string_table are messages or strings, default_sample_type a number.
    assert found == {(1, 2), (2, 2), (4, 2), (5, 2), (6, 2), (14, 0)}


@pytest.mark.parametrize("cmd", ["scope", "op", "graph"])
def test_only_the_view_by_lines_has_stacks(cmd: str, tmp_path: Path) -> None:
    options = Builder().with_pprof_output(str(tmp_path / "p")).build()
    with pytest.raises(ValueError, match="code"):
        tf.profiler.profile(tf.Graph(), cmd=cmd, options=options)
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize("columns", [[], ["device"], ["micros", "occurrence"]])
def test_columns_without_a_unit_are_refused(columns: list[str], tmp_path: Path) -> None:
    options = Builder().select(columns).with_pprof_output(str(tmp_path / "p")).build()
    with pytest.raises(ValueError, match="micros"):
        tf.profiler.profile(tf.Graph(), cmd="code", options=options)
