"""Graph functions: functions as values of the graph, their calls, their gradients, and FunctionDefs."""
