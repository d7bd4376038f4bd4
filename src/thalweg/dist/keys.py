"""The cluster's key: what a process must know to be admitted by the tasks of a cluster."""

from __future__ import annotations

import os

KEY = "THALWEG_CLUSTER_KEY"
KEY_FILE = "THALWEG_CLUSTER_KEY_FILE"


def cluster_key() -> bytes:
    """The key from the environment variable THALWEG_CLUSTER_KEY, or from the file that THALWEG_CLUSTER_KEY_FILE names.

    Empty if neither is set: then tasks admit whoever reaches them.

    Raises:
        ValueError: If the file cannot be read, or is empty.
    """
    key = os.environ.get(KEY, "")
    if key:
        return key.encode()
    path = os.environ.get(KEY_FILE, "")
    if not path:
        return b""
    try:
        with open(path, "rb") as file:
            found = file.read().strip()
    except OSError as e:
        raise ValueError(f"The cluster's key cannot be read from {path} ({KEY_FILE}): {e}") from None
    if not found:
        raise ValueError(f"The file {path} ({KEY_FILE}) has no key in it.")
    return found
