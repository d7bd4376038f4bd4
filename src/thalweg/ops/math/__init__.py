"""Arithmetic, comparisons, functions, reductions, products and linear algebra."""
