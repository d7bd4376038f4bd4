"""Datasets of the content of files: lines, TFRecords, records of one length."""

from __future__ import annotations

from typing import Any, ClassVar

from thalweg.data import structure
from thalweg.data.arguments import int64
from thalweg.data.dataset import Dataset
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_spec import TensorSpec

_STRING = TensorSpec([], dtypes.string)


def _filenames(filenames: Any) -> Any:
    """File names as a dataset if they are one already, else as a tensor of strings."""
    if isinstance(filenames, Dataset):
        spec = filenames.element_spec
        if structure.is_nested(spec) or spec.dtype is not dtypes.string:
            raise TypeError(f"`filenames` must be a `tf.data.Dataset` of `tf.string` elements, not of {spec}.")
        return filenames
    if isinstance(filenames, (list, tuple)):
        filenames = [_filename(item) for item in filenames]
    else:
        filenames = _filename(filenames)
    return convert_to_tensor(filenames, dtypes.string, name="filenames")


def _filename(value: Any) -> Any:
    return value.__fspath__() if hasattr(value, "__fspath__") else value


def _string_tensor(value: Any, name: str) -> Tensor:
    return convert_to_tensor("" if value is None else value, dtypes.string, name=name)


def _dataset_of_files(filenames: Any, make: Any, parallel: int | None = None) -> Tensor:
    """The dataset that `make` makes of file names; if they are a dataset, of each name, concatenated or interleaved."""
    names = _filenames(filenames)
    if not isinstance(names, Dataset):
        if parallel is None:
            handle: Tensor = make(names)
            return handle
        names = Dataset.from_tensor_slices(apply_one("Reshape", names, [-1]))
    if parallel is None:
        return names.flat_map(lambda name: Dataset(make(name), _STRING))._variant_tensor
    return names.interleave(
        lambda name: Dataset(make(name), _STRING), cycle_length=parallel, num_parallel_calls=parallel
    )._variant_tensor


class _StringFiles(Dataset):
    """The base class of datasets of strings from files."""

    _op_type: ClassVar[str]

    def __init__(
        self, filenames: Any, compression_type: Any = None, buffer_size: Any = None, num_parallel_reads: Any = None
    ) -> None:
        """Reads files in order.

        Args:
            filenames: A name, names, or a dataset of names.
            compression_type: '', 'ZLIB' or 'GZIP'.
            buffer_size: Bytes to buffer; chosen if None.
            num_parallel_reads: How many files to read at once, taking turns; in order, one by one, if None.
        """
        compression, buffer = (
            _string_tensor(compression_type, "compression_type"),
            int64(buffer_size or 0, "buffer_size"),
        )
        super().__init__(
            _dataset_of_files(
                filenames, lambda f: apply_one(self._op_type, f, compression, buffer), num_parallel_reads
            ),
            _STRING,
        )


@export("data.TextLineDataset")
class TextLineDataset(_StringFiles):
    """The lines of text files, as strings without their ends."""

    _op_type = "TextLineDataset"


@export("data.TFRecordDataset")
class TFRecordDataset(_StringFiles):
    """The records of TFRecord files, as strings.

    Example:
        >>> path = os.path.join(tempfile.mkdtemp(), "numbers.tfrecords")
        >>> with tf.io.TFRecordWriter(path) as writer:
        ...     for text in (b"one", b"two"):
        ...         writer.write(text)
        >>> record = tf.data.make_one_shot_iterator(tf.data.TFRecordDataset(path)).get_next()
        >>> with tf.Session() as session:
        ...     print(session.run(record), session.run(record))
        b'one' b'two'
    """

    _op_type = "TFRecordDataset"


@export("data.FixedLengthRecordDataset")
class FixedLengthRecordDataset(Dataset):
    """The records of files that consist of records of one length, as strings."""

    def __init__(
        self,
        filenames: Any,
        record_bytes: Any,
        header_bytes: Any = None,
        footer_bytes: Any = None,
        buffer_size: Any = None,
        compression_type: Any = None,
        num_parallel_reads: Any = None,
    ) -> None:
        """Reads files in order.

        Args:
            filenames: A name, names, or a dataset of names.
            record_bytes: The length of a record.
            header_bytes: Bytes to pass over at the beginning of each file.
            footer_bytes: Bytes to ignore at the end of each file.
            buffer_size: Bytes to buffer; chosen if None.
            compression_type: '', 'ZLIB' or 'GZIP'.
            num_parallel_reads: How many files to read at once, taking turns; in order, one by one, if None.
        """
        sizes = [int64(record_bytes, "record_bytes"), int64(footer_bytes or 0, "footer_bytes"),
                 int64(buffer_size or 0, "buffer_size")]  # fmt: skip
        header = int64(header_bytes or 0, "header_bytes")
        compression = _string_tensor(compression_type, "compression_type")
        super().__init__(
            _dataset_of_files(
                filenames, lambda f: apply_one("FixedLengthRecordDatasetV2", f, header, *sizes, compression),
                num_parallel_reads,
            ),
            _STRING,
        )  # fmt: skip
