"""Ops of neural networks: convolution, pooling, normalization, activations, losses, optimizer steps."""
