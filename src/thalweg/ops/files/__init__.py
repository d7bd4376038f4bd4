"""Files, readers, records and checkpoints as ops."""
