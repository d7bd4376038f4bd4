"""Training: optimizers, schedules, averages, steps."""
