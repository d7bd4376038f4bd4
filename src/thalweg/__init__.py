"""Thalweg: a dataflow system for machine learning whose public names follow TensorFlow 1.x. `import thalweg as tf`."""

from __future__ import annotations

from thalweg import namespace as _namespace

_namespace.assemble(globals())
