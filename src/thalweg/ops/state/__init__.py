"""State: variables, queues, tables, accumulators, arrays of tensors."""
