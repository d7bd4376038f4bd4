"""The public names, bound at run time, for a library that uses them as programs do."""

from __future__ import annotations

import thalweg as tf

__all__ = ["tf"]
