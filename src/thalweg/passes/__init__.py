"""Graph passes: each takes a StepGraph and returns one, and changes nothing else."""
