"""Ops on ragged tensors: values, and the splits of their rows."""
