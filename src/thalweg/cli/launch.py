"""`thalweg launch --ps 2 --workers 4 train.py`: runs a program as a cluster, on this machine or on Ray."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

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
    local = parser.add_argument_group("on this machine")
    local.add_argument(
        "--port-base", type=_count, metavar="P", help="use the ports P, P+1, … (default: ports that are free)"
    )
    local.add_argument(
        "--fresh", action="store_true", help="start a new interpreter for each task instead of a fork of this one"
    )
    parser.add_argument("script", help="the program; each task finds its place in TF_CONFIG (tf.distribute.start_task)")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")


def run(options: Any) -> int:
    """Runs the program to its end; returns 0, or the exit code of the task that failed."""
    # Start-up time: `thalweg --help` needs no launcher.
    from thalweg.dist.launch.display import Display
    from thalweg.dist.launch.local_launcher import LocalLauncher
    from thalweg.dist.launch.plan import LaunchPlan, Program

    if not os.path.isfile(options.script):
        raise FileNotFoundError(f"there is no program '{options.script}'")
    plan = LaunchPlan(options.ps, options.workers, options.chief)
    program = Program(options.script, tuple(options.arguments), options.serve_ps)
    display = Display(sys.stdout, plan.tasks, options.log_dir, options.plain)
    try:
        launcher = LocalLauncher(
            plan, program, display, options.restarts, options.grace, options.port_base, options.fresh
        )
        return launcher.run()
    finally:
        display.close()


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"must not be negative, got {value}")
    return value
