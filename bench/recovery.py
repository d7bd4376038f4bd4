"""How soon lost tasks are noticed, and training goes on: `python bench/recovery.py --peers FOLDER`.

Beside TensorFlow's own servers and MonitoredTrainingSession, with the same program, and torchrun with gloo, with an
equal small one. Every run is a fresh cluster on this machine; frameworks take turns. Printed are medians.

- killed, stopped, cut off: from SIGKILL or SIGSTOP of a parameter server, or the cut of its link, until a step that
  waits for it fails in the worker (`Session.run` raises). Links are cut between network namespaces, which root makes.
- recovery: from SIGKILL of a parameter server, which is started again at once, to the end of the first step after a
  restored checkpoint; of torchrun, from SIGKILL of one of two workers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.peers import environment_of, python_of
from tests.dist.network_hosts import Hosts, hosts_if_permitted

ROOT = Path(__file__).parents[1]
SAVE_STEPS = 10
KILL_AT = 25  # the step
# Compiled modules of Thalweg, which an installed package has: sources would be compiled at each start.
COMPILED = os.path.join(tempfile.gettempdir(), f"recovery_modules_{os.getpid()}")
LIMIT = 30.0  # seconds after which a loss counts as not noticed

# Programs: they run in the Python of their framework, and print events with the time of the host's monotonic clock.


def say(*words: Any) -> None:
    """Prints an event."""
    print(*words, time.monotonic(), flush=True)


def load(framework: str) -> Any:
    """The module of the framework."""
    if framework == "thalweg":
        import thalweg as tf
    else:
        import tensorflow.compat.v1 as tf

        tf.disable_v2_behavior()
    return tf


def serve(tf: Any, cluster: dict[str, list[str]], job: str) -> Any:
    """A server of the first task of a job."""
    return tf.train.Server(tf.train.ClusterSpec(cluster), job_name=job, task_index=0)


def wait_for_loss(tf: Any, cluster: dict[str, list[str]], directory: str) -> None:
    """A worker whose step waits for an element of a queue on the parameter server."""
    server = serve(tf, cluster, "worker")
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(1, tf.float32, shapes=[[]])
        size, element = queue.size(), queue.dequeue()
    with tf.Session(server.target) as session:
        session.run(size)
        say("waits")
        try:
            session.run(element)
        except tf.errors.UnavailableError:
            say("lost")
    os._exit(0)


def train(tf: Any, cluster: dict[str, list[str]], directory: str) -> None:
    """A worker that trains a variable on the parameter server, with checkpoints."""
    server = serve(tf, cluster, "worker")
    with tf.device(tf.train.replica_device_setter(cluster=tf.train.ClusterSpec(cluster))):
        step = tf.train.get_or_create_global_step()
        w = tf.get_variable("w", [1000], initializer=tf.ones_initializer(), use_resource=True)
        update = tf.train.GradientDescentOptimizer(0.01).minimize(tf.reduce_sum(tf.square(w)), global_step=step)
    with tf.train.MonitoredTrainingSession(
        server.target, True, directory, save_checkpoint_steps=SAVE_STEPS, save_summaries_steps=None,
        log_step_count_steps=None,
    ) as session:  # fmt: skip
        while not session.should_stop():
            _, seen = session.run([update, step])
            say("step", int(seen))
            time.sleep(0.01)


def train_by_torch(directory: str) -> None:
    """One of the workers of torchrun: all-reduced gradients, and checkpoints by the first."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    path = os.path.join(directory, "model.pt")
    state = torch.load(path) if os.path.exists(path) else {"step": 0, "w": torch.ones(1000)}
    if dist.get_rank() == 1:
        say("pid", os.getpid())
    while True:
        gradient = 2 * state["w"]
        dist.all_reduce(gradient)
        state["w"] -= 0.005 * gradient
        state["step"] += 1
        if dist.get_rank() == 0:
            if state["step"] % SAVE_STEPS == 0:
                torch.save(state, path + ".new")
                os.replace(path + ".new", path)
            say("step", state["step"])
        time.sleep(0.01)


# The measuring process.


class Program:
    """A process, and the events that it has printed."""

    def __init__(self, python: str, framework: str, arguments: list[str], prefix: list[str]) -> None:
        """Starts it."""
        self.events: list[list[str]] = []
        variables = environment_of(framework, 1)
        if framework == "thalweg":
            variables |= {"PYTHONPATH": str(ROOT / "src"), "THALWEG_CLUSTER_KEY": "of a benchmark"}
            variables |= {"PYTHONPYCACHEPREFIX": COMPILED, "PYTHONDONTWRITEBYTECODE": ""}
        self.process = subprocess.Popen(
            [*prefix, python, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=variables
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.events.extend(line.split() for line in self.process.stdout)

    def wait_for(self, is_it: Callable[[list[str]], bool], seconds: float, begin: int = 0) -> list[str] | None:
        """The first event from the `begin`-th on that is the right one; None if it does not come."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for event in self.events[begin:]:
                if is_it(event):
                    return event
            time.sleep(0.002)
        return None

    def close(self) -> None:
        """Kills it."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Cluster:
    """A parameter server and a worker, on this host or on two."""

    def __init__(self, python: str, framework: str, program: str, hosts: Hosts | None = None) -> None:
        """Starts both."""
        self._given, self._hosts = (python, framework), hosts
        self.directory = tempfile.mkdtemp(prefix="recovery_")
        sockets = {job: socket.socket() for job in ("ps", "worker")}
        for each in sockets.values():
            each.bind(("127.0.0.1", 0))
        self._addresses = {
            job: [f"{hosts.addresses[job == 'ps'] if hosts else '127.0.0.1'}:{each.getsockname()[1]}"]
            for job, each in sockets.items()
        }
        for each in sockets.values():
            each.close()
        self.ps = self.start("ps", "serve")
        self.worker = self.start("worker", program)

    def start(self, job: str, program: str) -> Program:
        """Starts a task."""
        python, framework = self._given
        prefix = ["ip", "netns", "exec", self._hosts.names[job == "ps"]] if self._hosts else []
        given = json.dumps([framework, program, self._addresses, self.directory])
        return Program(python, framework, [__file__, "--program", given], prefix)

    def close(self) -> None:
        """Kills both."""
        self.ps.close()
        self.worker.close()
        shutil.rmtree(self.directory)


def require(event: list[str] | None, what: str) -> list[str]:
    """The event.

    Raises:
        RuntimeError: If there is none.
    """
    if event is None:
        raise RuntimeError(f"no {what} within the time limit")
    return event


def notice(python: str, framework: str, fault: str) -> float | None:
    """Seconds until a waiting step fails; None if it does not."""
    hosts = hosts_if_permitted(2) if fault == "cut off" else None
    if fault == "cut off" and hosts is None:
        raise RuntimeError("network namespaces cannot be made")
    cluster = Cluster(python, framework, "wait_for_loss", hosts)
    try:
        require(cluster.worker.wait_for(lambda event: event[0] == "waits", 60), "waiting step")
        time.sleep(1)
        begin = time.monotonic()
        if hosts:
            hosts.cut(1)
        else:
            cluster.ps.process.send_signal(signal.SIGKILL if fault == "killed" else signal.SIGSTOP)
        found = cluster.worker.wait_for(lambda event: event[0] == "lost", LIMIT)
        return None if found is None else float(found[-1]) - begin
    finally:
        cluster.close()
        if hosts:
            hosts.close()


def _step_after(worker: Program, kill: Callable[[], None], restart: Callable[[], None]) -> float:
    """Seconds from a kill to the first step after the checkpoint that was restored."""
    require(worker.wait_for(lambda event: event[0] == "step" and int(event[1]) >= KILL_AT, 90), "step before the kill")
    begin = time.monotonic()
    kill()
    restart()
    # Steps that had been done by then are printed a moment later.
    last = max(int(event[1]) for event in worker.events if event[0] == "step" and float(event[-1]) <= begin)
    right = range(last // SAVE_STEPS * SAVE_STEPS - SAVE_STEPS, last + 1)
    # A restored run repeats steps: its first step is not beyond the last one before the kill.
    found = worker.wait_for(
        lambda event: event[0] == "step" and float(event[-1]) > begin and int(event[1]) in right, 90
    )
    return float(require(found, "step after the kill")[-1]) - begin


def recover(python: str, framework: str) -> float:
    """The time of a parameter server's loss."""
    cluster = Cluster(python, framework, "train")

    def restart() -> None:
        cluster.ps.close()
        cluster.ps = cluster.start("ps", "serve")

    try:
        return _step_after(cluster.worker, cluster.ps.process.kill, restart)
    finally:
        cluster.close()


def recover_by_torchrun(python: str) -> float:
    """The time of a worker's loss, with an elastic agent that starts both workers again."""
    directory = tempfile.mkdtemp(prefix="recovery_")
    arguments = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "--max-restarts=3"]
    given = json.dumps(["torch", "train_by_torch", {}, directory])
    agent = Program(python, "torch", [*arguments, __file__, "--program", given], [])
    try:
        pid = int(require(agent.wait_for(lambda event: event[0] == "pid", 90), "worker of torchrun")[1])
        return _step_after(agent, lambda: os.kill(pid, signal.SIGKILL), lambda: None)
    finally:
        agent.process.terminate()  # The agent ends its workers.
        agent.process.wait()
        agent.close()
        shutil.rmtree(directory)


def measure(n: int, peers: Path | None, pip: list[str]) -> None:
    """Measures everything, and prints the table."""
    pythons = {name: python_of(name, peers, pip) for name in ("thalweg", "tensorflow", "torch")}
    cases: dict[tuple[str, str], Callable[[], float | None]] = {}
    for framework in ("thalweg", "tensorflow"):
        python = pythons[framework]
        for fault in ("killed", "stopped", *(["cut off"] if framework == "thalweg" else [])):
            cases[fault, framework] = lambda p=python, f=framework, what=fault: notice(p, f, what)
        cases["recovery", framework] = lambda p=python, f=framework: recover(p, f)
    cases["recovery", "torchrun"] = lambda: recover_by_torchrun(pythons["torch"])
    found: dict[tuple[str, str], list[float | None]] = {case: [] for case in cases}
    for case in [case for case in cases if case[0] == "recovery"]:
        with contextlib.suppress(RuntimeError):  # A peer may not recover within the time limit.
            cases[case]()  # so that files are in the page cache, and modules compiled
    for turn in range(n):
        for case, run in cases.items():
            if found[case] and not any(found[case]):
                continue  # Half a minute for the same answer.
            try:
                found[case].append(run())
            except RuntimeError as e:
                print(f"{case[0]}, {case[1]}: {e}", file=sys.stderr)
            print(f"turn {turn + 1}: {case[0]}, {case[1]}: {found[case][-1:]}", file=sys.stderr, flush=True)
    print(f"{'':10} {'framework':11} {'median':>10} {'least':>8} {'most':>8} {'runs':>5} {'/ thalweg':>10}")
    for (case, framework), times in found.items():
        own = [each for each in found[case, "thalweg"] if each is not None]
        seen = [each for each in times if each is not None]
        if not seen:
            print(f"{case:10} {framework:11} {f'> {LIMIT:.0f} s' if times else 'not run':>10}")
            continue
        median = statistics.median(seen)
        ratio = f"{median / statistics.median(own):.1f}" if own else ""
        print(f"{case:10} {framework:11} {median:8.3f} s {min(seen):8.3f} {max(seen):8.3f} {len(seen):5} {ratio:>10}")
    print(f"load average: {', '.join(f'{each:.1f}' for each in os.getloadavg())}")


def main() -> None:
    """Reads the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--peers", type=Path, default=os.environ.get("THALWEG_PEERS"), help="folder with tf/ and torch/"
    )
    parser.add_argument("--pip", nargs="*", default=[], help="further arguments for pip")
    parser.add_argument("-n", type=int, default=5, help="runs of each case")
    parser.add_argument("--program", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.program is None:
        try:
            measure(given.n, given.peers, given.pip)
        finally:
            shutil.rmtree(COMPILED, ignore_errors=True)
        return
    framework, program, cluster, directory = json.loads(given.program)
    if program == "train_by_torch":
        train_by_torch(directory)
        return
    tf = load(framework)
    if program == "serve":
        serve(tf, cluster, "ps").join()
    {"wait_for_loss": wait_for_loss, "train": train}[program](tf, cluster, directory)


if __name__ == "__main__":
    main()
