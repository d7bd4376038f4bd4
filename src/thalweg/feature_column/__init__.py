"""Feature columns: what raw features mean to a model, and how they become its inputs and weights."""
