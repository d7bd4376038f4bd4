"""Graphs as bytes and back: GraphDef, MetaGraphDef, TensorProto, OpDef."""
