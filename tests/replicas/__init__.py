"""Training by several replicas: clusters, synchronous and stale-synchronous optimizers, workers that recover."""
