"""A file beside the checkpoints by which the chief tells workers that training has ended.

A worker that loses a parameter server waits until the chief has restored the model. A chief that has ended does not:
the worker then finds a mark that was not there when it began. A worker that is started after that finds a mark of its
own run, which the launcher names in the environment of all tasks; one of another run says nothing, because the chief of
this run may come later than the worker.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from typing import Any, Final

RUN: Final = "THALWEG_RUN"
"""The environment variable with a text that all tasks of one run share, and no other run has."""
_FILE: Final = "training_ended"


def write_end_mark(checkpoint_dir: Any) -> None:
    """Leaves a mark that differs from all earlier ones."""
    path = os.path.join(os.fspath(checkpoint_dir), _FILE)
    with open(f"{path}.new", "w") as file:
        file.write(f"{uuid.uuid4().hex} {os.environ.get(RUN, '')}")
    os.replace(f"{path}.new", path)


def read_end_mark(checkpoint_dir: Any) -> str | None:
    """The mark; None if there is none."""
    try:
        with open(os.path.join(os.fspath(checkpoint_dir), _FILE)) as file:
            return file.read()
    except OSError:
        return None


def is_of_own_run(mark: str) -> bool:
    """Whether the run of this process has left a mark."""
    run = os.environ.get(RUN, "")
    return bool(run) and mark.partition(" ")[2] == run


def remove_end_mark(checkpoint_dir: Any) -> None:
    """Removes the mark of an earlier run."""
    with contextlib.suppress(OSError):
        os.remove(os.path.join(os.fspath(checkpoint_dir), _FILE))
