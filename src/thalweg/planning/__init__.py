"""Planning: from a graph, feeds, fetches and devices to a step as a value that can be printed, saved and sent."""
