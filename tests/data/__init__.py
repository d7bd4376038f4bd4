"""Test data, and what makes and reads it."""
