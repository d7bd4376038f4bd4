"""Planned steps: what they hold, as bytes, and in other processes."""
