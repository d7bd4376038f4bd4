"""Writes the type stubs of the public namespace `tf.*` from the registry of exports: `python -m type_stubs`."""
