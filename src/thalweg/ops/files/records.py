"""TFRecord files in Python: `tf.python_io`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import IO, Any, ClassVar

from thalweg import errors
from thalweg.graph.definitions.op_registry import export
from thalweg.ops.files.record_format import framed, read_records
from thalweg.platform.file_paths import local_path, os_errors
from thalweg.platform.remote_files import UploadedFile, is_remote

# TensorFlow's defaults for zlib; zlib's own defaults differ in the memory level.
_WINDOW_BITS = 15
_MEMORY_LEVEL = 9
_GZIP_HEADER = 16  # added to the window bits


@export("python_io.TFRecordCompressionType", "io.TFRecordCompressionType")
class TFRecordCompressionType:
    """How the records of a file are compressed, as numbers."""

    NONE = 0
    ZLIB = 1
    GZIP = 2


@export("python_io.TFRecordOptions", "io.TFRecordOptions")
class TFRecordOptions:
    """How to read or write TFRecord files. Readers look at the kind of compression only."""

    compression_type_map: ClassVar[dict[int, str]] = {
        TFRecordCompressionType.NONE: "",
        TFRecordCompressionType.ZLIB: "ZLIB",
        TFRecordCompressionType.GZIP: "GZIP",
    }

    def __init__(
        self,
        compression_type: Any = None,
        flush_mode: int | None = None,
        input_buffer_size: int | None = None,
        output_buffer_size: int | None = None,
        window_bits: int | None = None,
        compression_level: int | None = None,
        compression_method: int | None = None,
        mem_level: int | None = None,
        compression_strategy: int | None = None,
    ) -> None:
        """Keeps the options; those that are None leave the choice to the writer.

        Args:
            compression_type: 'ZLIB', 'GZIP', '' or a TFRecordCompressionType.
            flush_mode: What zlib does when the writer is flushed: one of its `Z_..._FLUSH`.
            input_buffer_size: Has no effect: buffers have the sizes that serve.
            output_buffer_size: The same.
            window_bits: The logarithm of zlib's window, 9 to 15.
            compression_level: 0 to 9; -1 is zlib's own choice.
            compression_method: 8, the only method of zlib.
            mem_level: How much memory zlib uses, 1 to 9.
            compression_strategy: One of zlib's strategies.

        Raises:
            ValueError: If the type of compression is none of these.
        """
        self.get_compression_type_string(compression_type)  # Checks it.
        self.compression_type = compression_type
        self.flush_mode = flush_mode
        self.input_buffer_size = input_buffer_size
        self.output_buffer_size = output_buffer_size
        self.window_bits = window_bits
        self.compression_level = compression_level
        self.compression_method = compression_method
        self.mem_level = mem_level
        self.compression_strategy = compression_strategy

    @classmethod
    def get_compression_type_string(cls, options: Any) -> str:
        """The compression that options, or a TFRecordCompressionType, or a name stand for: '', 'ZLIB' or 'GZIP'.

        Raises:
            ValueError: If it is something else.
        """
        if isinstance(options, TFRecordOptions):
            options = options.compression_type
        if options is None:
            return ""
        if options in cls.compression_type_map:
            return cls.compression_type_map[options]
        if options in cls.compression_type_map.values():
            return str(options)
        raise ValueError(f'Not a valid compression_type: "{options}"')


@export("python_io.TFRecordWriter", "io.TFRecordWriter")
class TFRecordWriter:
    """Writes records to a TFRecord file.

    Example:
        >>> path = os.path.join(tempfile.mkdtemp(), 'data.tfrecords')
        >>> with tf.python_io.TFRecordWriter(path) as writer:
        ...     writer.write(b'one')
        ...     writer.write(b'two')
        >>> list(tf.python_io.tf_record_iterator(path))
        [b'one', b'two']
    """

    def __init__(self, path: Any, options: Any = None) -> None:
        """Creates the file, or empties it.

        Args:
            path: Where to write.
            options: TFRecordOptions, a TFRecordCompressionType, or the name of a compression.
        """
        if not isinstance(options, TFRecordOptions):
            options = TFRecordOptions(options)
        self._upload = UploadedFile(os.fsdecode(path)) if is_remote(path) else None
        local = path if self._upload is None else self._upload.local
        if options.get_compression_type_string(options):
            self._writer: Any = _CompressedWriter(local, options)
        else:
            from thalweg._native import core  # Start-up time: the core is loaded when first used.

            self._writer = core.RecordWriter(os.fsencode(local))
        # Called for each record, so the native method is bound directly: no Python frame in between.
        self.write = self._writer.write  # type: ignore[method-assign]

    def write(self, record: bytes) -> None:
        """Writes one record."""
        self._writer.write(record)

    def flush(self) -> None:
        """Hands the buffered records to the operating system; a file elsewhere then holds all of them, too."""
        self._writer.flush()
        if self._upload is not None:
            self._upload.upload()

    def close(self) -> None:
        """Writes the buffered records and closes the file; closing again does nothing."""
        self._writer.close()
        upload, self._upload = self._upload, None
        if upload is not None:
            upload.close()

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __del__(self) -> None:
        # A local file is closed by the native writer; one elsewhere exists only once it was uploaded.
        if getattr(self, "_upload", None) is not None:
            self.close()


class _CompressedWriter:
    """Frames records and compresses them with Python's zlib."""

    def __init__(self, path: Any, options: TFRecordOptions) -> None:
        import zlib

        def chosen(value: int | None, default: int) -> int:
            return default if value is None else value

        gzip = options.get_compression_type_string(options) == "GZIP"
        bits = chosen(options.window_bits, _WINDOW_BITS) + (_GZIP_HEADER if gzip else 0)
        try:
            self._compress = zlib.compressobj(
                chosen(options.compression_level, zlib.Z_DEFAULT_COMPRESSION),
                chosen(options.compression_method, zlib.DEFLATED),
                bits,
                chosen(options.mem_level, _MEMORY_LEVEL),
                chosen(options.compression_strategy, zlib.Z_DEFAULT_STRATEGY),
            )
        except ValueError as error:
            raise errors.InvalidArgumentError(None, None, f"{path}; zlib refuses the options: {error}") from error
        self._flush_mode = chosen(options.flush_mode, zlib.Z_NO_FLUSH)
        self._finish = zlib.Z_FINISH
        self._path = path
        with os_errors(path):
            self._file: IO[bytes] | None = open(local_path(path), "wb")  # noqa: SIM115 (kept)

    def _open(self) -> IO[bytes]:
        if self._file is None:
            raise errors.FailedPreconditionError(None, None, f"{self._path}; the writer was closed before")
        return self._file

    def write(self, record: bytes) -> None:
        file = self._open()
        compressed = self._compress.compress(framed(record))
        if compressed:
            with os_errors(self._path):
                file.write(compressed)

    def flush(self) -> None:
        file = self._open()
        with os_errors(self._path):
            file.write(self._compress.flush(self._flush_mode))
            file.flush()

    def close(self) -> None:
        if self._file is None:
            return
        file, self._file = self._file, None
        with os_errors(self._path), file:
            file.write(self._compress.flush(self._finish))

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            self.close()


@export("python_io.tf_record_iterator", "io.tf_record_iterator")
def tf_record_iterator(path: Any, options: Any = None) -> Iterator[bytes]:
    """Iterates over the records of a TFRecord file.

    Args:
        path: The file.
        options: TFRecordOptions, a TFRecordCompressionType, or the name of a compression.

    Returns:
        An iterator over the records, as bytes.

    Raises:
        NotFoundError: If there is no such file.
        DataLossError: If a record is damaged, when it is reached.
    """
    return read_records(path, TFRecordOptions.get_compression_type_string(options))
