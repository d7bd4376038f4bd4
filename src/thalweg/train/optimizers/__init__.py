"""Optimizers, a file each, with schedules, slots, averages and mixed precision."""
