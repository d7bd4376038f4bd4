"""Conditionals and loops as programs write them, built from Switch, Merge, Enter, Exit and NextIteration."""
