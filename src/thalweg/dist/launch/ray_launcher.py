"""Launches a program on a Ray cluster: an actor for each task places, starts and restarts its process.

    from thalweg.dist.launch import ray_launcher
    code = ray_launcher.run("train.py", ["--steps", "1000"], ps=2, workers=4)

All tasks are placed together (a placement group). A task whose process crashes is started again by its actor; one whose
node is lost gets a new actor on another node, and the other tasks learn its new address (`FileDirectory`). Steps never
pass through Ray: tasks are connected with each other.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from thalweg.dist.launch.display import Display
from thalweg.dist.launch.measurements import Measurements, Sample
from thalweg.dist.launch.plan import SERVING_JOB, LaunchPlan, Program, Task, certificates_of_run
from thalweg.dist.launch.ray_task import Place, RayTask, Report
from thalweg.dist.launch.supervision import Instruction, Note, Signal, Start, Supervision

# How long an actor may keep a question. It answers at once when there are lines, or the process has ended: more
# questions would only take time from the tasks on the actors' hosts.
_POLL_SECONDS: Final = 5.0
_TABLE_SECONDS: Final = 1.0  # likewise if a table is shown
# How long to look for room on other nodes for a lost task before waiting for Ray to repair the placement group.
_OTHER_NODE_SECONDS: Final = 3.0


@dataclass
class _Remote:
    """The actor of a task. `group` is a placement group for this task alone, after its node was lost."""

    actor: Any
    group: PlacementGroup | None = None
    place: Place | None = None
    is_running: bool = False
    sample: Sample = field(default_factory=Sample)


@dataclass
class _Question:
    """A call of an actor that has not been answered."""

    task: Task
    is_poll: bool
    asked: float


class RayLauncher:
    """One launch. `ray.init` has been called."""

    def __init__(
        self,
        plan: LaunchPlan,
        program: Program,
        display: Display,
        restarts: int = 3,
        grace: float = 5.0,
        resources: Mapping[str, float] | None = None,
        ps_resources: Mapping[str, float] | None = None,
        strategy: str = "SPREAD",
        patience: float = 10.0,
        runtime_env: Mapping[str, Any] | None = None,
        fresh: bool = False,
    ) -> None:
        """Describes a launch.

        Args:
            plan: The tasks.
            program: What they run; its script has the same path on all nodes, or is in `runtime_env`'s working_dir.
            display: Where their output goes; it is in Ray's logs of the actors as well.
            restarts: How often each task is started again after a crash or the loss of its node.
            grace: The seconds between SIGTERM and SIGKILL for processes that are to end.
            resources: What Ray reserves for each task: {"CPU": 1} if None.
            ps_resources: The same for PS tasks; as `resources` if None.
            strategy: How Ray spreads the tasks over nodes: "SPREAD", "PACK", "STRICT_SPREAD" or "STRICT_PACK".
            patience: The seconds after which an actor that does not answer is given up.
            runtime_env: The runtime environment of the actors.
            fresh: Whether each task is a new interpreter, in place of a fork of one process for each host.
        """
        self._plan, self._program, self._display = plan, program, display
        self._supervision = Supervision(plan.tasks, restarts, grace)
        everyone = dict(resources or {"CPU": 1})
        self._resources = {
            task: dict(ps_resources) if ps_resources and task.job == SERVING_JOB else everyone for task in plan.tasks
        }
        self._strategy, self._patience = strategy, patience
        self._runtime_env = dict(runtime_env or {})
        self._fresh = fresh
        self._name = secrets.token_hex(16)
        self._poll_seconds = _TABLE_SECONDS if display.has_table else _POLL_SECONDS
        self._measurements = Measurements()
        self._remotes: dict[Task, _Remote] = {}
        self._questions: dict[Any, _Question] = {}
        self._addresses: dict[Task, str] = {}
        self._placed_tasks: list[Task] = []  # that are started when all addresses are known
        self._suspected: set[str] = set()  # nodes that were lost
        self._interrupts: list[int] = []

    def interrupt(self, code: int) -> None:
        """Asks for an early end, with this exit code; a second time, at once. From a signal handler, or any thread."""
        self._interrupts.append(code)

    def run(self) -> int:
        """Runs the program: its exit code, as that of `LocalLauncher.run`."""
        bundles = [self._resources[task] for task in self._plan.tasks]
        self._group = placement_group(bundles, strategy=self._strategy)
        try:
            self._carry_out(self._supervision.begin())
            table = 0.0
            while (code := self._supervision.exit_code) is None:
                self._wait()
                while self._interrupts:
                    self._carry_out(self._supervision.interrupt(self._interrupts.pop(0), time.monotonic()))
                self._carry_out(self._supervision.tick(time.monotonic()))
                if self._display.has_table and time.monotonic() >= table:
                    table = time.monotonic() + _TABLE_SECONDS
                    samples = {task: remote.sample for task, remote in self._remotes.items() if remote.is_running}
                    self._display.rows(self._measurements.rows(self._supervision.tasks, samples))
            return code
        finally:
            self._close()

    def _close(self) -> None:
        ends = [remote.actor.close.remote() for remote in self._remotes.values()]
        if ends:
            ray.wait(ends, num_returns=len(ends), timeout=5.0)
        for task in list(self._remotes):
            self._drop(task)
        remove_placement_group(self._group)

    # Actors.

    def _start(self, task: Task) -> None:
        """Asks the task's actor, or a new one, where it can listen; the process is started when that is known."""
        if task not in self._remotes:
            self._remotes[task] = self._new_remote(task)
        remote = self._remotes[task]
        port = remote.place.port if remote.place is not None else None
        self._ask(task, remote.actor.place.remote(port), is_poll=False)

    def _new_remote(self, task: Task) -> _Remote:
        group = self._group_elsewhere(task) if self._suspected else None
        index = 0 if group is not None else self._plan.tasks.index(task)
        resources = self._resources[task]
        scheduling = PlacementGroupSchedulingStrategy(group or self._group, placement_group_bundle_index=index)
        options = {
            "num_cpus": resources.get("CPU", 0),
            "num_gpus": resources.get("GPU", 0),
            "resources": {name: amount for name, amount in resources.items() if name not in ("CPU", "GPU", "memory")},
            "scheduling_strategy": scheduling,
            "max_restarts": 0,
            "max_concurrency": 2,  # `poll` and one other method
            **({"memory": resources["memory"]} if "memory" in resources else {}),
            **({"runtime_env": self._runtime_env} if self._runtime_env else {}),
        }
        return _Remote(ray.remote(RayTask).options(**options).remote(str(task), self._name), group)

    def _group_elsewhere(self, task: Task) -> PlacementGroup | None:
        """Room for one task on nodes that were not lost; None if there is none, or Ray has noticed the loss itself.

        Ray takes long to notice that a node is gone, and would wait for it with the task's place in the first group.
        """
        alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        lost = sorted(self._suspected & alive)
        self._suspected &= alive
        if not lost or len(lost) == len(alive):
            return None
        selector = {"ray.io/node-id": f"!in({','.join(lost)})"}
        group = placement_group([self._resources[task]], bundle_label_selector=[selector])
        if group.wait(_OTHER_NODE_SECONDS):
            return group
        remove_placement_group(group)
        return None

    def _drop(self, task: Task) -> None:
        """Gives an actor up."""
        remote = self._remotes.pop(task)
        self._questions = {ref: each for ref, each in self._questions.items() if each.task != task}
        ray.kill(remote.actor, no_restart=True)
        if remote.group is not None:
            remove_placement_group(remote.group)

    def _ask(self, task: Task, ref: Any, is_poll: bool) -> None:
        self._questions[ref] = _Question(task, is_poll, time.monotonic())

    # Events.

    def _wait(self) -> None:
        now = time.monotonic()
        due = self._supervision.next_due()
        pause = min(0.5, max(0.0, due - now) if due is not None else 0.5)
        if self._questions:
            ray.wait(list(self._questions), timeout=pause)
            ready, _ = ray.wait(list(self._questions), num_returns=len(self._questions), timeout=0)
            for ref in ready:
                if ref in self._questions:  # An earlier one may have given the actor up.
                    self._answered(ref)
        else:
            time.sleep(pause)
        limit = time.monotonic() - self._poll_seconds - self._patience
        for question in [each for each in self._questions.values() if each.is_poll and each.asked < limit]:
            self._lost(question.task, f"has not answered for {self._patience:g} s")

    def _answered(self, ref: Any) -> None:
        question = self._questions.pop(ref)
        task = question.task
        try:
            answer = ray.get(ref)
        except ray.exceptions.ActorUnavailableError:
            self._lost(task, "was lost with its node")
        except ray.exceptions.RayActorError:
            # The process of the actor has died, or Ray has noticed that its node has: its place will be given again.
            self._lost(task, "was lost with its actor", suspect=False)
        except ray.exceptions.RayTaskError as e:
            self._drop(task)
            self._exited(task, 1, f"could not be started: {e.cause}")
        else:
            if isinstance(answer, Report):
                self._reported(task, answer)
            else:
                self._placed(task, answer)

    def _placed(self, task: Task, place: Place) -> None:
        """An actor knows where its task can listen. When all do, the processes are started."""
        address = f"{place.host}:{place.port}"
        has_moved = self._addresses.get(task) != address
        self._addresses[task] = address
        self._remotes[task].place = place
        self._placed_tasks.append(task)
        if len(self._addresses) < len(self._plan.tasks):
            return
        cluster = self._plan.cluster(self._addresses)
        if has_moved:
            for other, remote in self._remotes.items():
                if remote.is_running and other != task:
                    remote.actor.update.remote(cluster)
        for each in self._placed_tasks:
            remote = self._remotes[each]
            remote.is_running = True
            assert remote.place is not None
            self._display.note(f"{each} runs on node {remote.place.node} at {self._addresses[each]}.")
            command, environment = self._program.command(each), self._plan.environment(each, self._addresses)
            self._ask(each, remote.actor.start.remote(command, environment, cluster, self._fresh), is_poll=False)
        self._placed_tasks.clear()

    def _reported(self, task: Task, report: Report) -> None:
        remote = self._remotes[task]
        remote.sample = report.sample
        self._display.lines(task, report.lines)
        if report.exit_code is None:
            self._ask(task, remote.actor.poll.remote(self._poll_seconds), is_poll=True)
        else:
            self._exited(task, report.exit_code)

    def _lost(self, task: Task, why: str, suspect: bool = True) -> None:
        place = self._remotes[task].place
        if suspect and place is not None:
            self._suspected.add(place.node)
        self._drop(task)
        self._exited(task, -signal.SIGKILL, why)

    def _exited(self, task: Task, code: int, why: str = "") -> None:
        if task in self._remotes:
            self._remotes[task].is_running = False
        if task in self._placed_tasks:
            self._placed_tasks.remove(task)
        self._carry_out(self._supervision.exited(task, code, time.monotonic(), why))

    # Instructions.

    def _carry_out(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Start(task):
                    self._start(task)
                case Signal(task, number):
                    self._signal(task, number)
                case Note(text):
                    self._display.note(text)
        self._supervision.validate()

    def _signal(self, task: Task, number: signal.Signals) -> None:
        remote = self._remotes[task]
        if remote.is_running:
            remote.actor.signal.remote(int(number))
        else:  # It waits for a place, or for the places of others.
            self._drop(task)
            self._exited(task, -number)


def run(
    script: str,
    arguments: Sequence[str] = (),
    ps: int = 1,
    workers: int = 2,
    chief: bool = False,
    serve_ps: bool = False,
    log_dir: str | None = None,
    echo: bool = True,
    tls: bool = False,
    **options: Any,
) -> int:
    """Runs a program on the Ray cluster that this process is connected to, from inside of a Ray program.

    Args:
        script: The program; each of its processes finds its task in TF_CONFIG (`tf.distribute.start_task`).
        arguments: Its arguments.
        ps: The number of PS tasks.
        workers: The number of workers.
        chief: Whether there is a chief besides the workers.
        serve_ps: Whether PS tasks only serve, and do not run the program.
        log_dir: A folder for the logs of all tasks, on the machine of this process.
        echo: Whether to print the logs. They also are in Ray's logs of the actors, which `ray.init` prints unless
            `log_to_driver=False`.
        tls: Whether to encrypt connections between tasks, with certificates that are made for this run.
        options: More arguments of `RayLauncher`: restarts, grace, resources, ps_resources, strategy, runtime_env,
            fresh.

    Returns:
        0, or the exit code of the task that failed.
    """
    plan = LaunchPlan(ps, workers, chief, tls=certificates_of_run() if tls else None)
    with open(os.devnull, "w") as nowhere:
        display = Display(sys.stdout if echo else nowhere, plan.tasks, log_dir)
        try:
            return RayLauncher(plan, Program(script, tuple(arguments), serve_ps), display, **options).run()
        finally:
            display.close()


def run_command(launcher_of: Callable[[], RayLauncher], address: str | None) -> int:
    """Connects to a Ray cluster and runs a launch, which signals end: for the command line."""
    ray.init(address=address, log_to_driver=False, logging_level="warning")
    try:
        launcher = launcher_of()
        ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        previous = {each: signal.signal(each, lambda number, _: launcher.interrupt(128 + number)) for each in ending}
        try:
            return launcher.run()
        finally:
            for each, handler in previous.items():
                signal.signal(each, handler)
    finally:
        ray.shutdown()
