"""Version numbers: of Thalweg, of the TensorFlow API it follows, and of the GraphDefs it writes and reads."""

import sys
from typing import Final

THALWEG_VERSION: Final = "0.1.0"
"""Thalweg's own version."""

VERSION: Final = "1.15.0"
"""The version of the API, which programs take apart as TensorFlow's: plain numbers. THALWEG_VERSION is our own."""

__version__: Final = VERSION

GIT_VERSION: Final = f"v1.15.0-thalweg-{THALWEG_VERSION}"
COMPILER_VERSION: Final = sys.version.rpartition("[")[2].rstrip("]")
CXX11_ABI_FLAG: Final = 1
MONOLITHIC_BUILD: Final = 0

GRAPH_DEF_VERSION: Final = 134
"""The producer number that TensorFlow 1.15 writes into a GraphDef."""
GRAPH_DEF_VERSION_MIN_CONSUMER: Final = 0
GRAPH_DEF_VERSION_MIN_PRODUCER: Final = 0
