"""A Slurm cluster for one command: two nodes on this machine, each with a network, a name and a slurmd of its own.

Everything runs in namespaces that end with the command: mounts (for /etc/hosts), processes (nothing outlives the first
one), and for each node network and host name. Only root can make them. Nothing of the machine's own configuration is
read or changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.dist.network_hosts import Hosts, hosts_if_permitted

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "salloc", "sinfo", "unshare", "nsenter")

CONFIGURATION = """
ClusterName=test
SlurmctldHost=n1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
KillWait=5
MpiDefault=none
NodeName=n1 NodeAddr={addresses[0]} CPUs=4
NodeName=n2 NodeAddr={addresses[1]} CPUs=4
PartitionName=all Nodes=n1,n2 Default=YES State=UP
"""

# The first process of the namespaces. `on` runs a command on a node.
SCRIPT = """
set -eu
on() {{
    nsenter --net=/run/netns/$1 unshare --uts sh -c 'hostname $0; exec "$@"' "$2" "$3" "${{@:4}}"
}}
mount --bind {folder}/hosts /etc/hosts
on {names[0]} n1 munged --force --socket={folder}/munge.socket --key-file={folder}/munge.key \\
    --pid-file={folder}/munge.pid --log-file={folder}/munge.log --seed-file={folder}/munge.seed
on {names[0]} n1 slurmctld -c
on {names[0]} n1 slurmd
on {names[1]} n2 slurmd
for attempt in {{1..300}}; do
    [ "$(on {names[0]} n1 sinfo --noheader --states=idle --format=%D)" = 2 ] && break
    sleep 0.1
done
code=0
on {names[0]} n1 "$@" || code=$?
exit $code
"""


class SlurmCluster:
    """Two nodes, n1 and n2; use it in a `with` block."""

    def __init__(self, folder: Path, hosts: Hosts) -> None:
        """Writes the files of the cluster into a folder."""
        self._folder, self._hosts = folder, hosts
        for name in ("state", "n1", "n2"):
            (folder / name).mkdir(parents=True)
        folder.chmod(0o755)
        texts = {"folder": folder, "addresses": hosts.addresses, "names": hosts.names}
        (folder / "slurm.conf").write_text(CONFIGURATION.format(**texts))
        (folder / "script").write_text(SCRIPT.format(**texts))
        (folder / "hosts").write_text(
            "127.0.0.1 localhost\n" + "".join(f"{a} n{i + 1}\n" for i, a in enumerate(hosts.addresses))
        )
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)

    def run(self, command: Sequence[str], variables: Mapping[str, str], cwd: Path) -> str:
        """Starts the cluster, runs a command on n1 and ends the cluster: the command's output, and its errors."""
        namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        done = subprocess.run(
            [*namespaces, "bash", str(self._folder / "script"), *command], cwd=cwd, timeout=150, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, **variables, "SLURM_CONF": str(self._folder / "slurm.conf")},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + self._logs()
        return done.stdout

    def _logs(self) -> str:
        return "".join(f"\n{file.name}:\n{file.read_text()[-2000:]}" for file in sorted(self._folder.glob("*.log")))

    def __enter__(self) -> SlurmCluster:
        return self

    def __exit__(self, *exception: object) -> None:
        self._hosts.close()


def slurm_if_possible(folder: Path) -> SlurmCluster | None:
    """A cluster; None if Slurm is not installed, or namespaces are not permitted."""
    if os.geteuid() != 0 or not all(map(shutil.which, PROGRAMS)):
        return None
    hosts = hosts_if_permitted(2)
    return SlurmCluster(folder, hosts) if hosts is not None else None
