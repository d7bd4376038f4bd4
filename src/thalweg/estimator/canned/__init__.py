"""Estimators with a ready-made model: linear, deep, both together, and baselines."""
