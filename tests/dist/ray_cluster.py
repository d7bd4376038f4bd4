"""A Ray cluster of several nodes in a process of its own: `python -m tests.dist.ray_cluster`.

It prints its address, then obeys lines on its standard input: "kill <node id>" kills the processes of a node, as a lost
machine would; the end of the input ends it.
"""

from __future__ import annotations

import sys

import ray
from ray.cluster_utils import Cluster

MEGABYTE = 1 << 20


def main() -> None:
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80 * MEGABYTE},
    )
    nodes = [
        cluster.add_node(num_cpus=2, resources={"training": 2}, object_store_memory=80 * MEGABYTE) for _ in range(3)
    ]
    ray.init(address=cluster.address, log_to_driver=False)
    print("ready", cluster.address, flush=True)
    try:
        for line in sys.stdin:
            command, _, node_id = line.strip().partition(" ")
            assert command == "kill", line
            (node,) = [each for each in nodes if each.node_id == node_id]
            cluster.remove_node(node, allow_graceful=False)
            print("killed", node_id, flush=True)
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    main()
