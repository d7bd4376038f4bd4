"""`tf.install_as_tensorflow()`: from then on `import tensorflow` gives Thalweg."""

from __future__ import annotations

import importlib.util
import sys
from typing import Final

from thalweg.as_tensorflow.finder import ALIAS, AliasFinder

_PACKAGE: Final = "thalweg"


def install_as_tensorflow(shadow: bool = False, version: int = 1) -> None:
    """Makes `import tensorflow as tf`, and imports of modules below it, give Thalweg in this process.

    For notebooks, and for programs that cannot change their imports; `thalweg run program.py` does it for a program.
    Calling it again has no effect.

    Args:
        shadow: Whether to do so although TensorFlow is installed.
        version: 2 for programs of TensorFlow 2: `import tensorflow` gives its names, and ops run at once.

    Raises:
        ValueError: For another version, or version 2 after a graph was begun.
        ImportError: If TensorFlow is installed and `shadow` is False, or has been imported already.
    """
    if version not in (1, 2):
        raise ValueError(f"The version must be 1 or 2, got {version!r}.")
    top = sys.modules[_PACKAGE] if version == 1 else sys.modules[_PACKAGE].compat.v2
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
    if version == 2:
        top.enable_v2_behavior()
