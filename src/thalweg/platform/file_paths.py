"""Paths of local files, and Thalweg's errors for what the operating system reports of them."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import Any, Final

from thalweg import errors

_ERRNO_TO_CODE: Final = {
    errno.ENOENT: errors.NOT_FOUND,
    errno.ESRCH: errors.NOT_FOUND,
    errno.EEXIST: errors.ALREADY_EXISTS,
    errno.EACCES: errors.PERMISSION_DENIED,
    errno.EPERM: errors.PERMISSION_DENIED,
    errno.EROFS: errors.PERMISSION_DENIED,
    errno.EISDIR: errors.FAILED_PRECONDITION,
    errno.ENOTDIR: errors.FAILED_PRECONDITION,
    errno.ENOTEMPTY: errors.FAILED_PRECONDITION,
    errno.EBUSY: errors.FAILED_PRECONDITION,
    errno.EINVAL: errors.INVALID_ARGUMENT,
    errno.ENAMETOOLONG: errors.INVALID_ARGUMENT,
    errno.ELOOP: errors.INVALID_ARGUMENT,
    errno.ENOSPC: errors.RESOURCE_EXHAUSTED,
    errno.EDQUOT: errors.RESOURCE_EXHAUSTED,
    errno.EMFILE: errors.RESOURCE_EXHAUSTED,
    errno.ENFILE: errors.RESOURCE_EXHAUSTED,
    errno.ENOMEM: errors.RESOURCE_EXHAUSTED,
    errno.EXDEV: errors.UNIMPLEMENTED,
    errno.ENOTSUP: errors.UNIMPLEMENTED,
    errno.ENOSYS: errors.UNIMPLEMENTED,
    errno.EAGAIN: errors.UNAVAILABLE,
    errno.EIO: errors.DATA_LOSS,
}


@contextlib.contextmanager
def os_errors(path: Any) -> Iterator[None]:
    """Turns an OSError into the error of the same meaning."""
    try:
        yield
    except OSError as error:
        code = _ERRNO_TO_CODE.get(error.errno or 0, errors.UNKNOWN)
        raise errors.error_from_code(code, f"{path}; {error.strerror or error}") from error


def local_path(path: Any) -> str:
    """The path of a file on this machine; raises UnimplementedError for a file elsewhere."""
    text = os.fsdecode(path)
    scheme, separator, rest = text.partition("://")
    if not separator or not scheme.isalnum():
        return text
    if scheme == "file":
        return rest
    raise errors.UnimplementedError(
        None, None, f"File system scheme '{scheme}' not implemented (file: '{text}'): copy the file to a local disk."
    )
