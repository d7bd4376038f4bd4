"""Strings: cutting, decoding, parsing."""
