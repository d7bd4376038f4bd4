"""Reading back what a test wrote to event files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import thalweg as tf


def read_events(folder: Path) -> list[Any]:
    """The events of all files of a folder; writers that hooks share are closed first."""
    tf.summary.FileWriterCache.clear()
    return [event for path in sorted(folder.glob("events.out.*")) for event in tf.train.summary_iterator(str(path))]
