"""Cluster resolvers: where the tasks of a cluster are, and which of them this process is."""
