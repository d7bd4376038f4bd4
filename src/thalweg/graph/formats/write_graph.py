"""tf.train.write_graph, and files of protobufs in general: binary or text, written at once or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any

from thalweg import errors
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.graph import Graph
from thalweg.platform.file_paths import local_path
from thalweg.platform.remote_files import is_remote, open_remote, write_remote


@export("train.write_graph", "io.write_graph")
def write_graph(graph_or_graph_def: Any, logdir: str, name: str, as_text: bool = True) -> str:
    """Writes a graph to a file.

    Args:
        graph_or_graph_def: A Graph or a GraphDef.
        logdir: The folder; created if it does not exist.
        name: The file's name in it.
        as_text: Whether to write protobuf's text form.

    Returns:
        The path of the file.

    Example:
        >>> path = tf.train.write_graph(tf.Graph(), tempfile.mkdtemp(), "graph.pbtxt")
        >>> os.path.basename(path)
        'graph.pbtxt'
    """
    message = graph_or_graph_def.as_graph_def() if isinstance(graph_or_graph_def, Graph) else graph_or_graph_def
    path = os.path.join(logdir, name)
    write_message(message, path, as_text)
    return path


def write_message(message: Any, path: str, as_text: bool) -> None:
    """Writes a protobuf under a temporary name beside `path`, and then renames it: readers never see half a file."""
    if as_text:
        from google.protobuf import text_format  # Start-up time: protobuf is slow to import.

        content = text_format.MessageToString(message).encode()
    else:
        content = message.SerializeToString()
    if is_remote(path):
        write_remote(path, content)  # An object store makes a file appear as a whole.
        return
    path = local_path(path)
    folder = os.path.dirname(path)
    os.makedirs(folder or ".", exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder or ".", prefix=os.path.basename(path) + ".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        # mkstemp makes files private; give them the mode that open() would have.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


@contextlib.contextmanager
def naming_damage(path: str, what: str) -> Iterator[None]:
    """Raises InvalidArgumentError, with the file's name, for what the content of a damaged file leads to."""
    from google.protobuf.message import DecodeError  # Start-up time: protobuf is slow to import.

    try:
        yield
    except (DecodeError, LookupError, AttributeError, UnicodeError) as e:
        raise errors.InvalidArgumentError(
            None, None, f"{path} is damaged, or no {what} that can be used here: {type(e).__name__}: {e}"
        ) from e


def _content(path: str) -> bytes:
    if is_remote(path):
        try:
            with open_remote(path) as elsewhere:
                return elsewhere.read()
        except errors.NotFoundError as e:
            raise OSError(f"File {path} does not exist.") from e
    path = local_path(path)
    if not os.path.exists(path):
        raise OSError(f"File {path} does not exist.")
    with open(path, "rb") as file:
        return file.read()


def read_message(message: Any, path: str, what: str) -> Any:
    """Fills a protobuf from a file, binary or text, here or elsewhere.

    Raises:
        OSError: If the file does not exist, cannot be read, or is neither form of this protobuf.
    """
    from google.protobuf import text_format  # Start-up time: protobuf is slow to import.
    from google.protobuf.message import DecodeError

    content = _content(path)
    try:
        message.ParseFromString(content)
        return message
    except DecodeError:
        pass
    try:
        text_format.Parse(content, message)
    except (text_format.ParseError, UnicodeDecodeError) as e:
        raise OSError(f"Cannot parse file {path} as a {what}, neither as binary nor as text: {e}") from None
    return message
