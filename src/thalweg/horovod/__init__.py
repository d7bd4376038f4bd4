"""All-reduce training under the names that users of Horovod know: `import thalweg.horovod as hvd`.

Each process builds its own graph and runs its own session, also without a target; gradients are averaged over all
processes. `init` finds the other processes by TF_CONFIG, or by the variables of Slurm or Open MPI.
"""

from thalweg.horovod import elastic
from thalweg.horovod.broadcasts import (
    BroadcastGlobalVariablesHook,
    broadcast_global_variables,
    broadcast_variables,
)
from thalweg.horovod.compression import Compression
from thalweg.horovod.operations import (
    Average,
    Max,
    Min,
    Sum,
    allgather,
    allreduce,
    barrier,
    broadcast,
    reducescatter,
)
from thalweg.horovod.optimizer import DistributedOptimizer
from thalweg.horovod.world import (
    init,
    is_initialized,
    local_rank,
    local_size,
    rank,
    reinit,
    server,
    shutdown,
    size,
)

__all__ = [
    "Average",
    "BroadcastGlobalVariablesHook",
    "Compression",
    "DistributedOptimizer",
    "Max",
    "Min",
    "Sum",
    "allgather",
    "allreduce",
    "barrier",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_variables",
    "elastic",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "rank",
    "reducescatter",
    "reinit",
    "server",
    "shutdown",
    "size",
]
