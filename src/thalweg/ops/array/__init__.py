"""Ops that make, cut, join, gather and reorder tensors."""
