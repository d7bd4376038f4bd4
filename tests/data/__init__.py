"""Test data, and the programs that make and read it."""
