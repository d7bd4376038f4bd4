"""Checkpoints of the format from before TensorFlow 0.12: the same bytes as TensorFlow's, round trips, and damage."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.data.make_checkpoints import FOLDER, NEW_TYPES, SLICES, tensors
from tests.train.tables import rows_of, table_of
from tests.train.test_tensor_bundle import restore, same


def save(path: Any, names: Sequence[Any], values: Sequence[Any], slices: Sequence[str] | None = None) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        feeds = [tf.placeholder(tf.string if v.dtype == object else v.dtype) for v in map(np.asarray, values)]
        if slices is None:
            op = tf.raw_ops.Save(filename=str(path), tensor_names=list(names), data=feeds)
        else:
            op = tf.raw_ops.SaveSlices(
                filename=str(path), tensor_names=list(names), shapes_and_slices=list(slices), data=feeds
            )
        session.run(op, dict(zip(feeds, values, strict=True)))


def old_tensors() -> dict[str, Any]:
    return {name: value for name, value in tensors().items() if name not in NEW_TYPES}


def whole_slices() -> dict[str, Any]:
    """The whole values of the tensors of SLICES that have all their slices."""
    columns = np.concatenate([np.arange(200.0).reshape(2, 100), np.arange(400.0).reshape(2, 200)], 1)
    rows = np.repeat([[1.0, 1.0], [2.0, 2.0]], 2, axis=0)
    return {
        "rows": rows,
        "columns": columns,
        "whole": np.arange(3.0),
        "words": np.array([b"x", b"y", b"z" * 300], object),
    }


def test_the_bytes_are_those_that_tensorflow_writes(tmp_path: Path) -> None:
    values = old_tensors()
    save(tmp_path / "types", list(values), list(values.values()))
    assert (tmp_path / "types").read_bytes() == (FOLDER / "old_types").read_bytes()
    save(tmp_path / "types", list(values), list(values.values()), [""] * len(values))
    assert (tmp_path / "types").read_bytes() == (FOLDER / "old_types").read_bytes()
    for shard in range(2):
        mine, name = SLICES[shard::2], f"old_slices-{shard:05d}-of-00002"
        save(tmp_path / name, [s[0] for s in mine], [s[2] for s in mine], [s[1] for s in mine])
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["old_slices-00000-of-00002", "old_slices-00001-of-00002", "types"]


def test_every_type_and_shape_comes_back() -> None:
    values = old_tensors()
    kinds = [tf.string if v.dtype == object else v.dtype for v in values.values()]
    for name, value, found in zip(
        values, values.values(), restore(FOLDER / "old_types", list(values), kinds), strict=True
    ):
        assert same(found, value), name


def test_types_that_tensorflows_writer_lacks(tmp_path: Path) -> None:
    values = {name: tensors()[name] for name in NEW_TYPES}
    save(tmp_path / "new", list(values), list(values.values()))
    found = restore(tmp_path / "new", list(values), [v.dtype for v in values.values()])
    assert all(same(a, b) for a, b in zip(found, values.values(), strict=True))


@pytest.mark.parametrize("pattern", ["old_slices", "old_slices-?????-of-00002", "old_slices-*"])
def test_slices_of_several_files_are_put_together(pattern: str) -> None:
    for name, value in whole_slices().items():
        kind = tf.string if value.dtype == object else value.dtype
        assert same(restore(FOLDER / pattern, [name], [kind])[0], value), name
    part = restore(FOLDER / pattern, ["columns"], [tf.float64], ["2 300 1,1:90,20"])[0]
    assert same(part, whole_slices()["columns"][1:2, 90:110])
    far = restore(FOLDER / pattern, ["far"], [tf.float64], ["10000000 100,50"])[0]
    assert same(far, np.arange(30.0, 80.0))
    with pytest.raises(tf.errors.InvalidArgumentError, match="does not have all parts of far"):
        restore(FOLDER / pattern, ["far"], [tf.float64], ["10000000 0,100"])


def test_a_reader_without_a_graph() -> None:
    reader = tf.train.NewCheckpointReader(str(FOLDER / "old_types"))
    shapes, kinds = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    for name, value in old_tensors().items():
        assert shapes[name] == list(value.shape)
        assert kinds[name] == (tf.string if value.dtype == object else tf.as_dtype(value.dtype))
        assert same(reader.get_tensor(name), value)
    assert not reader.has_tensor("type/uint32")
    assert dict(tf.train.list_variables(str(FOLDER / "old_slices")))["columns"] == [2, 300]
    assert same(tf.train.load_variable(str(FOLDER / "old_slices"), "whole"), np.arange(3.0))


def test_the_ops_of_old_graphs_read_both_formats() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        for prefix in ("old_types", "types"):
            whole = tf.raw_ops.Restore(file_pattern=str(FOLDER / prefix), tensor_name="type/float32", dt=tf.float32)
            assert same(session.run(whole), tensors()["type/float32"])
            part = tf.raw_ops.RestoreSlice(
                file_pattern=str(FOLDER / prefix), tensor_name="type/int32", shape_and_slice="3 2 1,2:-", dt=tf.int32
            )
            assert part.shape.as_list() == [2, 2]
            assert same(session.run(part), tensors()["type/int32"][1:])


@pytest.mark.parametrize("sharded", [False, True])
def test_a_saver_writes_keeps_and_restores_them(tmp_path: Path, sharded: bool) -> None:
    with tf.device("/cpu:0"):
        v = tf.get_variable("v", initializer=[1.0, 2.0])
    with tf.device("/cpu:1"):
        w = tf.get_variable("w", [6, 2], partitioner=tf.fixed_size_partitioner(2), initializer=tf.ones_initializer())
    saver = tf.train.Saver(write_version=tf.train.SaverDef.V1, max_to_keep=2, sharded=sharded)
    config = tf.ConfigProto(device_count={"CPU": 2})
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        paths = [saver.save(session, str(tmp_path / "m"), global_step=i) for i in range(3)]
        session.run([v.assign([0.0, 0.0]), *[part.assign(part * 0.0) for part in w]])
        assert tf.train.latest_checkpoint(str(tmp_path)) == paths[-1]
        saver.restore(session, paths[-1])
        assert session.run(v).tolist() == [1.0, 2.0]
        assert session.run(tf.convert_to_tensor(w)).tolist() == [[1.0, 1.0]] * 6
        with pytest.raises(ValueError, match="not a valid checkpoint"):
            saver.restore(session, paths[0])
    endings = ["-00000-of-00002", "-00001-of-00002"] if sharded else [""]
    kept = {f"m-{i}{ending}" for i in (1, 2) for ending in (*endings, ".meta")}
    assert set(os.listdir(tmp_path)) == {"checkpoint", *kept}
    with pytest.raises(ValueError, match="write_version"):
        tf.train.Saver([v], write_version=3)


def test_transfer_from_an_old_checkpoint(tmp_path: Path) -> None:
    save(tmp_path / "old", ["InceptionV3/w", "InceptionV3/b"], [np.float32([[1, 2]]), np.float32([3])])
    mine = tf.get_variable("mine/w", [1, 2])
    tf.train.init_from_checkpoint(str(tmp_path / "old"), {"InceptionV3/w": mine})
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(mine).tolist() == [[1.0, 2.0]]


def test_errors_name_the_problem(tmp_path: Path) -> None:
    old = FOLDER / "old_types"
    with pytest.raises(tf.errors.NotFoundError, match="Key nothing not found"):
        restore(old, ["nothing"], [tf.float32])
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="expected dtype int32 does not equal original dtype float32"
    ):
        restore(old, ["type/float32"], [tf.int32])
    with pytest.raises(tf.errors.InvalidArgumentError, match="does not match the shape stored"):
        restore(old, ["type/float32"], [tf.float32], ["4 2 -:-"])
    with pytest.raises(tf.errors.NotFoundError, match="Failed to find any matching files"):
        restore(tmp_path / "none", ["a"], [tf.float32])
    with pytest.raises(tf.errors.NotFoundError, match="Failed to find any matching files"):
        restore(tmp_path, ["a"], [tf.float32])  # a folder
    (tmp_path / "text").write_text("not a checkpoint" * 10)
    with pytest.raises(tf.errors.DataLossError, match="text"):
        restore(tmp_path / "text", ["a"], [tf.float32])
    x = np.float32([1, 2])
    for names, values, slices, match in (
        (["a", "a"], [x, x], ["", ""], "given twice"),
        (["a"], [x], ["4 0,3"], "does not have the shape"),
        (["a", "a"], [x, x], ["4 0,2", "5 2,2"], "Mismatching"),
        (["a"], [x], ["nonsense"], "nonsense"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=match):
            save(tmp_path / "bad", names, values, slices)
    assert not (tmp_path / "bad").exists()


def test_a_false_shape_takes_no_memory(tmp_path: Path) -> None:
    save(tmp_path / "huge", ["a"], [np.float32([1, 2])], ["4000000000000 0,2"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="does not have all parts of a"):
        restore(tmp_path / "huge", ["a"], [tf.float32])


def test_files_that_disagree(tmp_path: Path) -> None:
    save(tmp_path / "m-00000-of-00002", ["a"], [np.float32([1, 2])], ["4 0,2"])
    save(tmp_path / "m-00001-of-00002", ["a"], [np.float32([3, 4, 5])], ["5 2,3"])
    with pytest.raises(tf.errors.DataLossError, match="disagree"):
        restore(tmp_path / "m", ["a"], [tf.float32])


def test_damage_of_any_kind_is_an_error_or_harmless(tmp_path: Path) -> None:
    good = (FOLDER / "old_types").read_bytes()
    values, rng = old_tensors(), random.Random(5)
    kinds = [tf.string if v.dtype == object else v.dtype for v in values.values()]
    found = 0
    for i in range(150):
        damaged = bytearray(good)
        if i % 3 == 0:
            damaged = damaged[: rng.randrange(len(good))]
        else:
            for _ in range(1 + i % 4):
                damaged[rng.randrange(len(good))] = rng.randrange(256)
        if bytes(damaged) == good:
            continue
        (tmp_path / "bad").write_bytes(damaged)
        try:
            restored = restore(tmp_path / "bad", list(values), kinds)
        except (tf.errors.DataLossError, tf.errors.NotFoundError, tf.errors.UnimplementedError):
            found += 1
        else:  # Padding that is never read.
            assert all(same(a, b) for a, b in zip(restored, values.values(), strict=True))
    assert found > 140


def test_invalid_rows_are_reported(tmp_path: Path) -> None:
    """Whole tables, with right checksums, whose messages make no sense."""
    rows = rows_of((FOLDER / "old_types").read_bytes())
    header = rows[b""]
    values = old_tensors()
    cases = {
        "no header": {key: value for key, value in rows.items() if key},
        "a value is missing": {key: value for key, value in rows.items() if b"float32" not in key},
        "cut header": rows | {b"": header[: len(header) // 2]},
        "another shape": rows
        | {b"": header.replace(b"\x12\x02\x08\x03\x12\x02\x08\x02", b"\x12\x02\x08\x03\x12\x02\x08\x09")},
        "a huge shape": rows
        | {
            b"": header.replace(
                b"\x12\x08\x12\x02\x08\x03\x12\x02\x08\x02", b"\x12\x08\x12\x06\x08\xff\xff\xff\xff\x0f"
            )
        },
        "another rank of slices": rows | {b"": header.replace(b'"\x04\n\x00\n\x00', b'"\x04\n\x00\x12\x00')},
        "values swapped": rows | {b"\x00type/float32\x00\x01\x01\x02\x80\x7f\x80\x7f": b"\x12\x02\x1a\x00"},
    }
    for name, changed in cases.items():
        (tmp_path / "bad").write_bytes(table_of(changed))
        with pytest.raises((tf.errors.DataLossError, tf.errors.UnimplementedError)):
            restore(tmp_path / "bad", ["type/float32"], [tf.float32])
            pytest.fail(name)
    (tmp_path / "good").write_bytes(table_of(rows))
    assert same(restore(tmp_path / "good", ["type/float32"], [tf.float32])[0], values["type/float32"])
