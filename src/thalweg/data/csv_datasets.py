"""Datasets of CSV files: `CsvDataset`, one tensor a column, and `make_csv_dataset`, batches of features by name."""

from __future__ import annotations

import collections
import csv
import gzip
import io
import zlib
from typing import Any, Final

import numpy as np

from thalweg.data.arguments import int64
from thalweg.data.dataset import Dataset
from thalweg.data.experimental import ignore_errors as without_errors
from thalweg.data.files import _filenames, _string_tensor
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.graph.tensor_spec import TensorSpec
from thalweg.platform import gfile

_TYPES: Final = (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64, dtypes.string)


@export("data.experimental.CsvDataset")
class CsvDataset(Dataset):
    r"""The records of CSV files: a tuple of scalars each.

    Example:
        >>> path = os.path.join(tempfile.mkdtemp(), "table.csv")
        >>> with open(path, "w") as file:
        ...     _ = file.write('1,"one, or so",\n2,two,0.5\n')
        >>> dataset = tf.data.experimental.CsvDataset(path, [tf.int32, tf.string, -1.0])
        >>> row = tf.data.make_one_shot_iterator(dataset).get_next()
        >>> with tf.Session() as session:
        ...     print(session.run(row)[1], session.run(row)[2])
        b'one, or so' 0.5
    """

    def __init__(
        self,
        filenames: Any,
        record_defaults: Any,
        compression_type: Any = None,
        buffer_size: Any = None,
        header: Any = False,
        field_delim: Any = ",",
        use_quote_delim: Any = True,
        na_value: Any = "",
        select_cols: Any = None,
        exclude_cols: Any = None,
    ) -> None:
        """Reads files in order.

        Args:
            filenames: A name or names.
            record_defaults: For each column a type, if a value is required, or the default of missing values.
            compression_type: '', 'ZLIB' or 'GZIP'.
            buffer_size: Bytes to buffer; chosen if None.
            header: Whether to pass over the first line of each file.
            field_delim: The separator of fields.
            use_quote_delim: Whether quotation marks enclose fields.
            na_value: A text that stands for a missing value, beside the empty one.
            select_cols: Numbers of the columns to read, in order; all if None.
            exclude_cols: Numbers of columns to leave out.
        """
        defaults = [_default(value) for value in record_defaults]
        spec = tuple(TensorSpec([], value.dtype) for value in defaults)
        inputs = [
            _filenames(filenames), _string_tensor(compression_type, "compression_type"),
            int64(buffer_size or 0, "buffer_size"), convert_to_tensor(header, dtypes.bool, name="header"),
            _string_tensor(field_delim, "field_delim"),
            convert_to_tensor(use_quote_delim, dtypes.bool, name="use_quote_delim"),
            _string_tensor(na_value, "na_value"), _columns(select_cols, "select_cols"), defaults,
        ]  # fmt: skip
        shapes = [TensorShape([])] * len(defaults)
        if exclude_cols is None:
            handle = apply_one("CSVDataset", *inputs, output_shapes=shapes)
        else:
            handle = apply_one("CSVDatasetV2", *inputs, _columns(exclude_cols, "exclude_cols"), output_shapes=shapes)
        super().__init__(handle, spec)


def _columns(value: Any, name: str) -> Tensor:
    return convert_to_tensor(np.zeros(0, np.int64) if value is None else value, dtypes.int64, name=name)


def _default(value: Any) -> Tensor:
    """A default as a tensor; a type stands for a column that has none."""
    if isinstance(value, DType) or (
        isinstance(value, type) and issubclass(value, (np.generic, int, float, str, bytes))
    ):
        kind = as_dtype(value)
        return convert_to_tensor(np.zeros(0, kind.as_numpy_dtype), kind)
    return convert_to_tensor(value)


@export("data.experimental.make_csv_dataset")
def make_csv_dataset(
    file_pattern: Any,
    batch_size: Any,
    column_names: Any = None,
    column_defaults: Any = None,
    label_name: str | None = None,
    select_columns: Any = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: Any = None,
    shuffle: bool = True,
    shuffle_buffer_size: Any = 10000,
    shuffle_seed: Any = None,
    prefetch_buffer_size: Any = None,
    num_parallel_reads: Any = None,
    sloppy: bool = False,
    num_rows_for_inference: int | None = 100,
    compression_type: Any = None,
    ignore_errors: bool = False,
) -> Dataset:
    """Batches of the columns of CSV files, as dictionaries, without end unless `num_epochs` says otherwise.

    Args:
        file_pattern: Names of files, or patterns.
        batch_size: How many records make a batch.
        column_names: The names of all columns; read from the first line if None.
        column_defaults: Types or defaults of the columns that are read; guessed from the first records if None.
        label_name: A column to split off: elements are then pairs of features and label.
        select_columns: Names or numbers of the columns to read.
        field_delim: What separates the fields.
        use_quote_delim: Whether quotation marks enclose fields.
        na_value: A text that stands for a missing value.
        header: Whether the files begin with a line of names.
        num_epochs: How often to go over the files; without end if None.
        shuffle: Whether to shuffle the records.
        shuffle_buffer_size: See `Dataset.shuffle`.
        shuffle_seed: See `Dataset.shuffle`.
        prefetch_buffer_size: How many batches to compute ahead; chosen if None.
        num_parallel_reads: How many files to read at once.
        sloppy: Whether files that are read at once may come in any order.
        num_rows_for_inference: How many records to look at for the types of columns; all if None.
        compression_type: '', 'ZLIB' or 'GZIP'.
        ignore_errors: Whether to leave out records that cannot be read.

    Returns:
        A Dataset.

    Raises:
        ValueError: If no file matches, names are given twice, or a named column does not exist.
    """
    files = _matching_files(file_pattern)
    dialect = {"delimiter": field_delim, "quoting": csv.QUOTE_MINIMAL if use_quote_delim else csv.QUOTE_NONE}
    if column_names is None:
        if not header:
            raise ValueError("Cannot infer column names without a header line.")
        column_names = next(_rows(files[0], compression_type, dialect))
    if len(column_names) != len(set(column_names)):
        raise ValueError(f"Cannot have duplicate column names: {column_names}")
    chosen = list(range(len(column_names))) if select_columns is None else _column_numbers(select_columns, column_names)
    if column_defaults is None:
        column_defaults = _inferred_defaults(
            files, chosen, header, na_value, num_rows_for_inference, compression_type, dialect
        )
    if len(column_defaults) != len(chosen):
        raise ValueError(f"There are {len(column_defaults)} column_defaults for {len(chosen)} columns.")
    names = [column_names[i] for i in chosen]
    if label_name is not None and label_name not in names:
        raise ValueError(f"`label_name` must be one of the columns that are read: '{label_name}' is not in {names}.")

    def records(filename: Any) -> Dataset:
        dataset = CsvDataset(
            filename, column_defaults, compression_type, None, header, field_delim, use_quote_delim, na_value,
            None if select_columns is None else sorted(chosen),
        )  # fmt: skip
        return dataset.apply(without_errors()) if ignore_errors else dataset

    def by_name(*columns: Any) -> Any:
        features = collections.OrderedDict(zip(names, columns, strict=True))
        return features if label_name is None else (features, features.pop(label_name))

    dataset = _shuffled_files(files, shuffle, shuffle_seed)
    dataset = dataset.interleave(records, num_parallel_reads or 1, num_parallel_calls=num_parallel_reads,
                                 deterministic=False if sloppy else None)  # fmt: skip
    dataset = _shuffle_and_repeat(dataset, shuffle, shuffle_buffer_size, shuffle_seed, num_epochs)
    # Without an end, every batch is full, and its size is static.
    dataset = dataset.batch(batch_size, drop_remainder=num_epochs is None).map(by_name)
    return dataset.prefetch(1 if prefetch_buffer_size is None else prefetch_buffer_size)


def _shuffled_files(files: list[str], shuffle: bool, seed: Any) -> Dataset:
    dataset = Dataset.from_tensor_slices(files)
    return dataset.shuffle(len(files), seed) if shuffle else dataset


def _shuffle_and_repeat(dataset: Dataset, shuffle: bool, buffer_size: Any, seed: Any, epochs: Any) -> Dataset:
    if shuffle:
        dataset = dataset.shuffle(buffer_size, seed)
    return dataset if epochs == 1 else dataset.repeat(epochs)


def _matching_files(file_pattern: Any) -> list[str]:
    patterns = file_pattern if isinstance(file_pattern, (list, tuple)) else [file_pattern]
    files = sorted(name for pattern in patterns for name in gfile.Glob(pattern))
    if not files:
        raise ValueError(f"No files match {file_pattern}.")
    return files


def _rows(path: str, compression_type: Any, dialect: dict[str, Any]) -> Any:
    if compression_type == "GZIP":
        with gzip.open(path, "rt", newline="") as packed:
            yield from csv.reader(packed, **dialect)
    elif compression_type == "ZLIB":
        with open(path, "rb") as file:
            yield from csv.reader(io.StringIO(zlib.decompress(file.read()).decode(), newline=""), **dialect)
    else:
        with open(path, newline="") as text:
            yield from csv.reader(text, **dialect)


def _column_numbers(select_columns: Any, names: list[str]) -> list[int]:
    numbers = []
    for column in select_columns:
        if isinstance(column, str) and column not in names:
            raise ValueError(f"Value '{column}' in select_columns is not one of the columns {names}.")
        number = names.index(column) if isinstance(column, str) else int(column)
        if not 0 <= number < len(names):
            raise ValueError(f"Column {number} in select_columns is not in [0, {len(names)}).")
        numbers.append(number)
    if len(set(numbers)) != len(numbers):
        raise ValueError(f"Each column can be selected only once: {select_columns}.")
    return sorted(numbers)


def _inferred_defaults(
    files: list[str], columns: list[int], header: bool, na_value: str, most: int | None, compression: Any,
    dialect: dict[str, Any],
) -> list[Any]:  # fmt: skip
    """Defaults of the narrowest types that hold the first values of each column."""
    kinds = [dtypes.int32] * len(columns)
    seen = 0
    for path in files:
        rows = _rows(path, compression, dialect)
        if header:
            next(rows, None)
        for row in rows:
            if most is not None and seen >= most:
                return [_zero(kind) for kind in kinds]
            seen += 1
            for i, column in enumerate(columns):
                if column < len(row) and row[column] not in ("", na_value):
                    kinds[i] = _widest(kinds[i], _dtype_of_text(row[column]))
    return [_zero(kind) for kind in kinds]


def _dtype_of_text(text: str) -> DType:
    try:
        value = int(text)
        return dtypes.int32 if -(2**31) <= value < 2**31 else dtypes.int64
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return dtypes.string
    return dtypes.float32 if abs(number) <= np.finfo(np.float32).max or not np.isfinite(number) else dtypes.float64


def _widest(a: DType, b: DType) -> DType:
    return a if _TYPES.index(a) >= _TYPES.index(b) else b


def _zero(kind: DType) -> Any:
    return convert_to_tensor([""] if kind is dtypes.string else np.zeros(1, kind.as_numpy_dtype), kind)
