"""`tf.gfile`: files and directories, with TensorFlow's names, and Thalweg's errors in place of OSError.

Paths may be strings, bytes or path objects, with or without `file://` in front. Other schemes go through fsspec
(`platform/remote_files.py`), if that is installed; otherwise they raise UnimplementedError.
Listings are sorted, so that a program does not depend on the order in which a file system keeps its entries.
"""

from __future__ import annotations

import contextlib
import os
import stat as stat_module
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from thalweg import errors
from thalweg.platform.file_object import GFile as GFile
from thalweg.platform.file_paths import local_path, os_errors
from thalweg.platform.remote_files import remote, remote_errors

FastGFile = GFile
Open = GFile


class FileStatistics(NamedTuple):
    """The result of `Stat`: bytes, time of the last change in nanoseconds since 1970, whether a directory."""

    length: int
    mtime_nsec: int
    is_directory: bool


def Exists(filename: Any) -> bool:
    """Whether a file or directory exists."""
    if (found := remote(filename)) is not None:
        with remote_errors(filename):
            return bool(found.system.exists(found.path))
    return os.path.exists(local_path(filename))


def IsDirectory(dirname: Any) -> bool:
    """Whether a path is that of a directory."""
    if (found := remote(dirname)) is not None:
        with remote_errors(dirname):
            return bool(found.system.isdir(found.path))
    return os.path.isdir(local_path(dirname))


def Stat(filename: Any) -> FileStatistics:
    """Size, time of the last change, and kind of a file; raises NotFoundError if there is none."""
    if (found := remote(filename)) is not None:
        with remote_errors(filename):
            info = found.system.info(found.path)
            is_directory = info["type"] == "directory"
            changed = None if is_directory else found.system.modified(found.path)
            nanoseconds = int(changed.timestamp() * 1e9) if changed is not None else 0
            return FileStatistics(int(info["size"] or 0), nanoseconds, is_directory)
    with os_errors(filename):
        result = os.stat(local_path(filename))
    return FileStatistics(result.st_size, result.st_mtime_ns, stat_module.S_ISDIR(result.st_mode))


def ListDirectory(dirname: Any) -> list[str]:
    """The names in a directory, sorted; raises NotFoundError if it is none."""
    if not IsDirectory(dirname):
        raise errors.NotFoundError(None, None, f"Could not find directory {dirname}")
    if (found := remote(dirname)) is not None:
        with remote_errors(dirname):
            listed = found.system.ls(found.path, detail=False)
        return sorted(name for name in (each.rstrip("/").rpartition("/")[2] for each in listed) if name)
    with os_errors(dirname):
        return sorted(os.listdir(local_path(dirname)))


def Glob(filename: Any) -> list[str]:
    """The paths that match a pattern, or one of several: `*`, `?`, `[...]` and `[^...]` within one directory level.

    Names that begin with a dot match like any other. No match gives an empty list.
    """
    import glob

    patterns: Iterable[Any] = [filename] if isinstance(filename, (str, bytes, os.PathLike)) else filename
    found: list[str] = []
    for pattern in patterns:
        if (elsewhere := remote(pattern)) is not None:
            with remote_errors(pattern):
                matches = elsewhere.system.glob(elsewhere.path)
            found.extend(sorted(elsewhere.named(path) for path in matches))
            continue
        # Python spells the complement of a set with another character.
        matches = glob.glob(local_path(pattern).replace("[^", "[!"), include_hidden=True)
        found.extend(sorted(path for path in matches if path))
    return found


def MkDir(dirname: Any) -> None:
    """Creates a directory, whose parent must exist; that the directory exists already is no error."""
    if (found := remote(dirname)) is not None:
        with remote_errors(dirname), contextlib.suppress(FileExistsError):
            found.system.mkdir(found.path, create_parents=False)
        return
    with os_errors(dirname), contextlib.suppress(FileExistsError):
        os.mkdir(local_path(dirname))


def MakeDirs(dirname: Any) -> None:
    """Creates a directory and the missing ones above it; that it exists already is no error.

    Raises:
        FailedPreconditionError: If a file is in the way.
    """
    if (found := remote(dirname)) is not None:
        with remote_errors(dirname):
            found.system.makedirs(found.path, exist_ok=True)
        return
    path = local_path(dirname)
    if not path:
        return
    try:
        os.makedirs(path, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise errors.FailedPreconditionError(None, None, f"{error.filename} is not a directory") from error
    except OSError:
        with os_errors(dirname):
            raise


def Remove(filename: Any) -> None:
    """Deletes a file; raises NotFoundError if there is none, and FailedPreconditionError if it is a directory."""
    if (found := remote(filename)) is not None:
        with remote_errors(filename):
            if found.system.isdir(found.path):
                raise errors.FailedPreconditionError(None, None, f"{filename} is a directory")
            found.system.rm_file(found.path)
        return
    with os_errors(filename):
        os.remove(local_path(filename))


def DeleteRecursively(dirname: Any) -> None:
    """Deletes a directory with its contents (or a file); raises NotFoundError if there is none."""
    import shutil

    if (found := remote(dirname)) is not None:
        with remote_errors(dirname):
            found.system.rm(found.path, recursive=True)
        return
    path = local_path(dirname)
    with os_errors(dirname):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.remove(path)


def Rename(oldname: Any, newname: Any, overwrite: bool = False) -> None:
    """Renames or moves a file or directory; raises AlreadyExistsError if the new name is taken, unless `overwrite`."""
    if not overwrite and Exists(newname):
        raise errors.AlreadyExistsError(
            None, None, f"{newname}; file already exists: pass overwrite=True to replace it"
        )
    if (old := remote(oldname)) is not None or remote(newname) is not None:
        new = remote(newname)
        if old is None or new is None or old.scheme != new.scheme:
            raise errors.UnimplementedError(None, None, f"Renaming {oldname} to {newname} on another file system")
        with remote_errors(oldname):
            old.system.mv(old.path, new.path, recursive=old.system.isdir(old.path))
        return
    with os_errors(oldname):
        os.replace(local_path(oldname), local_path(newname))


def Copy(oldpath: Any, newpath: Any, overwrite: bool = False) -> None:
    """Copies a file; raises AlreadyExistsError if the new path is taken, unless `overwrite`."""
    import shutil

    if not overwrite and Exists(newpath):
        raise errors.AlreadyExistsError(
            None, None, f"{newpath}; file already exists: pass overwrite=True to replace it"
        )
    if remote(oldpath) is not None or remote(newpath) is not None:
        with GFile(oldpath, "rb") as source, GFile(newpath, "wb") as target:
            while block := source.read(1 << 22):
                target.write(block)
        return
    try:
        shutil.copyfile(local_path(oldpath), local_path(newpath))
    except shutil.SameFileError as error:
        raise errors.InvalidArgumentError(None, None, f"Cannot copy a file to itself: {oldpath}") from error
    except OSError as error:
        with os_errors(error.filename or oldpath):
            raise


def Walk(top: Any, in_order: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    """Walks through a directory tree.

    Args:
        top: Where to begin. If it is no directory, nothing is found.
        in_order: Whether a directory comes before those below it, or after them.

    Yields:
        The path of a directory, the names of the directories in it, and those of the files in it.
    """
    path = os.fsdecode(top)
    if not IsDirectory(path):
        return
    directories: list[str] = []
    files: list[str] = []
    for name in ListDirectory(path):
        (directories if IsDirectory(os.path.join(path, name)) else files).append(name)
    if in_order:
        yield path, directories, files
    for name in list(directories):
        yield from Walk(os.path.join(path, name), in_order)
    if not in_order:
        yield path, directories, files
