"""Whether the program runs in a notebook, where output is HTML and carriage returns work though it is no terminal."""

from __future__ import annotations

import sys


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook (IPython's ZMQ shell), and not a terminal."""
    python = sys.modules.get("IPython")  # Whoever runs in a notebook has imported it.
    shell = python.get_ipython() if python is not None and hasattr(python, "get_ipython") else None
    return type(shell).__name__ == "ZMQInteractiveShell"
