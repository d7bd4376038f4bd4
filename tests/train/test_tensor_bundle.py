"""Tensor bundles: the same bytes as TensorFlow's, round trips, slices, merging, and damage of every kind."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import thalweg as tf
from tests.data.make_checkpoints import FOLDER, SLICES, tensors

DATA = ".data-00000-of-00001"


def save(prefix: Any, names: Sequence[Any], values: Sequence[Any], slices: Sequence[str] | None = None) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        feeds = [tf.placeholder(tf.string if v.dtype == object else v.dtype) for v in map(np.asarray, values)]
        op = tf.raw_ops.SaveV2(
            prefix=str(prefix), tensor_names=list(names), shape_and_slices=list(slices or [""] * len(names)),
            tensors=feeds,
        )  # fmt: skip
        session.run(op, dict(zip(feeds, values, strict=True)))


def restore(prefix: Any, names: Sequence[Any], dtypes: Sequence[Any], slices: Sequence[str] | None = None) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(
            tf.raw_ops.RestoreV2(
                prefix=str(prefix), tensor_names=list(names), shape_and_slices=list(slices or [""] * len(names)),
                dtypes=list(dtypes),
            )
        )  # fmt: skip


def files(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def same(a: Any, b: Any) -> bool:
    a, b = (np.array(v, object) if isinstance(v, bytes) else np.asarray(v) for v in (a, b))
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()


def test_the_bytes_are_those_that_tensorflow_writes(tmp_path: Path) -> None:
    values = tensors()
    save(tmp_path / "types", list(values), list(values.values()))
    save(tmp_path / "slices", [s[0] for s in SLICES], [s[2] for s in SLICES], [s[1] for s in SLICES])
    for name in ("types", "slices"):
        for suffix in (".index", DATA):
            assert (tmp_path / (name + suffix)).read_bytes() == (FOLDER / (name + suffix)).read_bytes(), name + suffix


def test_what_tensorflow_wrote_is_read() -> None:
    values = tensors()
    kinds = [tf.string if v.dtype == object else tf.as_dtype(v.dtype) for v in values.values()]
    read = restore(FOLDER / "types", list(values), kinds)
    for (name, value), got in zip(values.items(), read, strict=True):
        assert same(got, value), name


def test_slices_that_tensorflow_wrote_are_put_together() -> None:
    reader = tf.train.NewCheckpointReader(str(FOLDER / "slices"))
    assert reader.get_variable_to_shape_map() == {
        "columns": [2, 300], "far": [10000000], "rows": [4, 2], "whole": [3], "words": [3],
    }  # fmt: skip
    assert reader.get_tensor("rows").tolist() == [[1, 1], [1, 1], [2, 2], [2, 2]]
    columns = np.hstack([np.arange(200.0).reshape(2, 100), np.arange(400.0).reshape(2, 200)])
    np.testing.assert_array_equal(reader.get_tensor("columns"), columns)
    assert reader.get_tensor("words").tolist() == [b"x", b"y", b"z" * 300]
    part, far, word = restore(
        FOLDER / "slices", ["columns", "far", "words"], [tf.float64, tf.float64, tf.string],
        ["2 300 1,1:90,30", "10000000 80,3", "3 1,1"],
    )  # fmt: skip
    np.testing.assert_array_equal(part, columns[1:2, 90:120])
    assert far.tolist() == [10, 11, 12] and word.tolist() == [b"y"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="far"):
        reader.get_tensor("far")  # Some of its slices are missing.


def test_a_slice_of_an_unsliced_tensor_is_read(tmp_path: Path) -> None:
    whole = np.arange(60.0).reshape(3, 4, 5)
    save(tmp_path / "m", ["w"], [whole])
    (part,) = restore(tmp_path / "m", ["w"], [tf.float64], ["3 4 5 1,2:-:2,3"])
    np.testing.assert_array_equal(part, whole[1:3, :, 2:5])
    with tf.Graph().as_default():
        op = tf.raw_ops.RestoreV2(
            prefix="p", tensor_names=["w"], shape_and_slices=["3 4 5 1,2:-:2,3"], dtypes=[tf.int8]
        )
        assert op[0].shape.as_list() == [2, 4, 3]


NAMES = st.text(min_size=1, max_size=20).filter(lambda s: s[0] != "\0" and max(s) < "\ud800")
KINDS = st.sampled_from(["bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64", "complex64", "S"])


@st.composite
def checkpoints(draw: Any) -> dict[str, Any]:
    out = {}
    for name in draw(st.lists(NAMES, min_size=1, max_size=6, unique=True)):
        kind = draw(KINDS)
        shape = draw(arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
        if kind == "S":
            count = int(np.prod(shape))
            items = draw(st.lists(st.binary(max_size=300), min_size=count, max_size=count))
            value = np.empty(count, object)
            value[:] = items
            out[name] = value.reshape(shape)
        else:
            out[name] = draw(arrays.arrays(kind, shape))
    return out


@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(values=checkpoints())
def test_saved_tensors_are_read_back(values: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("round")
    names = [name.encode() for name in values]
    save(folder / "m", names, list(values.values()))
    kinds = [tf.string if v.dtype == object else v.dtype for v in values.values()]
    order = list(range(len(names)))
    random.Random(1).shuffle(order)
    read = restore(folder / "m", [names[i] for i in order], [kinds[i] for i in order])
    for i, got in zip(order, read, strict=True):
        assert same(got, list(values.values())[i])
    reader = tf.train.NewCheckpointReader(str(folder / "m"))
    assert reader.get_variable_to_shape_map() == {name: list(v.shape) for name, v in sorted(values.items())}
    shutil.rmtree(folder)


def test_large_tensors_are_read_in_pieces(tmp_path: Path) -> None:
    values = [np.random.default_rng(i).integers(0, 255, 700_000 * i + 3, np.uint8) for i in range(6)]
    names = [f"v{i}" for i in range(6)]
    save(tmp_path / "m", names, values)
    for got, value in zip(restore(tmp_path / "m", names, [tf.uint8] * 6), values, strict=True):
        np.testing.assert_array_equal(got, value)
    content = bytearray((tmp_path / ("m" + DATA)).read_bytes())
    content[-1_500_000] ^= 4
    (tmp_path / ("m" + DATA)).write_bytes(content)
    with pytest.raises(tf.errors.DataLossError, match="v5"):
        restore(tmp_path / "m", names, [tf.uint8] * 6)
    restore(tmp_path / "m", names[:5], [tf.uint8] * 5)


def test_an_index_of_many_blocks_is_read_back(tmp_path: Path) -> None:
    names = [f"{'layer' * 30}/{i}" for i in range(2500)]
    save(tmp_path / "m", names, [np.float32(i) for i in range(2500)])
    assert (tmp_path / "m.index").stat().st_size < 256 * 1024  # Shared prefixes are stored once.
    names = [f"{i * 7919 % 2500:05d}{'layer' * 30}" for i in range(2500)]
    save(tmp_path / "m", names, [np.float32(i) for i in range(2500)])
    assert (tmp_path / "m.index").stat().st_size > 256 * 1024
    assert restore(tmp_path / "m", names, [tf.float32] * 2500) == [float(i) for i in range(2500)]


def test_replacing_a_checkpoint_leaves_one_set_of_files(tmp_path: Path) -> None:
    for i in range(3):
        save(tmp_path / "m", ["v"], [np.float32(i)])
        assert restore(tmp_path / "m", ["v"], [tf.float32]) == [i]
        assert files(tmp_path) == ["m" + DATA, "m.index"]
    save(tmp_path / "n", ["v"], [np.float32(2)])
    for suffix in (DATA, ".index"):
        assert (tmp_path / ("m" + suffix)).read_bytes() == (tmp_path / ("n" + suffix)).read_bytes()


def test_leftovers_of_killed_writers_are_removed(tmp_path: Path) -> None:
    (tmp_path / ("m" + DATA + ".writing-0123456789abcdef")).write_bytes(b"x")
    (tmp_path / "notes.writing-tips").write_bytes(b"x")
    save(tmp_path / "m", ["v"], [np.float32(1)])
    assert files(tmp_path) == ["m" + DATA, "m.index", "notes.writing-tips"]


def merge(parts: list[Any], destination: Any, **attrs: Any) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(
            tf.raw_ops.MergeV2Checkpoints(
                checkpoint_prefixes=[str(p) for p in parts], destination_prefix=str(destination), **attrs
            )
        )


def test_merging_moves_the_parts(tmp_path: Path) -> None:
    parts = [tmp_path / "temp" / f"part{i}" for i in range(3)]
    for round_ in range(2):  # The second replaces the first.
        for i, part in enumerate(parts):
            save(part, ["rows", f"v{i}"], [np.full((2, 2), float(i)), np.int32(i + round_)], [f"6 2 {2 * i},2:-", ""])
        merge(parts, tmp_path / "m")
        assert files(tmp_path) == [*(f"m.data-0000{i}-of-00003" for i in range(3)), "m.index"]
        rows, last = restore(tmp_path / "m", ["rows", "v2"], [tf.float64, tf.int32])
        assert rows[:, 0].tolist() == [0, 0, 1, 1, 2, 2] and last == 2 + round_


def test_bundles_that_cannot_be_merged_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "a", ["v"], [np.float32(1)])
    save(tmp_path / "b", ["v"], [np.float32(1)])
    with pytest.raises(tf.errors.InvalidArgumentError, match="v"):
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "m")
    with pytest.raises(tf.errors.InvalidArgumentError, match="one of the checkpoints"):
        merge([tmp_path / "a"], tmp_path / "a")
    with pytest.raises(tf.errors.NotFoundError):
        merge([tmp_path / "a", tmp_path / "c"], tmp_path / "m")
    with pytest.raises(tf.errors.InvalidArgumentError, match="nothing to merge"):
        merge([tmp_path / "c"], tmp_path / "m", allow_missing_files=True)
    merge([tmp_path / "a", tmp_path / "c"], tmp_path / "m", allow_missing_files=True)
    assert restore(tmp_path / "m", ["v"], [tf.float32]) == [1]


@pytest.mark.parametrize(
    ("names", "slices", "value", "match"),
    [
        (["a", "a"], ["", ""], np.float32(1), "duplicate key: a"),
        ([""], [""], np.float32(1), "name"),
        (["a"], ["3 0,2"], np.zeros(3), "shape"),
        (["a"], ["3 2,2"], np.zeros(2), "outside"),
        (["a"], ["3"], np.zeros(3), "start and a length"),
        (["a"], ["x 0,1"], np.zeros(1), "not a size"),
        (["a"], ["-3 0,1"], np.zeros(1), "not a size"),
        (["a"], ["3 3 0,1"], np.zeros(1), "dimensions"),
        (["a"], ["99999999999999999999 0,1"], np.zeros(1), "not a size"),
        (["a"], ["9223372036854775807 4 0,1:-"], np.zeros((1, 4)), "elements"),
    ],
)
def test_bad_names_and_slices_are_refused(
    tmp_path: Path, names: list[str], slices: list[str], value: Any, match: str
) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=match):
        save(tmp_path / "m", names, [value] * len(names), slices)
    assert files(tmp_path) == []


def test_missing_tensors_and_files_are_named(tmp_path: Path) -> None:
    save(tmp_path / "m", ["v"], [np.arange(3, dtype=np.float32)])
    for call, error, match in (
        (lambda: restore(tmp_path / "n", ["v"], [tf.float32]), tf.errors.NotFoundError, "n.index"),
        (lambda: restore(tmp_path / "m", ["w"], [tf.float32]), tf.errors.NotFoundError, "Key w not found"),
        (lambda: restore(tmp_path / "m", ["v"], [tf.int32]), tf.errors.InvalidArgumentError, "int32.*float32"),
        (lambda: restore(tmp_path / "m", ["v"], [tf.float32], ["4 0,1"]), tf.errors.InvalidArgumentError, "4.*3"),
        (lambda: restore(tmp_path, ["v"], [tf.float32]), tf.errors.NotFoundError, "index"),
        (lambda: save(tmp_path / "x" / "y" / "m", ["v"], [np.zeros(1)]), tf.errors.NotFoundError, "x/y"),
        (lambda: save(f"{tmp_path}/", ["v"], [np.zeros(1)]), tf.errors.InvalidArgumentError, "prefix"),
        (lambda: save("", ["v"], [np.zeros(1)]), tf.errors.InvalidArgumentError, "prefix"),
    ):
        with pytest.raises(error, match=match):
            call()
    (tmp_path / ("m" + DATA)).unlink()
    with pytest.raises(tf.errors.NotFoundError, match=r"m.data"):
        restore(tmp_path / "m", ["v"], [tf.float32])


def _small(folder: Path) -> dict[str, Any]:
    values = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([b"xy", b"", b"z"], object),
        "c": np.float64(2.5), "d": np.array([1, 2], ml_dtypes.bfloat16),
    }  # fmt: skip
    save(
        folder / "m", [*values, "p", "p"], [*values.values(), np.zeros(2), np.ones(1)],
        [""] * 4 + ["3 0,2", "3 2,1"],
    )  # fmt: skip
    return values


def read_all(prefix: Path) -> dict[str, Any]:
    reader = tf.train.NewCheckpointReader(str(prefix))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


@pytest.mark.parametrize("suffix", [".index", DATA])
def test_every_flipped_bit_is_found(tmp_path: Path, suffix: str) -> None:
    _small(tmp_path)
    path = tmp_path / ("m" + suffix)
    good = path.read_bytes()
    for i in range(len(good)):
        bad = bytearray(good)
        bad[i] ^= 1 << (i % 8)
        path.write_bytes(bad)
        with pytest.raises((tf.errors.DataLossError, tf.errors.UnimplementedError), match=r"m."):
            read_all(tmp_path / "m")


@pytest.mark.parametrize("suffix", [".index", DATA])
def test_every_truncation_is_found(tmp_path: Path, suffix: str) -> None:
    _small(tmp_path)
    path = tmp_path / ("m" + suffix)
    good = path.read_bytes()
    for size in range(len(good)):
        path.write_bytes(good[:size])
        with pytest.raises(tf.errors.DataLossError, match=r"m."):
            read_all(tmp_path / "m")


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    _small(tmp_path)
    for content in (b"", b"PK\3\4" * 50, b"\0" * 1000, (tmp_path / ("m" + DATA)).read_bytes() * 9):
        (tmp_path / "m.index").write_bytes(content)
        with pytest.raises(tf.errors.DataLossError, match=r"m.index"):
            read_all(tmp_path / "m")
    (tmp_path / "m.index").unlink()
    (tmp_path / "m.index").mkdir()
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"m.index"):
        read_all(tmp_path / "m")
    (tmp_path / "m.index").rmdir()
    os.mkfifo(tmp_path / "m.index")
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"m.index"):
        read_all(tmp_path / "m")


def _with_checksum(block: bytes) -> bytes:
    from thalweg._native import core

    return block + b"\0" + int(core.masked_crc32c(block + b"\0")).to_bytes(4, "little")


def test_mutations_with_right_checksums_never_crash(tmp_path: Path) -> None:
    """Damage that the checksums do not show: files of a hostile writer."""
    _small(tmp_path)
    path = tmp_path / "m.index"
    good = path.read_bytes()
    blocks = good[: len(good) - 48]
    rng = random.Random(5)
    # The layout of a small index: one block of data, an empty one, one of handles, and the footer.
    end = blocks.rfind(b"\0\0\0\0\1\0\0\0\0\xc0\xf2\xa1\xb0")
    data = blocks[: end - 5]
    outcomes = set()
    for _ in range(600):
        bad = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            bad[rng.randrange(len(bad))] = rng.choice([0, 1, 2, 127, 128, 255, rng.randrange(256)])
        path.write_bytes(_with_checksum(bytes(bad)) + good[end:])
        try:
            read_all(tmp_path / "m")
            outcomes.add("read")
        except tf.errors.OpError as e:
            outcomes.add(type(e).__name__)
    assert "DataLossError" in outcomes and len(outcomes) > 1, outcomes


def test_random_bytes_never_crash(tmp_path: Path) -> None:
    _small(tmp_path)
    rng = random.Random(6)
    for suffix in (".index", DATA):
        path = tmp_path / ("m" + suffix)
        good = path.read_bytes()
        for _ in range(150):
            bad = bytearray(good)
            start = rng.randrange(len(bad))
            if rng.random() < 0.5:
                bad[start : start + rng.randrange(20)] = rng.randbytes(rng.randrange(20))
            else:
                bad = bytearray(rng.randbytes(rng.randrange(200))) + bad[-48:]
            path.write_bytes(bad)
            try:
                values = read_all(tmp_path / "m")
                assert same(values["c"], np.float64(2.5)) and bytes(bad) == good
            except tf.errors.OpError:
                pass
        path.write_bytes(good)


def test_the_checksum_is_crc32c() -> None:
    from thalweg._native import core

    assert core.crc32c(b"123456789", 0) == 0xE3069283
    assert core.crc32c(b"\0" * 32, 0) == 0x8A9136AA
    rng = np.random.default_rng(0)
    for size in (0, 1, 7, 4095, 12287, 12288, 12289, 50001):
        data = rng.bytes(size)
        table = 0xFFFFFFFF
        for byte in data[:300]:
            table ^= byte
            for _ in range(8):
                table = table >> 1 ^ (0x82F63B78 if table & 1 else 0)
        assert core.crc32c(data[:300], 0) == table ^ 0xFFFFFFFF
        split = size // 3
        assert core.crc32c(data, 0) == core.crc32c(data[split:], core.crc32c(data[:split], 0))
