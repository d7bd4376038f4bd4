"""`tensorflow.python.lib.io.file_io`: the functions of `tf.gfile` under their older names."""

from __future__ import annotations

from typing import Any

from thalweg.platform import gfile
from thalweg.platform.file_object import GFile as FileIO

__all__ = [
    "FileIO", "copy", "create_dir", "delete_file", "delete_recursively", "file_exists", "get_matching_files",
    "is_directory", "list_directory", "read_file_to_string", "recursive_create_dir", "rename", "stat", "walk",
    "write_string_to_file",
]  # fmt: skip

file_exists = gfile.Exists
delete_file = gfile.Remove
copy = gfile.Copy
rename = gfile.Rename
create_dir = gfile.MkDir
recursive_create_dir = gfile.MakeDirs
delete_recursively = gfile.DeleteRecursively
is_directory = gfile.IsDirectory
list_directory = gfile.ListDirectory
stat = gfile.Stat
walk = gfile.Walk


def read_file_to_string(filename: Any, binary_mode: bool = False) -> Any:
    """The whole content of a file."""
    with FileIO(filename, "rb" if binary_mode else "r") as file:
        return file.read()


def write_string_to_file(filename: Any, file_content: Any) -> None:
    """Writes a file anew."""
    with FileIO(filename, "w") as file:
        file.write(file_content)


def atomic_write_string_to_file(filename: Any, contents: Any, overwrite: bool = True) -> None:
    """Writes a file such that readers see all of it or nothing."""
    temporary = f"{filename}.tmp"
    write_string_to_file(temporary, contents)
    rename(temporary, filename, overwrite)


def get_matching_files(filename: Any) -> list[str]:
    """The files of a pattern, or of several."""
    patterns = filename if isinstance(filename, (list, tuple)) else [filename]
    return [path for pattern in patterns for path in gfile.Glob(pattern)]
