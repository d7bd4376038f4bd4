"""Optimizers that replicas of a model train with together: synchronous, or of bounded staleness."""
