"""Image functions that branch at run time; those without branches are in ops/image."""
