"""Summaries: ops that describe values for TensorBoard, and the event files that carry them."""
