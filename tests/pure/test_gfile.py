"""Tests of tf.gfile: files, directories, and the errors for what is not there or not allowed."""

import doctest
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from thalweg import errors
from thalweg.platform import file_object, gfile, gfile_functions


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A directory with a.txt, .hidden, sub/b.txt and the empty sub/deep."""
    (tmp_path / "a.txt").write_text("one\ntwo\nthree")
    (tmp_path / ".hidden").write_text("")
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    (tmp_path / "sub" / "b.txt").write_text("b")
    return tmp_path


def test_reading_text_and_bytes(tree: Path) -> None:
    (tree / "u").write_bytes("aü€\nx".encode())
    assert gfile.GFile(tree / "u").read() == "aü€\nx"
    assert gfile.GFile(str(tree / "u"), "rb").read() == "aü€\nx".encode()
    assert gfile.GFile(tree / "u", "rb").read(2) == b"a\xc3"
    with gfile.Open(tree / "u") as file:
        assert [file.read(2), file.tell(), file.read(1), file.tell()] == ["aü", 3, "€", 6]
        assert file.read() == "\nx"
        assert file.read() == file.readline() == ""


def test_reading_lines(tree: Path) -> None:
    (tree / "crlf").write_bytes(b"x\r\ny\r\n")
    file = gfile.FastGFile(tree / "a.txt", "r")
    assert file.readline() == "one\n"
    assert next(file) == "two\n"
    assert file.readlines() == ["three"]
    assert list(gfile.GFile(tree / "a.txt")) == ["one\n", "two\n", "three"]
    assert list(gfile.GFile(tree / "crlf")) == ["x\n", "y\n"]
    assert list(gfile.GFile(tree / "crlf", "rb")) == [b"x\r\n", b"y\r\n"]


def test_writing_and_appending(tree: Path) -> None:
    path = tree / "w"
    with gfile.GFile(path, "w") as file:
        file.write("ü")
        file.write(b"x")
        assert file.tell() == 3
        assert file.size() == 3
    with gfile.GFile(path, "a") as file:
        file.write("!")
    assert path.read_bytes() == "üx!".encode()
    with gfile.GFile(path, "wb"):
        pass
    assert path.read_bytes() == b"", "opened for writing, nothing written"


def test_flush_makes_what_was_written_visible(tree: Path) -> None:
    file = gfile.GFile(tree / "w", "w")
    file.write("abc")
    file.flush()
    assert (tree / "w").read_text() == "abc"
    file.write("def")
    del file
    assert (tree / "w").read_text() == "abcdef", "closed by the garbage collector"


@pytest.mark.parametrize(("mode", "text"), [("w+", "new"), ("r+", "new"), ("a+", "onetwonew")])
def test_both_ways(tree: Path, mode: str, text: str) -> None:
    (tree / "f").write_text("onetwo")
    with gfile.GFile(tree / "f", mode) as file:
        file.write("new")
        assert file.read() == text
        file.seek(0)
        assert file.read() == text


@pytest.mark.parametrize("mode", ["w+", "r+"])
def test_a_file_keeps_its_content_until_the_first_write(tree: Path, mode: str) -> None:
    (tree / "f").write_text("old")
    with gfile.GFile(tree / "f", mode) as file:
        assert file.read() == "old"
        assert (tree / "f").read_text() == "old"
        file.write("new")
    assert (tree / "f").read_text() == "new"


def test_seeking(tree: Path) -> None:
    file = gfile.GFile(tree / "a.txt")
    file.seek(4)
    assert file.read(3) == "two"
    file.seek(-3, 1)
    assert file.read(3) == "two"
    file.seek(-5, whence=2)
    assert file.read() == "three"
    file.seek(position=0)
    assert (file.tell(), file.seekable()) == (0, True)
    with pytest.raises(errors.InvalidArgumentError, match="negative position: -1"):
        file.seek(-1)
    with pytest.raises(errors.InvalidArgumentError, match="whence argument: 9"):
        file.seek(0, 9)
    with pytest.raises(errors.OutOfRangeError, match="100 is behind the end of the file, at 13"):
        file.seek(100)
    assert file.tell() == 13
    with pytest.raises(TypeError, match="offset"):
        file.seek()


def test_a_file_serves_libraries_that_take_files(tree: Path) -> None:
    with gfile.GFile(tree / "p", "wb") as file:
        pickle.dump({"a": 1}, file)  # type: ignore[arg-type]
        np.save(file, np.arange(3))  # type: ignore[arg-type]
    with gfile.GFile(tree / "p", "rb") as file:
        assert pickle.load(file) == {"a": 1}  # type: ignore[arg-type]
        assert np.load(file).tolist() == [0, 1, 2]  # type: ignore[arg-type]


def test_a_file_opens_only_when_it_is_used(tree: Path) -> None:
    file = gfile.GFile(tree / "no")
    assert (file.name, file.mode) == (tree / "no", "r")
    with pytest.raises(errors.NotFoundError, match="no; No such file"):
        file.read()


@pytest.mark.parametrize("mode", ["", "x", "rw", "b", "rbb", "+"])
def test_a_mode_that_does_not_exist_is_refused(tree: Path, mode: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="mode is not"):
        gfile.GFile(tree / "a.txt", mode)


def test_the_wrong_direction_is_refused(tree: Path) -> None:
    with pytest.raises(errors.PermissionDeniedError, match="for writing"):
        gfile.GFile(tree / "a.txt").write("x")
    with pytest.raises(errors.PermissionDeniedError, match="for reading"):
        gfile.GFile(tree / "a.txt", "a").read()
    with pytest.raises(TypeError, match="text or bytes"):
        gfile.GFile(tree / "w", "w").write(3)  # type: ignore[arg-type]
    assert (tree / "a.txt").read_text() == "one\ntwo\nthree"


def test_text_that_is_not_utf8_is_reported(tree: Path) -> None:
    (tree / "latin").write_bytes(b"\xe4\xf6")
    with pytest.raises(UnicodeDecodeError):
        gfile.GFile(tree / "latin").read()
    with pytest.raises(UnicodeDecodeError):
        gfile.GFile(tree / "latin").read(1)


def test_existence_kind_and_size(tree: Path) -> None:
    assert gfile.Exists(tree) and gfile.Exists(tree / "a.txt") and gfile.Exists(os.fsencode(tree))
    assert gfile.Exists(f"file://{tree}")
    assert not gfile.Exists(tree / "no") and not gfile.Exists("")
    assert gfile.IsDirectory(tree)
    assert not gfile.IsDirectory(tree / "a.txt") and not gfile.IsDirectory(tree / "no")
    result = gfile.Stat(tree / "a.txt")
    assert (result.length, result.is_directory) == (13, False)
    assert result.mtime_nsec == (tree / "a.txt").stat().st_mtime_ns
    assert gfile.Stat(tree).is_directory
    assert gfile.GFile(tree / "a.txt").size() == 13


def test_listing_and_patterns(tree: Path) -> None:
    assert gfile.ListDirectory(tree) == [".hidden", "a.txt", "sub"]
    assert gfile.Glob(f"{tree}/*.txt") == [f"{tree}/a.txt"]
    assert gfile.Glob(tree / "*") == [f"{tree}/{name}" for name in (".hidden", "a.txt", "sub")]
    assert gfile.Glob([f"{tree}/*/?.txt", f"{tree}/[a-c].txt"]) == [f"{tree}/sub/b.txt", f"{tree}/a.txt"]
    assert gfile.Glob(f"{tree}/none*") == gfile.Glob("") == gfile.Glob([]) == []


def test_walking(tree: Path) -> None:
    top, sub, deep = str(tree), str(tree / "sub"), str(tree / "sub" / "deep")
    down = [(top, ["sub"], [".hidden", "a.txt"]), (sub, ["deep"], ["b.txt"]), (deep, [], [])]
    assert list(gfile.Walk(tree)) == down
    assert list(gfile.Walk(tree, in_order=False)) == down[::-1]
    assert list(gfile.Walk(tree / "no")) == list(gfile.Walk(tree / "a.txt")) == []


def test_making_directories(tree: Path) -> None:
    gfile.MkDir(tree / "new")
    gfile.MkDir(tree / "new")
    gfile.MakeDirs(tree / "x" / "y" / "z")
    gfile.MakeDirs(tree / "x" / "y" / "z")
    assert (tree / "new").is_dir() and (tree / "x" / "y" / "z").is_dir()
    gfile.MakeDirs("")
    with pytest.raises(errors.NotFoundError):
        gfile.MkDir(tree / "no" / "parent")
    for bad in ("a.txt", "a.txt/b"):
        with pytest.raises(errors.FailedPreconditionError, match="is not a directory"):
            gfile.MakeDirs(tree / bad)


def test_deleting(tree: Path) -> None:
    gfile.Remove(tree / "a.txt")
    assert not (tree / "a.txt").exists()
    with pytest.raises(errors.NotFoundError):
        gfile.Remove(tree / "a.txt")
    with pytest.raises(errors.FailedPreconditionError):
        gfile.Remove(tree / "sub")
    (tree / "link").symlink_to(tree / "sub")
    gfile.DeleteRecursively(tree / "link")
    assert (tree / "sub" / "b.txt").exists(), "deleting a link leaves what it points to"
    gfile.DeleteRecursively(tree / "sub")
    gfile.DeleteRecursively(tree / ".hidden")
    assert os.listdir(tree) == []
    with pytest.raises(errors.NotFoundError):
        gfile.DeleteRecursively(tree / "sub")


@pytest.mark.parametrize("move", [gfile.Rename, gfile.Copy])
def test_renaming_and_copying(tree: Path, move: Any) -> None:
    move(tree / "a.txt", tree / "c.txt")
    assert (tree / "c.txt").read_text().startswith("one")
    assert (tree / "a.txt").exists() == (move is gfile.Copy)
    with pytest.raises(errors.AlreadyExistsError, match="overwrite=True"):
        move(tree / "c.txt", tree / "sub" / "b.txt")
    assert (tree / "sub" / "b.txt").read_text() == "b"
    move(tree / "c.txt", tree / "sub" / "b.txt", overwrite=True)
    assert (tree / "sub" / "b.txt").read_text().startswith("one")
    with pytest.raises(errors.NotFoundError):
        move(tree / "no", tree / "d.txt")
    with pytest.raises(errors.NotFoundError):
        move(tree / "sub" / "b.txt", tree / "no" / "d.txt")


def test_copying_what_cannot_be_copied(tree: Path) -> None:
    with pytest.raises(errors.FailedPreconditionError):
        gfile.Copy(tree / "sub", tree / "d")
    with pytest.raises(errors.InvalidArgumentError, match="to itself"):
        gfile.Copy(tree / "a.txt", tree / "a.txt", overwrite=True)


@pytest.mark.parametrize("function", [gfile.Stat, gfile.ListDirectory])
def test_what_does_not_exist_is_not_found(tree: Path, function: Any) -> None:
    with pytest.raises(errors.NotFoundError):
        function(tree / "no")


@pytest.mark.parametrize(
    "function",
    [gfile.Exists, gfile.Stat, gfile.Glob, gfile.MakeDirs, lambda path: gfile.GFile(path).read(), gfile.Remove],
)
def test_other_file_systems_are_not_implemented(function: Any) -> None:
    with pytest.raises(errors.UnimplementedError, match="scheme 'gs' not implemented"):
        function("gs://bucket/file")


@pytest.mark.parametrize("path", [None, 5, 1.5, ["a"]])
def test_a_path_must_be_a_path(path: Any) -> None:
    with pytest.raises(TypeError):
        gfile.Exists(path)
    with pytest.raises(TypeError):
        gfile.GFile(path).read()


def test_the_operating_systems_error_is_the_cause(tree: Path) -> None:
    with pytest.raises(errors.FailedPreconditionError, match="Is a directory") as info:
        gfile.GFile(tree).read()
    assert isinstance(info.value.__cause__, IsADirectoryError)


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(file_object).failed == 0


def test_later_names_do_the_same(tree: Path) -> None:
    functions = gfile_functions
    functions.makedirs(path=tree / "new" / "deep")
    functions.mkdir(path=tree / "new")
    functions.copy(src=tree / "a.txt", dst=tree / "new" / "c")
    with pytest.raises(errors.AlreadyExistsError):
        functions.copy(tree / "a.txt", tree / "new" / "c")
    functions.rename(src=tree / "new" / "c", dst=tree / "new" / "d", overwrite=True)
    assert functions.listdir(path=tree / "new") == ["d", "deep"]
    assert functions.isdir(path=tree / "new") and functions.exists(path=tree / "new" / "d")
    assert functions.stat(path=tree / "a.txt").length == 13
    assert functions.glob(pattern=tree / "new" / "[^e]") == [str(tree / "new" / "d")]
    assert functions.join(str(tree), "new", "d") == str(tree / "new" / "d")
    assert [top for top, _, _ in functions.walk(tree / "new", topdown=False)][-1] == str(tree / "new")
    functions.remove(path=tree / "new" / "d")
    functions.rmtree(path=tree / "new")
    assert not functions.exists(tree / "new")
    assert functions.get_registered_schemes() == ["", "file"]
    with functions.GFile(name=tree / "a.txt", mode="rb") as file:
        assert file.read(3) == b"one"


def test_walking_can_report_what_cannot_be_listed(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Any) -> list[str]:
        raise errors.PermissionDeniedError(None, None, str(path))

    monkeypatch.setattr(gfile, "ListDirectory", refuse)
    with pytest.raises(errors.PermissionDeniedError):
        list(gfile_functions.walk(tree))
    seen: list[errors.OpError] = []
    assert list(gfile_functions.walk(tree, onerror=seen.append)) == []
    assert [type(error) for error in seen] == [errors.PermissionDeniedError]


def test_reading_and_writing_creates_a_file_that_does_not_exist(tmp_path: Path) -> None:
    path = str(tmp_path / "new")
    with gfile.GFile(path, "r+") as file:
        file.write("text")
        assert file.read() == "text"
