"""The examples under a real Slurm of two nodes and a real Open MPI, on request: THALWEG_REAL_LAUNCHERS=1.

They start daemons in namespaces of their own, as root, and take minutes; skipped where the programs are not installed.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.examples.slurm_cluster import SlurmCluster, slurm_if_possible
from tests.examples.test_examples import ROOT, number_after
from tests.examples.test_launchers import LAUNCHERS, run

pytestmark = [
    pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(200),
    pytest.mark.skipif("THALWEG_REAL_LAUNCHERS" not in os.environ, reason="THALWEG_REAL_LAUNCHERS is not set"),
]  # fmt: skip

VARIABLES = {
    "PYTHONPATH": str(ROOT / "src"), "PYTHON": sys.executable, "OMP_WAIT_POLICY": "passive",
    "THALWEG_EXAMPLES": str(ROOT / "examples"), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}  # fmt: skip
JOB = str(LAUNCHERS / "slurm.sbatch")
# Says which programs are left on the nodes. The process namespace has no others but the cluster's own.
LEFT = "\nfor pid in $(pgrep --full distributed_mnist.py); do echo left $pid; done\n"


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[SlurmCluster]:
    found = slurm_if_possible(tmp_path / "slurm")
    if found is None:
        pytest.skip("Slurm is not installed, or namespaces cannot be made")
    with found:
        yield found


def run_in(slurm: SlurmCluster, folder: Path, script: str) -> str:
    (folder / "try.sh").write_text(script + LEFT)
    output = slurm.run(["bash", "try.sh"], VARIABLES, folder)
    assert not re.search(r"^left \d", output, re.MULTILINE), output
    return output


def check(output: str, workers: int) -> None:
    """Asserts that all workers have ended, and the chief has trained something."""
    assert len(re.findall(r"/job:worker/task:\d+ has run \d+ steps", output)) == workers, output
    assert 50 < number_after("Held-out accuracy: ", output) <= 100


def test_a_job_of_slurm_trains_on_two_nodes(slurm: SlurmCluster, tmp_path: Path) -> None:
    output = run_in(slurm, tmp_path, f"sbatch --wait --output=log {JOB} --steps 120 --batch 32\ncat log\nsinfo -N")
    check(output, 4)
    assert list(tmp_path.glob("mnist-*/checkpoint"))


def test_a_job_of_slurm_goes_on_after_a_task_was_killed(slurm: SlurmCluster, tmp_path: Path) -> None:
    output = run_in(
        slurm, tmp_path,
        f"""
        sbatch --output=log {JOB} --steps 3000 --batch 32 --save_secs 0.5
        for attempt in {{1..600}}; do compgen -G "mnist-*/model.ckpt-[1-9]*.index" && break; sleep 0.1; done
        kill -KILL $(pgrep --newest --full distributed_mnist.py)
        for attempt in {{1..1200}}; do [ -n "$(squeue --noheader)" ] || break; sleep 0.1; done
        cat log
        """,
    )  # fmt: skip
    assert "A task has failed: restart 1 of 3." in output, output
    check(output, 4)


@pytest.mark.parametrize("distribution", ["cyclic", "plane=2"])
def test_ranks_that_alternate_between_nodes_find_each_other(
    slurm: SlurmCluster, tmp_path: Path, distribution: str
) -> None:
    program = f"{sys.executable} {ROOT}/examples/distributed_mnist.py --ps 2 --steps 60 --batch 32"
    output = run_in(slurm, tmp_path, f"srun --nodes=2 --ntasks=5 --distribution={distribution} {program}")
    check(output, 3)


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI is not installed")
def test_mpirun_in_an_allocation_of_slurm_starts_ranks_on_two_nodes(slurm: SlurmCluster, tmp_path: Path) -> None:
    command = f"salloc --nodes=2 --ntasks=5 sh {LAUNCHERS}/mpirun.sh 5 --steps 60 --batch 32"
    check(run_in(slurm, tmp_path, command), 4)


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI is not installed")
def test_four_ranks_train_under_mpirun(tmp_path: Path) -> None:
    check(run(tmp_path, "mpirun.sh", "4", **VARIABLES, MPIRUN_OPTIONS="--oversubscribe", TMPDIR=str(tmp_path)), 3)
    marked = [pid for pid in os.listdir("/proc") if pid.isdigit() and _is_of(pid, str(tmp_path))]
    assert not marked, "processes left running"


def _is_of(pid: str, folder: str) -> bool:
    """Whether a process has the variables of a run."""
    try:
        return f"TMPDIR={folder}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
