"""Planned steps: their content, as bytes, and in other processes."""
