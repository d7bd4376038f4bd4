"""Saver, and whatever else writes, reads and finds checkpoints."""
