"""Immediate execution: the executor of ops that run at once, gradient tapes, and what programs need beside them."""
