"""One file per op family. Every module here is imported by `thalweg/__init__.py`; there is no list of them."""
