"""The networks of the benchmarks, written once; a *net* (graph, torch, jax) gives the layers their meaning."""
