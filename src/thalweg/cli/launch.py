"""`thalweg launch --ps 2 --workers 4 train.py`: runs a program as a cluster, on this machine or on Ray."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thalweg.dist.launch.display import Display
    from thalweg.dist.launch.plan import LaunchPlan, Program

HELP = "run a program as a cluster of parameter servers and workers"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options; everything after the script is the script's."""
    parser.add_argument("--ps", type=_count, default=1, metavar="N", help="parameter servers (default: 1)")
    parser.add_argument("--workers", type=_count, default=2, metavar="N", help="workers (default: 2)")
    parser.add_argument("--chief", action="store_true", help="add a chief to the workers")
    parser.add_argument("--serve-ps", action="store_true", help="PS tasks only serve: they do not run the program")
    parser.add_argument(
        "--restarts", type=_count, default=3, metavar="N", help="restart a crashed task up to N times (default: 3)"
    )
    parser.add_argument("--log-dir", metavar="DIR", help="also write the log of each task to DIR/<job>-<index>.log")
    parser.add_argument("--plain", action="store_true", help="no colours and no table of tasks")
    parser.add_argument(
        "--grace", type=float, default=5.0, metavar="S", help="seconds between SIGTERM and SIGKILL (default: 5)"
    )
    parser.add_argument(
        "--tls", action="store_true",
        help="encrypt TCP connections between tasks, with certificates that are made for this run",
    )  # fmt: skip
    parser.add_argument(
        "--fresh", action="store_true", help="start a new interpreter for each task instead of a fork of one process"
    )
    local = parser.add_argument_group("on this machine")
    local.add_argument(
        "--port-base", type=_count, metavar="P", help="use the ports P, P+1, … (default: ports that are free)"
    )
    parser.add_argument("--on", choices=("local", "ray"), default="local", help="where to run (default: local)")
    on_ray = parser.add_argument_group("on a Ray cluster (--on ray, needs thalweg[ray])")
    on_ray.add_argument(
        "--ray-address", metavar="ADDRESS", help="the cluster (default: RAY_ADDRESS, or one found here)"
    )
    on_ray.add_argument(
        "--resources", type=_resources, metavar="CPU=1,GPU=1", help="what Ray reserves for a task (default: CPU=1)"
    )
    on_ray.add_argument(
        "--ps-resources", type=_resources, metavar="CPU=1", help="the same for PS tasks (default: as --resources)"
    )
    on_ray.add_argument(
        "--strategy", choices=("SPREAD", "PACK", "STRICT_SPREAD", "STRICT_PACK"), default="SPREAD",
        help="how to place the tasks on nodes (default: SPREAD)",
    )  # fmt: skip
    on_ray.add_argument("--working-dir", metavar="DIR", help="a folder with the program, which Ray copies to all nodes")
    parser.add_argument("script", help="the program; each task finds its place in TF_CONFIG (tf.distribute.start_task)")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")


def run(options: Any) -> int:
    """Runs the program to its end; returns 0, or the exit code of the task that failed."""
    # Start-up time: `thalweg --help` needs no launcher.
    from thalweg.dist.launch.display import Display
    from thalweg.dist.launch.plan import LaunchPlan, Program, certificates_of_run

    if not os.path.isfile(os.path.join(options.working_dir or "", options.script)):
        raise FileNotFoundError(f"there is no program '{options.script}'")
    script = options.script
    if options.on == "ray" and not options.working_dir:
        script = os.path.abspath(script)  # Actors have working folders of their own.
    tls = certificates_of_run() if options.tls else None
    plan = LaunchPlan(options.ps, options.workers, options.chief, tls=tls)
    program = Program(script, tuple(options.arguments), options.serve_ps)
    display = Display(sys.stdout, plan.tasks, options.log_dir, options.plain)
    try:
        return (_run_on_ray if options.on == "ray" else _run_here)(options, plan, program, display)
    finally:
        display.close()


def _run_here(options: Any, plan: LaunchPlan, program: Program, display: Display) -> int:
    # Start-up time: see `run`.
    from thalweg.dist.launch.local_launcher import LocalLauncher

    return LocalLauncher(
        plan, program, display, options.restarts, options.grace, options.port_base, options.fresh
    ).run()  # fmt: skip


def _run_on_ray(options: Any, plan: LaunchPlan, program: Program, display: Display) -> int:
    try:
        # Start-up time: see `run`.
        from thalweg.dist.launch.ray_launcher import RayLauncher, run_command
    except ModuleNotFoundError as e:
        if e.name != "ray":
            raise
        raise ValueError("--on ray needs Ray: pip install 'thalweg[ray]'") from None

    def launcher() -> RayLauncher:
        return RayLauncher(
            plan, program, display, options.restarts, options.grace, options.resources, options.ps_resources,
            options.strategy, runtime_env={"working_dir": options.working_dir} if options.working_dir else None,
            fresh=options.fresh,
        )  # fmt: skip

    return run_command(launcher, options.ray_address)


def _resources(text: str) -> dict[str, float]:
    found = {}
    for part in text.split(","):
        name, separator, amount = part.partition("=")
        try:
            found[name.strip()] = float(amount)
        except ValueError:
            separator = ""
        if not separator or not name.strip() or found[name.strip()] < 0:
            raise argparse.ArgumentTypeError(f"must look like CPU=1,GPU=0.5, got {text!r}")
    return found


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"must not be negative, got {value}")
    return value
