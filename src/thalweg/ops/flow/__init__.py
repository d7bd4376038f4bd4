"""Control-flow primitives, Python functions, checks and printing inside a step."""
