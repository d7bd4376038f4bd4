"""Feature columns: descriptions of raw features, and their way to the inputs and weights of a model."""
