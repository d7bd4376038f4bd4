"""Random numbers and draws."""
