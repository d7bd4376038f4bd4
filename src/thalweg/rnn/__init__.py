"""Recurrent networks: cells, which are layers, and the functions that run them over sequences."""
