"""Embedding variables: rows by ids that occur."""
