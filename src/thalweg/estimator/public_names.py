"""The public names of Thalweg as programs see them, for the estimators, which are built on them."""

from __future__ import annotations

from typing import Any

import thalweg

tf: Any = thalweg  # The public names are bound at run time.
