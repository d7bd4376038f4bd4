"""read_file, write_file and matching_files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg import errors


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("b.txt", "a.txt", ".hidden.txt", "c.dat"):
        Path(name).write_bytes(name.encode() + b"\0\xff")
    os.mkdir("sub")
    Path("sub/d.txt").write_bytes(b"")


def run(fetches: Any, **feeds: Any) -> Any:
    with tf.Session() as session:
        return session.run(fetches, {tf.get_default_graph().get_tensor_by_name(f"{k}:0"): v for k, v in feeds.items()})


def test_reading_a_file() -> None:
    assert run(tf.read_file("a.txt")) == b"a.txt\0\xff"
    assert run(tf.io.read_file(f"file://{os.path.abspath('sub/d.txt')}")) == b""
    assert tf.read_file("a.txt").shape == ()
    Path("large").write_bytes(os.urandom(300_000))
    assert run(tf.read_file("large")) == Path("large").read_bytes()


def test_a_file_whose_size_is_not_known_beforehand() -> None:
    assert run(tf.read_file("/proc/self/status")).startswith(b"Name:")


def test_a_file_is_read_in_each_step() -> None:
    content = tf.read_file("a.txt")
    with tf.Session() as session:
        for expected in (b"1", b"2"):
            Path("a.txt").write_bytes(expected)
            assert session.run(content) == expected


def test_files_that_cannot_be_read() -> None:
    for name, error in [
        ("nowhere", errors.NotFoundError),
        ("sub", errors.FailedPreconditionError),
        ("a.txt/x", errors.FailedPreconditionError),
        ("a\0b", errors.InvalidArgumentError),
        ("", errors.NotFoundError),
        ("x" * 5000, errors.InvalidArgumentError),
        ("s3://bucket/file", errors.UnimplementedError),
    ]:
        with pytest.raises(error):
            run(tf.read_file(name))
    with pytest.raises(ValueError, match="rank"):
        tf.read_file(["a.txt"])
    with pytest.raises(errors.InvalidArgumentError, match="filename must be a scalar"):
        run(tf.read_file(tf.placeholder(tf.string, name="p")), p=["a.txt"])


def test_writing_a_file() -> None:
    assert run(tf.write_file("new/deep/file", b"\0content")) is None
    assert Path("new/deep/file").read_bytes() == b"\0content"
    run(tf.io.write_file("new/deep/file", ""))
    assert Path("new/deep/file").read_bytes() == b""


def test_files_that_cannot_be_written() -> None:
    for name, error in [
        ("sub", errors.FailedPreconditionError),
        ("a.txt/x", errors.FailedPreconditionError),
        ("/dev/full", errors.ResourceExhaustedError),
        ("a\0b", errors.InvalidArgumentError),
        ("", errors.NotFoundError),
    ]:
        with pytest.raises(error):
            run(tf.write_file(name, "x"))
    with pytest.raises(ValueError, match="rank"):
        tf.write_file("x", ["a", "b"])


# TensorFlow's results for the same names.
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.txt", [b"./.hidden.txt", b"./a.txt", b"./b.txt"]),
        ("[ab].txt", [b"./a.txt", b"./b.txt"]),
        ("./?.dat", [b"./c.dat"]),
        ("sub/*", [b"sub/d.txt"]),
        ("*/*.txt", [b"sub/d.txt"]),
        ("nowhere*", []),
        ("nowhere/x", []),
        (["sub/*", "b*", "a.txt", "b.txt"], [b"./a.txt", b"./b.txt", b"./b.txt", b"sub/d.txt"]),
        ([], []),
    ],
)
def test_matching_files(pattern: Any, expected: list[bytes]) -> None:
    names = tf.matching_files(tf.constant(pattern, tf.string, [len(pattern)] if isinstance(pattern, list) else []))
    assert names.shape.as_list() == [None]
    found = run(names)
    assert found.tolist() == expected
    assert found.shape == (len(expected),)


def test_absolute_patterns(tmp_path: Path) -> None:
    assert run(tf.io.matching_files(f"{tmp_path}/*.dat")).tolist() == [bytes(tmp_path / "c.dat")]


def test_patterns_have_at_most_one_dimension() -> None:
    with pytest.raises(ValueError, match="rank"):
        tf.matching_files(np.array([["a"]]))
