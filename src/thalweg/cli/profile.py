"""`thalweg profile script.py`: runs a program and says where the time and the memory of its steps went."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from thalweg.platform.programs import exit_code, run_program

HELP = "run a program and show where its steps spend time and memory"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options; everything after the script is the script's."""
    parser.add_argument("--every", type=_positive, default=1, metavar="N", help="trace every N-th step (default: 1)")
    parser.add_argument(
        "--steps", type=_positive, default=100, metavar="N", help="trace N steps at most (default: 100)"
    )
    parser.add_argument(
        "--top", type=_positive, default=20, metavar="N", help="show N rows of each table (default: 20)"
    )
    parser.add_argument("--output", metavar="FILE", help="write the traced steps for chrome://tracing and Perfetto")
    parser.add_argument("--report", metavar="FILE", help="write the tables to FILE instead of standard output")
    parser.add_argument("script", help="the program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")


def run(options: Any) -> int:
    """Runs the program and prints the profile, however it ends; returns its exit code."""
    # Start-up time: `thalweg --help` needs no session.
    from thalweg.profiler.recording import Recording
    from thalweg.profiler.report import report

    if not os.path.isfile(options.script):
        raise FileNotFoundError(f"there is no program '{options.script}'")
    with Recording(options.every, options.steps) as recording:
        code = exit_code(lambda: run_program(options.script, options.arguments), options.script)
    text = report(recording.profile(), options.top)
    if options.report:
        with open(options.report, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        sys.stdout.write("\n" + text)
    if options.output:
        recording.write_trace(options.output)
    return code


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value
