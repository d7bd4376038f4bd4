"""Protobuf messages of one thing each: a tensor, an attribute, an op definition, a node, and the nodes of a graph."""
