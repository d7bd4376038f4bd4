"""The `checkpoint` file of a directory, which says which checkpoints there are, and the files of a checkpoint."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Sequence
from typing import Any

from thalweg import errors
from thalweg.graph.definitions.op_registry import export
from thalweg.platform import gfile, logging
from thalweg.platform.file_paths import local_path, os_errors
from thalweg.platform.remote_files import is_remote
from thalweg.train.checkpoints.checkpoint_messages import checkpoint_state_class

_SHARD = re.compile(r"-[\d?]+-of-\d+$")
_SHARD_OF_DATA = re.compile(r"\.data-\d{5}-of-\d{5}$")
_ROWS = re.compile(r"\.rows-[0-9a-f]{16}-[0-9a-f]{16}$")
_NUMBER = re.compile(r"-\d+$")
_V2 = 2
# Longer than it takes to write an index after the data.
ORPHAN_SECONDS = 60


def _state_path(directory: Any, latest_filename: str | None) -> str:
    return os.path.join(os.fsdecode(directory), latest_filename or "checkpoint")


def write_durably(path: str, content: bytes) -> None:
    """Writes a file atomically, and syncs it to the disk; an object store makes a file appear as a whole anyway.

    Raises:
        errors.OpError: What the operating system reports, such as ResourceExhaustedError for a full disk.
    """
    if is_remote(path):
        with gfile.GFile(path, "wb") as remote_file:
            remote_file.write(content)
        return
    path = local_path(path)
    temporary = f"{path}.tmp{os.getpid():x}{os.urandom(4).hex()}"
    with os_errors(path):
        try:
            with open(temporary, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            if os.path.exists(temporary):
                os.unlink(temporary)
            raise
        handle = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@export("train.generate_checkpoint_state_proto")
def generate_checkpoint_state_proto(
    save_dir: str,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> Any:
    """Makes the CheckpointState of a directory.

    Args:
        save_dir: The directory.
        model_checkpoint_path: The latest checkpoint.
        all_model_checkpoint_paths: All checkpoints that are not deleted, from the oldest to the latest.
        all_model_checkpoint_timestamps: When they were made, in seconds since 1970.
        last_preserved_timestamp: When the latest of the checkpoints that are kept for good was made.

    Returns:
        The message. Where `save_dir` is relative, so are the paths in it, to `save_dir`.

    Raises:
        ValueError: If there is another number of timestamps than of paths.
    """
    paths = list(all_model_checkpoint_paths or [])
    if not paths or paths[-1] != model_checkpoint_path:
        paths.append(model_checkpoint_path)
    if all_model_checkpoint_timestamps and len(all_model_checkpoint_timestamps) != len(paths):
        raise ValueError(
            "Checkpoint timestamps, if provided, must match checkpoint paths (got paths "
            f"{paths} and timestamps {list(all_model_checkpoint_timestamps)})"
        )
    if not os.path.isabs(save_dir):
        paths = [path if os.path.isabs(path) else os.path.relpath(path, save_dir) for path in paths]
    return checkpoint_state_class()(
        model_checkpoint_path=paths[-1],
        all_model_checkpoint_paths=paths,
        all_model_checkpoint_timestamps=all_model_checkpoint_timestamps,
        last_preserved_timestamp=last_preserved_timestamp,
    )


@export("train.update_checkpoint_state")
def update_checkpoint_state(
    save_dir: str,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] | None = None,
    latest_filename: str | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> None:
    """Writes the `checkpoint` file of a directory.

    Args:
        save_dir: The directory.
        model_checkpoint_path: The latest checkpoint.
        all_model_checkpoint_paths: All checkpoints that are not deleted, from the oldest to the latest.
        latest_filename: The file's name, if not 'checkpoint'.
        all_model_checkpoint_timestamps: When they were made.
        last_preserved_timestamp: When the latest of the checkpoints that are kept for good was made.

    Raises:
        RuntimeError: If the file would overwrite the checkpoint.
    """
    write_checkpoint_state(
        save_dir, model_checkpoint_path, all_model_checkpoint_paths, latest_filename, False,
        all_model_checkpoint_timestamps, last_preserved_timestamp,
    )  # fmt: skip


def write_checkpoint_state(
    save_dir: str,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] | None,
    latest_filename: str | None,
    save_relative_paths: bool,
    timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> None:
    """As `update_checkpoint_state`; with `save_relative_paths`, a directory can be moved with its `checkpoint` file."""
    from google.protobuf import text_format  # Start-up time: protobuf is slow to import.

    target = _state_path(save_dir, latest_filename)
    all_paths = list(all_model_checkpoint_paths or [])
    latest = model_checkpoint_path
    if save_relative_paths:
        absolute = os.path.isabs(latest)
        base = os.path.abspath(save_dir) if absolute else save_dir
        latest = os.path.relpath(latest, base)
        all_paths = [os.path.relpath(path, base) for path in all_paths]
        # The paths are relative to the directory already.
        state = generate_checkpoint_state_proto("/", latest, all_paths, timestamps, last_preserved_timestamp)
    else:
        state = generate_checkpoint_state_proto(save_dir, latest, all_paths, timestamps, last_preserved_timestamp)
    if target == model_checkpoint_path:
        raise RuntimeError(
            f"Save path '{model_checkpoint_path}' conflicts with path used for checkpoint state. Please use a "
            "different save path."
        )
    write_durably(target, text_format.MessageToString(state).encode())


@export("train.get_checkpoint_state")
def get_checkpoint_state(checkpoint_dir: Any, latest_filename: str | None = None) -> Any:
    """Reads the `checkpoint` file of a directory.

    Args:
        checkpoint_dir: The directory.
        latest_filename: The file's name, if not 'checkpoint'.

    Returns:
        A CheckpointState, with the directory in front of relative paths; None if there is no such file, or if it
        cannot be read.

    Raises:
        ValueError: If the file does not name a checkpoint.
    """
    from google.protobuf import text_format  # Start-up time: protobuf is slow to import.

    directory = os.fsdecode(checkpoint_dir)
    path = _state_path(directory, latest_filename)
    try:
        if not gfile.Exists(path):
            return None
        with gfile.GFile(path, "rb") as file:
            content = file.read().decode()
        state = text_format.Merge(content, checkpoint_state_class()())
    except (errors.OpError, UnicodeDecodeError, text_format.ParseError) as e:
        logging.warning("%s: %s", type(e).__name__, e)
        logging.warning("%s: Checkpoint ignored", path)
        return None
    if not state.model_checkpoint_path:
        raise ValueError(f"Invalid checkpoint state loaded from {directory}: it names no checkpoint.")
    if not _is_absolute(state.model_checkpoint_path):
        state.model_checkpoint_path = os.path.join(directory, state.model_checkpoint_path)
    for i, name in enumerate(state.all_model_checkpoint_paths):
        if not _is_absolute(name):
            state.all_model_checkpoint_paths[i] = os.path.join(directory, name)
    return state


def _is_absolute(path: str) -> bool:
    return os.path.isabs(path) or is_remote(path)


@export("train.latest_checkpoint")
def latest_checkpoint(checkpoint_dir: Any, latest_filename: str | None = None) -> str | None:
    """Returns the prefix of the latest checkpoint in a directory, as its `checkpoint` file has it; None without one."""
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None or not state.model_checkpoint_path:
        return None
    path: str = state.model_checkpoint_path
    if checkpoint_exists(path):
        return path
    logging.error("Couldn't match files for checkpoint %s", path)
    return None


@export("train.checkpoint_exists")
def checkpoint_exists(checkpoint_prefix: Any) -> bool:
    """Whether there is a checkpoint with this prefix, the path that `Saver.save` returned."""
    return _main_file(checkpoint_prefix) is not None


def _main_file(prefix: Any) -> str | None:
    path = os.fsdecode(prefix)
    if gfile.Exists(path + ".index"):
        return path + ".index"
    # The old format has one file, or several whose names fit a pattern.
    if not is_remote(path) and os.path.isfile(local_path(path)):
        return path
    matches = gfile.Glob(path) if "?" in path else []
    return matches[0] if matches else None


@export("train.get_checkpoint_mtimes")
def get_checkpoint_mtimes(checkpoint_prefixes: Iterable[Any]) -> list[float]:
    """When checkpoints were made, in seconds since 1970; those that do not exist are left out."""
    files = (_main_file(prefix) for prefix in checkpoint_prefixes)
    return [gfile.Stat(file).mtime_nsec / 1e9 for file in files if file is not None]


def remove_orphans(save_path: str) -> None:
    """Deletes the files of numbered checkpoints without an index, which a process that was killed left behind.

    Files that have just come are kept: a process may be about to write their index.
    """
    import glob  # Start-up time.

    if is_remote(save_path):
        return
    start = glob.escape(local_path(save_path))
    for path in (*glob.glob(start + "-*.data-?????-of-?????"), *glob.glob(start + "-*.rows-*")):
        prefix = _ROWS.sub("", _SHARD_OF_DATA.sub("", path))
        with contextlib.suppress(OSError):  # Another process may do the same.
            is_old = time.time() - os.stat(path).st_ctime > ORPHAN_SECONDS
            if is_old and _NUMBER.search(prefix) and not os.path.exists(prefix + ".index"):
                os.remove(path)
                logging.info("Removed %s, a part of a checkpoint that was never finished", path)


def meta_graph_filename(checkpoint_filename: str, meta_graph_suffix: str = "meta") -> str:
    """The name of the file with the MetaGraph that belongs to a checkpoint."""
    return f"{_SHARD.sub('', checkpoint_filename)}.{meta_graph_suffix}"


@export("train.remove_checkpoint")
def remove_checkpoint(
    checkpoint_prefix: Any, checkpoint_format_version: int = _V2, meta_graph_suffix: str = "meta"
) -> None:
    """Deletes the files of a checkpoint, and its MetaGraph.

    Args:
        checkpoint_prefix: The path that `Saver.save` returned.
        checkpoint_format_version: SaverDef.V2, or V1 for the old format.
        meta_graph_suffix: How the MetaGraph's file name ends.
    """
    import glob

    prefix = os.fsdecode(checkpoint_prefix)
    escaped = glob.escape(prefix)
    # The index first: without it, the remaining files do not count as a checkpoint.
    patterns = [escaped + ".index", escaped + ".data-?????-of-?????", escaped + ".rows-*"]
    if checkpoint_format_version != _V2:
        patterns = [prefix]
    for pattern in (*patterns, glob.escape(meta_graph_filename(prefix, meta_graph_suffix))):
        for path in gfile.Glob(pattern):
            gfile.Remove(path)
