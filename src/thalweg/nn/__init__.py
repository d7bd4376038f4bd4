"""Neural networks: ops, initializers, layers. Every module here is imported by `thalweg/__init__.py`."""
