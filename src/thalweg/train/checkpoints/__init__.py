"""Saver, and the other classes and functions that write, read and find checkpoints."""
