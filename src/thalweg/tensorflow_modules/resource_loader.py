"""`tensorflow.python.platform.resource_loader`: files beside the caller's."""

from __future__ import annotations

import inspect
import os
from typing import Any


def _caller_folder() -> str:
    frame = inspect.stack()[2]
    return os.path.dirname(os.path.abspath(frame.filename))


def get_data_files_path() -> str:
    """The folder of the file that calls."""
    return _caller_folder()


def get_path_to_datafile(path: str) -> str:
    """The full path of a file in the folder of the file that calls."""
    return os.path.join(_caller_folder(), path)


def load_resource(path: str) -> Any:
    """The bytes of a file in the folder of the file that calls."""
    with open(os.path.join(_caller_folder(), path), "rb") as file:
        return file.read()


def readahead_file_path(path: str, readahead: str = "128M") -> str:
    """The path: the system reads ahead by itself."""
    return path
