"""Writes profiles for pprof (https://github.com/google/pprof): a profile.proto, compressed by gzip.

A sample is a node of the graph: its costs, and the call stack of the program that made it, innermost frame first.
The message classes are made here by the published names and numbers of fields.
"""

from __future__ import annotations

import functools
import gzip
import os
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from thalweg.graph.messages.runtime_messages import Field, make_messages

_FIELDS: Final[dict[str, tuple[Field, ...]]] = {
    "ValueType": (("type", 1, "int64"), ("unit", 2, "int64")),
    "Label": (("key", 1, "int64"), ("str", 2, "int64"), ("num", 3, "int64"), ("num_unit", 4, "int64")),
    "Sample": (("location_id", 1, "*uint64"), ("value", 2, "*int64"), ("label", 3, "*Label")),
    "Mapping": (
        ("id", 1, "uint64"), ("memory_start", 2, "uint64"), ("memory_limit", 3, "uint64"), ("file_offset", 4, "uint64"),
        ("filename", 5, "int64"), ("build_id", 6, "int64"), ("has_functions", 7, "bool"), ("has_filenames", 8, "bool"),
        ("has_line_numbers", 9, "bool"), ("has_inline_frames", 10, "bool"),
    ),
    "Line": (("function_id", 1, "uint64"), ("line", 2, "int64")),
    "Location": (
        ("id", 1, "uint64"), ("mapping_id", 2, "uint64"), ("address", 3, "uint64"), ("line", 4, "*Line"),
        ("is_folded", 5, "bool"),
    ),
    "Function": (
        ("id", 1, "uint64"), ("name", 2, "int64"), ("system_name", 3, "int64"), ("filename", 4, "int64"),
        ("start_line", 5, "int64"),
    ),
    "Profile": (
        ("sample_type", 1, "*ValueType"), ("sample", 2, "*Sample"), ("mapping", 3, "*Mapping"),
        ("location", 4, "*Location"), ("function", 5, "*Function"), ("string_table", 6, "*string"),
        ("drop_frames", 7, "int64"), ("keep_frames", 8, "int64"), ("time_nanos", 9, "int64"),
        ("duration_nanos", 10, "int64"), ("period_type", 11, "ValueType"), ("period", 12, "int64"),
        ("comment", 13, "*int64"), ("default_sample_type", 14, "int64"),
    ),
}  # fmt: skip

# The columns that can be written, and their units.
UNITS: Final[dict[str, str]] = {
    "micros": "microseconds", "cpu_micros": "microseconds", "accelerator_micros": "microseconds", "bytes": "bytes",
    "peak_bytes": "bytes", "residual_bytes": "bytes", "output_bytes": "bytes", "params": "count", "float_ops": "count",
}  # fmt: skip

# A frame: file, line, function, text of the line; as `Operation.traceback` gives them.
Frame = tuple[str, int, str, str]


class Sample(NamedTuple):
    """A node of the graph, the stack that made it (outermost frame first), and its costs, by column."""

    node: str
    op: str
    stack: Sequence[Frame]
    runs: int
    values: Sequence[int]


@functools.cache
def messages() -> dict[str, Any]:
    """The message classes by name; the profile itself is "Profile"."""
    return make_messages("thalweg/pprof.proto", _FIELDS, "perftools.profiles", own_pool=True)


def write_pprof(path: str, columns: Sequence[str], samples: Iterable[Sample]) -> None:
    """Writes a profile with how often nodes ran and the given columns, the first of which pprof shows.

    Raises:
        ValueError: If there is no column, or one that is not in UNITS.
    """
    unknown = [column for column in columns if column not in UNITS]
    if unknown or not columns:
        raise ValueError(f"pprof output needs columns among {', '.join(UNITS)}; select() was given {list(columns)}.")
    content = gzip.compress(_Writer(columns).written(samples), mtime=0)
    with open(path, "wb") as file:
        file.write(content)


class _Writer:
    """Fills a profile: strings, functions and locations occur once each, and numbers refer to them."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._profile = messages()["Profile"]()
        self._strings: dict[str, int] = {}
        self._functions: dict[tuple[str, str], int] = {}
        self._locations: dict[tuple[str, str, int], int] = {}
        self._string("")  # The first one is the empty one, by definition.
        for kind, unit in (("count", "count"), *((column, UNITS[column]) for column in columns)):
            self._profile.sample_type.add(type=self._string(kind), unit=self._string(unit))
        self._profile.default_sample_type = self._string(columns[0])

    def written(self, samples: Iterable[Sample]) -> bytes:
        for sample in samples:
            where = [self._location(frame) for frame in reversed(sample.stack)]
            added = self._profile.sample.add(location_id=where, value=[sample.runs, *sample.values])
            added.label.add(key=self._string("graph node:"), str=self._string(sample.node))
            added.label.add(key=self._string("op"), str=self._string(sample.op))
        self._profile.string_table.extend(self._strings)
        data: bytes = self._profile.SerializeToString(deterministic=True)
        return data

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _function(self, file: str, name: str) -> int:
        number = self._functions.get((file, name))
        if number is None:
            number = self._functions[(file, name)] = len(self._functions) + 1
            module = os.path.splitext(os.path.basename(file))[0]
            shown = self._string(f"{module}:{name}")
            self._profile.function.add(id=number, name=shown, system_name=shown, filename=self._string(file))
        return number

    def _location(self, frame: Frame) -> int:
        file, line, name, _ = frame
        number = self._locations.get((file, name, line))
        if number is None:
            number = self._locations[(file, name, line)] = len(self._locations) + 1
            added = self._profile.location.add(id=number)
            added.line.add(function_id=self._function(file, name), line=line)
        return number
