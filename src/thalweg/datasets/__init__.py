"""Small data sets for examples and tests: each with its source and licence beside it."""
