"""SavedModels: a model with its graphs, variables, assets and signatures in one directory."""
