"""Immediate execution."""
