"""Tests of optimizers, schedules, averages and steps."""
