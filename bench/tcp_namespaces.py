"""Training steps and all-reduce over TCP, a host for each process: `python bench/tcp_namespaces.py --peers FOLDER`.

Hosts are network namespaces that this program makes (it needs root and the `ip` command). Dense null training steps
with two PS tasks run beside TensorFlow's own servers, all-reduce beside gloo in PyTorch. Both sides live through the
whole run and take turns, one measurement each. Printed are medians and their ratio.

Two hosts with two members each show the hierarchical all-reduce beside the same without knowledge of the hosts, with
the bytes that one host sends; `--rate 1gbit` throttles their links.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Protocol

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.all_reduce import SIZES, Team, end, read_line, serve, write_line
from bench.namespaces import Hosts
from bench.peers import environment_of, python_of

HERE = Path(__file__).parent
PORT = 2222
NUM_PS = 2
DENSE = {"dense_100": "100 MB", "dense_1000": "1 GB"}


class Measured(Protocol):
    """Processes that measure once when they are asked to."""

    def measure(self, size: int) -> float:
        """A time in milliseconds."""

    def close(self) -> None:
        """Ends the processes."""


class DenseSteps:
    """A worker and its PS tasks, each on its own host."""

    def __init__(self, hosts: Hosts, python: str, framework: str, program: str) -> None:
        """Starts them; the frameworks have ports of their own."""
        port = PORT + (framework == "thalweg")
        addresses = [f"{hosts.address(i)}:{port}" for i in range(NUM_PS + 1)]
        cluster = json.dumps({"ps": addresses[:NUM_PS], "worker": addresses[NUM_PS:]})
        environment = environment_of(framework, 1)
        if framework == "thalweg":
            environment["PYTHONPATH"] = str(HERE.parent / "src")

        def start(host: int, *arguments: str) -> subprocess.Popen[str]:
            return subprocess.Popen(
                [*hosts.command(host), python, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True, env=environment,
            )  # fmt: skip

        self._processes = [
            start(i, str(HERE / "task_process.py"), framework, cluster, "ps", str(i)) for i in range(NUM_PS)
        ]
        for process in self._processes:
            read_line(process)
        self._worker = start(NUM_PS, __file__, "--worker", json.dumps([framework, json.loads(cluster), program]))
        self._processes.append(self._worker)
        read_line(self._worker)

    def measure(self, size: int) -> float:
        """The time of one step, in milliseconds."""
        write_line(self._worker, size)
        return float(read_line(self._worker)) * 1000

    def close(self) -> None:
        """Ends all processes."""
        end(self._processes)


def dense_worker(framework: str, cluster: dict[str, list[str]], program: str) -> None:
    """The worker's process: one step for each line of input."""
    from cases import clusters
    from worker import load

    tf, _ = load(framework, 1)
    step = clusters.PROGRAMS[program](tf, cluster, 0)

    def measure(size: int) -> float:
        begin = time.perf_counter()
        step()
        return time.perf_counter() - begin

    serve(measure)


def compare(label: str, teams: dict[str, Measured], size: int, rounds: int, aim: float) -> None:
    """Has ours and theirs take turns, and prints a row."""
    times: dict[str, list[float]] = {name: [] for name in teams}
    for i in range(rounds + 3):
        for name, team in teams.items():
            taken = team.measure(size)
            if i >= 3:
                times[name].append(taken)
    medians = {name: statistics.median(each) for name, each in times.items()}
    ours, theirs = (medians[name] for name in teams)
    shown = ", ".join(f"{name} {medians[name]:.2f} ms (best {min(times[name]):.2f})" for name in teams)
    print(f"{label}: {shown}, ratio {theirs / ours:.2f} (aim {aim})", flush=True)


def compare_dense(peers: Path | None, program: str, rounds: int) -> None:
    """A dense null training step beside TensorFlow."""
    with Hosts(NUM_PS + 1) as hosts:
        teams: dict[str, Measured] = {}
        try:
            for framework in ("thalweg", "tensorflow"):
                teams[framework] = DenseSteps(hosts, python_of(framework, peers, []), framework, program)
            compare(f"null training step, 2 PS, {DENSE[program]}, TCP", teams, 0, rounds, 2.5)
        finally:
            for team in teams.values():
                team.close()


def compare_all_reduce(peers: Path | None, count: int, rounds: int) -> None:
    """All sizes of all-reduce beside gloo."""
    with Hosts(count) as hosts:
        teams: dict[str, Measured] = {}
        try:
            teams["thalweg"] = Team(sys.executable, "thalweg", count, False, hosts)
            teams["gloo"] = Team(python_of("torch", peers, []), "gloo", count, False, hosts)
            for label, size in SIZES.items():
                compare(f"all-reduce, {count} processes, {label}, TCP", teams, size, rounds, 1.0)
        finally:
            for team in teams.values():
                team.close()


def compare_hosts(peers: Path | None, rounds: int, rate: str, sizes: dict[str, int]) -> None:
    """All-reduce of two members on each of two hosts: by hosts, without knowing of them, and by gloo."""
    with Hosts(2) as hosts:
        if rate:
            hosts.throttle(rate)
        pythons = {
            "thalweg": sys.executable,
            "thalweg, hosts unknown": sys.executable,
            "gloo": python_of("torch", peers, []),
        }
        teams: dict[str, Measured] = {}
        try:
            for name, python in pythons.items():
                teams[name] = Team(python, name, 4, False, hosts, 2)
            for label, size in sizes.items():
                times: dict[str, list[float]] = {name: [] for name in teams}
                sent: dict[str, list[int]] = {name: [] for name in teams}
                for i in range(rounds + 3):
                    for name, team in teams.items():
                        before = hosts.bytes_sent(0)
                        taken = team.measure(size)
                        if i >= 3:
                            times[name].append(taken)
                            sent[name].append(hosts.bytes_sent(0) - before)
                shown = [
                    f"{name} {statistics.median(times[name]):.2f} ms (best {min(times[name]):.2f}, "
                    f"{statistics.median(sent[name]) / size:.2f} tensors sent)"
                    for name in teams
                ]
                print(f"all-reduce, 2 hosts x 2, {label}{', ' + rate if rate else ''}: {', '.join(shown)}", flush=True)
        finally:
            for team in teams.values():
                team.close()


def main() -> None:
    """Reads the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--peers", default=os.environ.get("THALWEG_PEERS"), help="a folder with the environments tf/ and torch/"
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--dense", nargs="*", choices=list(DENSE), default=list(DENSE))
    parser.add_argument("--processes", type=int, nargs="*", default=[2, 4], help="of all-reduce")
    parser.add_argument("--rate", nargs="*", default=[""], help="of the links of two hosts with two members each")
    parser.add_argument("--sizes", type=int, nargs="*", help="of their all-reduce, in bytes")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        dense_worker(*json.loads(given.worker))
        return
    peers = Path(given.peers) if given.peers else None
    for program in given.dense:
        compare_dense(peers, program, given.rounds)
    for count in given.processes:
        compare_all_reduce(peers, count, given.rounds)
    sizes = SIZES if given.sizes is None else {f"{size} bytes": size for size in given.sizes}
    for rate in given.rate:
        compare_hosts(peers, given.rounds, rate, sizes)


if __name__ == "__main__":
    main()
