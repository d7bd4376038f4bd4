"""The graph layer: operations, tensors, types, static shapes, scopes, the op registry, GraphDef in and out."""
