"""Compares the public names of TensorFlow's version 1 API with those of Thalweg: `docs/compatibility.md`."""
