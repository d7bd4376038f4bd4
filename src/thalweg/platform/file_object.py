"""GFile: the file object of `tf.gfile`, which opens late and counts in bytes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import IO, Any

from thalweg import errors
from thalweg.platform.file_paths import local_path, os_errors
from thalweg.platform.remote_files import is_remote, remote, remote_errors


class GFile:
    r"""A file that opens when it is first read or written.

    Modes are 'r', 'w' and 'a', each with '+' for both ways and 'b' for bytes; without 'b', reading gives text, decoded
    as UTF-8. Positions and sizes count bytes in either case. Reading and writing keep separate positions.

    Example:
        >>> with GFile('/tmp/thalweg_gfile_example', 'w') as file:
        ...     file.write('two\nlines')
        >>> [line for line in GFile('/tmp/thalweg_gfile_example')]
        ['two\n', 'lines']
        >>> os.remove('/tmp/thalweg_gfile_example')
    """

    def __init__(self, name: Any, mode: str = "r") -> None:
        """Names a file; it need not exist yet.

        Args:
            name: The path.
            mode: How to open it.

        Raises:
            InvalidArgumentError: If the mode is none of those above.
        """
        self._reader: IO[bytes] | None = None
        self._writer: IO[bytes] | None = None
        self._name = name
        self._mode = mode
        self._kind = mode.replace("b", "", 1)
        self._binary = "b" in mode
        if self._kind not in ("r", "w", "a", "r+", "w+", "a+"):
            raise errors.InvalidArgumentError(
                None, None, f"mode is not 'r' or 'w' or 'a' or 'r+' or 'w+' or 'a+', perhaps with 'b': {mode!r}"
            )

    @property
    def name(self) -> Any:
        """The path as it was given."""
        return self._name

    @property
    def mode(self) -> str:
        """The mode as it was given."""
        return self._mode

    def _open(self, mode: str) -> IO[bytes]:
        if (found := remote(self._name)) is not None:
            with remote_errors(self._name):
                opened: IO[bytes] = found.system.open(found.path, mode)
            return opened
        with os_errors(self._name):
            return open(local_path(self._name), mode)

    def _for_reading(self) -> IO[bytes]:
        if self._kind in ("w", "a"):
            raise errors.PermissionDeniedError(
                None, None, f"{self._name}; File isn't open for reading: mode {self._mode!r}"
            )
        if self._writer is not None:
            self.flush()
        if self._reader is None:
            self._reader = self._open("rb")
        return self._reader

    def _for_writing(self) -> IO[bytes]:
        if self._kind == "r":
            raise errors.PermissionDeniedError(
                None, None, f"{self._name}; File isn't open for writing: mode {self._mode!r}"
            )
        if self._writer is None:
            # 'r+' writes a new file, as in TensorFlow, whose programs create files with it.
            self._writer = self._open("ab" if self._kind[0] == "a" else "wb")
        return self._writer

    def _decode(self, data: bytes) -> Any:
        return data if self._binary else data.decode("utf-8")

    def read(self, n: int = -1) -> Any:
        """Reads `n` bytes, or all that is left. In text mode, a character that begins in them is read to its end."""
        reader = self._for_reading()
        with os_errors(self._name):
            data = reader.read(n)
            if not self._binary and n >= 0:
                while (more := _missing_bytes(data)) and (tail := reader.read(more)):
                    data += tail
        return self._decode(data)

    def readline(self) -> Any:
        """Reads up to the end of the line, included; an empty result means the end of the file."""
        with os_errors(self._name):
            line = self._for_reading().readline()
        if not self._binary and line.endswith(b"\r\n"):
            line = line[:-2] + b"\n"
        return self._decode(line)

    def readlines(self) -> list[Any]:
        """Reads all lines that are left."""
        return list(self)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    next = __next__

    def write(self, file_content: str | bytes) -> None:
        """Writes text (as UTF-8) or bytes."""
        data = file_content.encode("utf-8") if isinstance(file_content, str) else file_content
        writer = self._for_writing()
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"Expected text or bytes to write, got {file_content!r}.")
        with os_errors(self._name):
            writer.write(data)

    def seek(self, offset: int | None = None, whence: int = 0, position: int | None = None) -> None:
        """Moves to where reading goes on.

        Args:
            offset: By how many bytes.
            whence: From where: 0 the beginning, 1 the current position, 2 the end.
            position: The old name of `offset`.

        Raises:
            InvalidArgumentError: If that is before the beginning, or `whence` is none of these.
            OutOfRangeError: If that is behind the end.
        """
        target = position if offset is None else offset
        if target is None:
            raise TypeError("seek() needs an offset.")
        if whence not in (0, 1, 2):
            raise errors.InvalidArgumentError(
                None, None, f"Invalid whence argument: {whence}. Valid values are 0, 1, or 2."
            )
        reader = self._for_reading()
        size = self.size()
        target += (0, reader.tell(), size)[whence]
        if target < 0:
            raise errors.InvalidArgumentError(None, None, f"{self._name}; Seeking to a negative position: {target}")
        reader.seek(min(target, size))
        if target > size:
            raise errors.OutOfRangeError(None, None, f"{self._name}; {target} is behind the end of the file, at {size}")

    def tell(self) -> int:
        """The position in bytes: of reading, or of writing if nothing was read."""
        if self._reader is None and self._kind in ("w", "a"):
            return self._for_writing().tell()
        return self._for_reading().tell()

    def seekable(self) -> bool:
        """True: every file here can seek."""
        return True

    def size(self) -> int:
        """The size of the file in bytes."""
        if self._writer is not None:
            self.flush()
        if (found := remote(self._name)) is not None:
            with remote_errors(self._name):
                # What is written there appears when it is closed.
                return int(found.system.size(found.path)) if self._writer is None else self._writer.tell()
        with os_errors(self._name):
            return os.stat(local_path(self._name)).st_size

    def flush(self) -> None:
        """Hands what was written to the operating system; a file elsewhere appears when it is closed."""
        if self._writer is not None and not is_remote(self._name):
            with os_errors(self._name):
                self._writer.flush()

    def close(self) -> None:
        """Closes the file. A file opened for writing exists after this, if nothing was written too."""
        if self._kind in ("w", "w+", "a", "a+") and self._writer is None and self._reader is None:
            self._for_writing()
        self._release()

    def _release(self) -> None:
        reader, writer = self._reader, self._writer
        self._reader = self._writer = None
        if reader is not None:
            reader.close()
        if writer is not None:
            with os_errors(self._name):
                writer.close()

    def __enter__(self) -> GFile:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __del__(self) -> None:
        # Programs written for TensorFlow leave files to the garbage collector.
        with contextlib.suppress(Exception):
            self._release()


def _missing_bytes(data: bytes) -> int:
    """How many bytes the last character of some UTF-8 lacks."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:  # the first byte of a character of 2 to 4 bytes, as many as it has leading ones
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return max(0, length - back)
        if byte < 0x80:
            return 0
    return 0
