"""`tf.io.gfile`: the functions of `tf.gfile` under their later names and with the later names of their arguments."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from thalweg import errors
from thalweg.platform import gfile
from thalweg.platform.file_object import GFile

__all__ = [
    "GFile", "copy", "exists", "get_registered_schemes", "glob", "isdir", "join", "listdir", "makedirs", "mkdir",
    "remove", "rename", "rmtree", "stat", "walk",
]  # fmt: skip


def copy(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Copies a file; raises AlreadyExistsError if `dst` is taken, unless `overwrite`."""
    gfile.Copy(src, dst, overwrite)


def exists(path: Any) -> bool:
    """Whether a file or directory exists."""
    return gfile.Exists(path)


def get_registered_schemes() -> list[str]:
    """The schemes that paths may begin with, before `://`; the empty one is that of local files."""
    return ["", "file"]


def glob(pattern: Any) -> list[str]:
    """The paths that match a pattern, or one of several."""
    return gfile.Glob(pattern)


def isdir(path: Any) -> bool:
    """Whether a path is that of a directory."""
    return gfile.IsDirectory(path)


def join(path: Any, *paths: Any) -> Any:
    """Puts the parts of a path together."""
    return os.path.join(path, *paths)


def listdir(path: Any) -> list[str]:
    """The names in a directory; raises NotFoundError if it is none."""
    return gfile.ListDirectory(path)


def makedirs(path: Any) -> None:
    """Creates a directory and the missing ones above it; that it exists already is no error."""
    gfile.MakeDirs(path)


def mkdir(path: Any) -> None:
    """Creates a directory, whose parent must exist; that the directory exists already is no error."""
    gfile.MkDir(path)


def remove(path: Any) -> None:
    """Deletes a file; raises NotFoundError if there is none."""
    gfile.Remove(path)


def rename(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Renames or moves; raises AlreadyExistsError if `dst` is taken, unless `overwrite`."""
    gfile.Rename(src, dst, overwrite)


def rmtree(path: Any) -> None:
    """Deletes a directory with its contents; raises NotFoundError if there is none."""
    gfile.DeleteRecursively(path)


def stat(path: Any) -> gfile.FileStatistics:
    """Size, time of the last change, and kind of a file; raises NotFoundError if there is none."""
    return gfile.Stat(path)


def walk(
    top: Any, topdown: bool = True, onerror: Callable[[errors.OpError], Any] | None = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Walks through a directory tree.

    Args:
        top: Where to begin. If it is no directory, nothing is found.
        topdown: Whether a directory comes before those below it, or after them.
        onerror: Called with the error of a directory that cannot be listed; without it, the error is raised.

    Yields:
        The path of a directory, the names of the directories in it, and those of the files in it.
    """
    try:
        yield from gfile.Walk(top, topdown)
    except errors.OpError as error:
        if onerror is None:
            raise
        onerror(error)
