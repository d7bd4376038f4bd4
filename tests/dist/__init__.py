"""Tests of the distributed runtime."""
