"""`tf.install_as_tensorflow()`: from then on `import tensorflow` gives Thalweg."""

from __future__ import annotations

import importlib.util
import sys
from typing import Final

from thalweg.as_tensorflow.finder import ALIAS, AliasFinder

_PACKAGE: Final = "thalweg"


def install_as_tensorflow(shadow: bool = False) -> None:
    """Makes `import tensorflow as tf`, and imports of modules below it, give Thalweg in this process.

    For notebooks, and for programs that cannot change their imports; `thalweg run program.py` does it for a program.
    Calling it again has no effect.

    Args:
        shadow: Whether to do so although TensorFlow is installed.

    Raises:
        ImportError: If TensorFlow is installed and `shadow` is False, or has been imported already.
    """
    top = sys.modules[_PACKAGE]
    present = sys.modules.get(ALIAS)
    if present is top:
        return
    if present is not None:
        raise ImportError(
            "TensorFlow has been imported in this process already: install Thalweg before that", name=ALIAS
        )
    if not shadow and importlib.util.find_spec(ALIAS) is not None:
        raise ImportError(
            "TensorFlow is installed here. To use Thalweg in its place, call install_as_tensorflow(shadow=True), or "
            "run the program with `thalweg run --shadow`",
            name=ALIAS,
        )
    sys.meta_path.insert(0, AliasFinder)
    sys.modules[ALIAS] = top
