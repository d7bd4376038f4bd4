"""Automatic differentiation: the backward walk. The gradients of single ops live beside the ops."""
