"""Readers: each step that reads takes the next record of the files whose names a queue gives."""

from __future__ import annotations

from typing import Any, NamedTuple

from thalweg.graph.apply import apply, apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import int64, string
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.files.records import TFRecordOptions


class Read(NamedTuple):
    """The result of a read: two scalars of type string."""

    key: Tensor
    value: Tensor


class ReadUpTo(NamedTuple):
    """The result of a read of several records: two vectors of type string."""

    keys: Tensor
    values: Tensor


@export("ReaderBase")
class ReaderBase:
    """The base class of readers.

    A reader turns *work*, mostly the names of files, into records. It takes the next piece of work from a queue when it
    is done with the one before; a step that finds the queue empty waits, without holding a thread.
    """

    def __init__(self, reader_ref: Tensor, supports_serialize: bool = False) -> None:
        """Wraps a handle; programs use the subclasses.

        Args:
            reader_ref: The handle.
            supports_serialize: Whether the reader's state can be saved.
        """
        self._reader_ref = reader_ref
        self._supports_serialize = supports_serialize

    @property
    def reader_ref(self) -> Tensor:
        """The handle of the reader."""
        return self._reader_ref

    @property
    def supports_serialize(self) -> bool:
        """Whether `serialize_state` and `restore_state` work."""
        return self._supports_serialize

    def _call(self, op: str, *inputs: Any, name: str | None) -> Any:
        # A reader of an imported graph may be a reference, whose ops are those without the ending.
        version = "" if self._reader_ref.dtype._is_ref_dtype else "V2"
        return apply(f"Reader{op}{version}", self._reader_ref, *inputs, name=name)

    def read(self, queue: Any, name: str | None = None) -> Read:
        """Reads the next record.

        Args:
            queue: A queue of strings, or the handle of one, that gives work.
            name: The name of the operation.

        Returns:
            The key of the record, which tells where it was, and its value.
        """
        return Read(*self._call("Read", _queue_ref(queue), name=name))

    def read_up_to(self, queue: Any, num_records: Any, name: str | None = None) -> ReadUpTo:
        """Reads some of the next records: at least one, no more than are left of one piece of work.

        Args:
            queue: A queue of strings, or the handle of one, that gives work.
            num_records: How many records to read at most.
            name: The name of the operation.

        Returns:
            The keys of the records, and their values.
        """
        most = convert_to_tensor(num_records, int64)
        return ReadUpTo(*self._call("ReadUpTo", _queue_ref(queue), most, name=name))

    def num_records_produced(self, name: str | None = None) -> Tensor:
        """How many records were read, as an int64."""
        result: Tensor = self._call("NumRecordsProduced", name=name)
        return result

    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        """How many pieces of work were read to their end, as an int64."""
        result: Tensor = self._call("NumWorkUnitsCompleted", name=name)
        return result

    def serialize_state(self, name: str | None = None) -> Tensor:
        """The state of the reader as a string. Raises UnimplementedError for most kinds of readers."""
        result: Tensor = self._call("SerializeState", name=name)
        return result

    def restore_state(self, state: Any, name: str | None = None) -> Operation:
        """Sets the state of the reader to one that `serialize_state` returned."""
        result: Operation = self._call("RestoreState", convert_to_tensor(state, string), name=name)
        return result

    def reset(self, name: str | None = None) -> Operation:
        """Brings the reader back to its beginning: no work, all counts zero."""
        result: Operation = self._call("Reset", name=name)
        return result


def _queue_ref(queue: Any) -> Tensor:
    ref: Tensor = queue if isinstance(queue, Tensor) else queue.queue_ref
    return ref


@export("WholeFileReader")
class WholeFileReader(ReaderBase):
    """Reads whole files: the key is the name of the file, the value its content."""

    def __init__(self, name: str | None = None) -> None:
        """Makes a reader.

        Args:
            name: The name of the operation.
        """
        super().__init__(apply_one("WholeFileReaderV2", name=name), supports_serialize=True)


@export("IdentityReader")
class IdentityReader(ReaderBase):
    """Gives the work itself: key and value are both what the queue held."""

    def __init__(self, name: str | None = None) -> None:
        """Makes a reader.

        Args:
            name: The name of the operation.
        """
        super().__init__(apply_one("IdentityReaderV2", name=name), supports_serialize=True)


@export("TextLineReader")
class TextLineReader(ReaderBase):
    r"""Reads lines: the key is `file:number`, counted from 1, the value the line without its end.

    Example:
        >>> path = os.path.join(tempfile.mkdtemp(), 'lines.txt')
        >>> with open(path, 'w') as file:
        ...     _ = file.write('name,age\nada,36\n')
        >>> queue = tf.FIFOQueue(10, tf.string)
        >>> line = tf.TextLineReader(skip_header_lines=1).read(queue)
        >>> with tf.Session() as session:
        ...     session.run(queue.enqueue(path))
        ...     print(session.run(line.value))
        b'ada,36'
    """

    def __init__(self, skip_header_lines: int | None = None, name: str | None = None) -> None:
        """Makes a reader.

        Args:
            skip_header_lines: How many lines at the beginning of each file to pass over.
            name: The name of the operation.
        """
        super().__init__(apply_one("TextLineReaderV2", skip_header_lines=skip_header_lines or 0, name=name))


@export("FixedLengthRecordReader")
class FixedLengthRecordReader(ReaderBase):
    """Reads records of one size: the key is `file:number`, counted from 0."""

    def __init__(
        self,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        hop_bytes: int | None = None,
        name: str | None = None,
        encoding: str | None = None,
    ) -> None:
        """Makes a reader.

        Args:
            record_bytes: The size of a record.
            header_bytes: How much to pass over at the beginning of each file.
            footer_bytes: How much to leave alone at the end of each file.
            hop_bytes: How far the beginnings of two records are from each other; by default, `record_bytes`.
            name: The name of the operation.
            encoding: How the files are compressed: '', 'ZLIB' or 'GZIP'.
        """
        handle = apply_one(
            "FixedLengthRecordReaderV2",
            record_bytes=record_bytes,
            header_bytes=header_bytes or 0,
            footer_bytes=footer_bytes or 0,
            hop_bytes=hop_bytes or 0,
            encoding=encoding or "",
            name=name,
        )
        super().__init__(handle)


@export("TFRecordReader")
class TFRecordReader(ReaderBase):
    """Reads the records of TFRecord files: the key is `file:offset`."""

    def __init__(self, name: str | None = None, options: Any = None) -> None:
        """Makes a reader.

        Args:
            name: The name of the operation.
            options: A TFRecordOptions that says how the files are compressed.
        """
        compression = TFRecordOptions.get_compression_type_string(options)
        super().__init__(apply_one("TFRecordReaderV2", compression_type=compression, name=name))
