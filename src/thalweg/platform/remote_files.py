"""Files elsewhere: paths with a scheme (s3://, gs://, hdfs://, memory://) through fsspec, which is an extra.

`pip install 'thalweg[fsspec]'`, and what fsspec itself asks for: s3fs for s3://, gcsfs for gs://, pyarrow for hdfs://.

An object store has no rename that is atomic and no directories. So a file appears when it is closed, as a whole; and
what has to appear together (a checkpoint) is written in an order in which the last file makes the others count.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

from thalweg import errors


class RemoteFile(NamedTuple):
    """A path of another file system.

    Attributes:
        system: fsspec's file system.
        path: The path in it, without the scheme.
        scheme: What stands before '://'.
    """

    system: Any
    path: str
    scheme: str

    def named(self, path: str) -> str:
        """A path of this file system with its scheme."""
        return f"{self.scheme}://{path.lstrip('/') if self.scheme == 'memory' else path}"


def is_remote(path: Any) -> bool:
    """Whether a path has a scheme other than file://."""
    text = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
    scheme, separator, _ = text.partition("://")
    return bool(separator) and scheme != "file" and scheme.replace("+", "").replace("-", "").isalnum()


def remote(path: Any) -> RemoteFile | None:
    """The file system and path behind a path with a scheme; None for a local one.

    Raises:
        UnimplementedError: If fsspec, or what it needs for this scheme, is not installed, or it knows no such scheme.
    """
    if not is_remote(path):
        return None
    text = os.fsdecode(path)
    scheme = text.partition("://")[0]
    try:
        import fsspec  # An extra; and start-up time.
    except ModuleNotFoundError:
        raise errors.UnimplementedError(
            None, None, f"File system scheme '{scheme}' not implemented (file: '{text}'): pip install 'thalweg[fsspec]'"
        ) from None
    try:
        system, inner = fsspec.core.url_to_fs(text)
    except (ImportError, ValueError) as e:
        raise errors.UnimplementedError(
            None, None, f"File system scheme '{scheme}' not implemented (file: '{text}'): {e}"
        ) from None
    return RemoteFile(system, inner, scheme)


@contextlib.contextmanager
def remote_errors(path: Any) -> Iterator[None]:
    """Turns what file systems raise into Thalweg's errors."""
    try:
        yield
    except errors.OpError:
        raise
    except FileNotFoundError as e:
        raise errors.NotFoundError(None, None, f"{path}; {e}") from e
    except FileExistsError as e:
        raise errors.AlreadyExistsError(None, None, f"{path}; {e}") from e
    except PermissionError as e:
        raise errors.PermissionDeniedError(None, None, f"{path}; {e}") from e
    except (IsADirectoryError, NotADirectoryError) as e:
        raise errors.FailedPreconditionError(None, None, f"{path}; {e}") from e
    except (TimeoutError, ConnectionError) as e:
        raise errors.UnavailableError(None, None, f"{path}; {e}") from e
    except OSError as e:
        raise errors.UnknownError(None, None, f"{path}; {e}") from e


def open_remote(path: str | bytes) -> IO[bytes]:
    """A file object to read from; also for the native readers."""
    found = _required(path)
    with remote_errors(os.fsdecode(path)):
        opened: IO[bytes] = found.system.open(found.path, "rb")
    return opened


def write_remote(path: str | bytes, content: bytes) -> None:
    """Replaces or creates a file, and the folders above it."""
    found = _required(path)
    with remote_errors(os.fsdecode(path)):
        make_parent(found)
        found.system.pipe_file(found.path, content)


def upload(local: str | bytes, path: str | bytes) -> None:
    """Replaces or creates a file by the content of a local one, and the folders above it."""
    found = _required(path)
    with remote_errors(os.fsdecode(path)):
        make_parent(found)
        found.system.put_file(os.fsdecode(local), found.path)


def exists_remotely(path: str | bytes) -> bool:
    """Whether there is such a file."""
    found = _required(path)
    with remote_errors(os.fsdecode(path)):
        return bool(found.system.exists(found.path))


def _required(path: str | bytes) -> RemoteFile:
    found = remote(path)
    assert found is not None, "only paths with a scheme come here"
    return found


def make_parent(file: RemoteFile) -> None:
    """Makes the folder of a file, where the file system has folders."""
    parent = file.path.rpartition("/")[0]
    if parent:
        file.system.makedirs(parent, exist_ok=True)


class UploadedFile:
    """A local file that is written in place of one elsewhere, which gets its content with each `upload`.

    Attributes:
        local: The path of the local file.
    """

    def __init__(self, path: str) -> None:
        """Makes an empty local file for a path with a scheme."""
        self._path = path
        self._target = _required(os.fsencode(path))
        descriptor, self.local = tempfile.mkstemp(prefix="thalweg-upload-")
        os.close(descriptor)
        with remote_errors(path):
            make_parent(self._target)

    def upload(self) -> None:
        """Replaces the file elsewhere by the present content of the local one."""
        with remote_errors(self._path):
            self._target.system.put_file(self.local, self._target.path)

    def close(self) -> None:
        """Uploads for the last time, and removes the local file."""
        try:
            self.upload()
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.remove(self.local)

    def exists(self) -> bool:
        """Whether the file elsewhere exists."""
        with remote_errors(self._path):
            return bool(self._target.system.exists(self._target.path))


@contextlib.contextmanager
def staged(path: str) -> Iterator[str]:
    """A block that writes files locally, below the yielded prefix; at its end they are where `path` says.

    Files appear one after the other: data first, `.index` last, so that a checkpoint counts when all of it is there.
    """
    target = remote(path)
    if target is None:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="thalweg-staged-") as folder:
        name = target.path.rstrip("/").rpartition("/")[2]
        yield os.path.join(folder, name)
        with remote_errors(path):
            make_parent(target)
            parent = target.path.rpartition("/")[0]
            for each in sorted(os.listdir(folder), key=lambda each: (each.endswith(".index"), each)):
                target.system.put_file(os.path.join(folder, each), f"{parent}/{each}" if parent else each)


@contextlib.contextmanager
def fetched(path: str, suffix: str = "*") -> Iterator[str]:
    """A block that reads files locally: those whose names begin with `path` are below the yielded prefix."""
    source = remote(path)
    if source is None:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="thalweg-fetched-") as folder:
        with remote_errors(path):
            for each in source.system.glob(source.path + suffix):
                source.system.get_file(each, os.path.join(folder, each.rpartition("/")[2]))
        yield os.path.join(folder, source.path.rpartition("/")[2])
