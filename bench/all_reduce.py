"""All-reduce beside gloo in PyTorch: `python bench/all_reduce.py --peers FOLDER`.

Processes of both live through the whole run and take turns, one measurement each, so that noise meets both alike; those
whose turn it is not wait for a line of input. A measurement is the time that rank 0 needs for one all-reduce of float32
in place, right after a barrier. Printed are medians and their ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.namespaces import Hosts
from bench.peers import python_of

ROOT = Path(__file__).parents[1]
SIZES = {"1 MB": 1 << 20, "100 MB": 100 << 20}

Measure = Callable[[int], float]


def thalweg_worker(rank: int, addresses: list[str], tcp: bool, knows_host: bool) -> Measure:
    """One process of ours: a session without a target, as a program with Horovod's names has it.

    One that does not know its host reduces as if all processes had hosts of their own.
    """
    import thalweg as tf
    import thalweg.horovod as hvd
    from thalweg.dist import peers

    if not knows_host:
        peers.host_identity = lambda: ""
    protocol = "thalweg+tcp" if tcp else "thalweg"
    hvd.init(tf.train.Server({"worker": addresses}, "worker", rank, protocol))
    steps: dict[int, Any] = {}
    session = tf.Session()
    ready = session.make_callable(hvd.barrier(name="ready"))

    def measure(size: int) -> float:
        if size not in steps:
            value = tf.get_variable(f"value_{size}", [size // 4], initializer=tf.zeros_initializer(), use_resource=True)
            session.run(value.initializer)
            # In place, as in PyTorch.
            reduced = hvd.allreduce(value.value(), op=hvd.Sum, name=f"reduced_{size}")
            steps[size] = session.make_callable(value.assign(reduced, read_value=False))
        ready()
        begin = time.perf_counter()
        steps[size]()
        return time.perf_counter() - begin

    return measure


def gloo_worker(rank: int, addresses: list[str]) -> Measure:
    """One process of PyTorch with gloo."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(max(1, (os.cpu_count() or 1) // len(addresses)))
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"tcp://{addresses[0]}", rank=rank, world_size=len(addresses))
    tensors: dict[int, Any] = {}

    def measure(size: int) -> float:
        value = tensors.setdefault(size, torch.zeros(size // 4))
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(value)
        return time.perf_counter() - begin

    return measure


def serve(measure: Measure) -> None:
    """Measures once for each line, which is a size."""
    print("ready", flush=True)
    for line in sys.stdin:
        print(measure(int(line)), flush=True)


def read_line(process: subprocess.Popen[str]) -> str:
    """What a process tells next."""
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line:
        raise RuntimeError("a process has ended")
    return line


def write_line(process: subprocess.Popen[str], size: int) -> None:
    """Asks a process for a measurement."""
    assert process.stdin is not None
    process.stdin.write(f"{size}\n")
    process.stdin.flush()


def end(processes: list[subprocess.Popen[str]]) -> None:
    """Ends processes, and closes what they were told and read by."""
    for process in processes:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


class Team:
    """The processes of one framework."""

    def __init__(
        self, python: str, framework: str, count: int, tcp: bool, hosts: Hosts | None = None, each: int = 1
    ) -> None:
        """Starts them, on hosts if there are any, so many on each."""
        sockets = [socket.socket() for _ in range(count)]
        for reserved in sockets:
            reserved.bind(("127.0.0.1", 0))
        ports = [reserved.getsockname()[1] for reserved in sockets]
        for reserved in sockets:
            reserved.close()
        addresses = [f"{hosts.address(i // each) if hosts else '127.0.0.1'}:{port}" for i, port in enumerate(ports)]
        interface = {"GLOO_SOCKET_IFNAME": hosts.interface} if hosts else {}
        self._processes = []
        for rank in range(count):
            given = json.dumps([framework, rank, addresses, tcp])
            environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", **interface}
            self._processes.append(
                subprocess.Popen(
                    [*(hosts.command(rank // each) if hosts else []), python, __file__, "--worker", given],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    env=environment,
                )
            )
        for process in self._processes:
            read_line(process)

    def measure(self, size: int) -> float:
        """The time of one all-reduce at rank 0, in milliseconds."""
        for process in self._processes:
            write_line(process, size)
        times = [float(read_line(process)) for process in self._processes]
        return times[0] * 1000

    def close(self) -> None:
        """Ends them."""
        end(self._processes)


def compare(peers: str | None, count: int, rounds: int, tcp: bool) -> None:
    """Measures all sizes with so many processes, and prints a row for each."""
    teams = {
        "thalweg": Team(sys.executable, "thalweg", count, tcp),
        "gloo": Team(python_of("torch", Path(peers) if peers else None, []), "gloo", count, tcp),
    }
    try:
        for label, size in SIZES.items():
            times: dict[str, list[float]] = {name: [] for name in teams}
            for i in range(rounds + 3):
                for name, team in teams.items():
                    taken = team.measure(size)
                    if i >= 3:
                        times[name].append(taken)
            medians = {name: statistics.median(each) for name, each in times.items()}
            best = {name: min(each) for name, each in times.items()}
            print(
                f"{count} processes, {label:>6}{', TCP' if tcp else '     '}: thalweg {medians['thalweg']:8.3f} ms "
                f"(best {best['thalweg']:.3f}), gloo {medians['gloo']:8.3f} ms (best {best['gloo']:.3f}), "
                f"ratio {medians['gloo'] / medians['thalweg']:.2f}",
                flush=True,
            )
    finally:
        for team in teams.values():
            team.close()


def main() -> None:
    """Reads the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", default=os.environ.get("THALWEG_PEERS"), help="a folder with the environment torch/")
    parser.add_argument("--processes", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--tcp", action="store_true", help="no shared memory for Thalweg: TCP, as gloo uses it")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        framework, rank, addresses, tcp = json.loads(given.worker)
        if framework == "gloo":
            serve(gloo_worker(rank, addresses))
        else:
            serve(thalweg_worker(rank, addresses, tcp, framework != "thalweg, hosts unknown"))
        return
    for count in given.processes:
        compare(given.peers, count, given.rounds, given.tcp)


if __name__ == "__main__":
    main()
