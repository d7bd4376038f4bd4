"""`thalweg run program.py`: runs a program that says `import tensorflow` on Thalweg."""

from __future__ import annotations

import argparse
import os
from typing import Any

from thalweg.as_tensorflow.install import install_as_tensorflow
from thalweg.platform.programs import exit_code, run_program

HELP = "run a TensorFlow program unchanged: `import tensorflow` gives Thalweg"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options; everything after the program is the program's."""
    parser.add_argument("--shadow", action="store_true", help="also where TensorFlow is installed")
    parser.add_argument("--v2", action="store_true", help="a program of TensorFlow 2: ops run at once")
    parser.add_argument("program", help="the program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")


def run(options: Any) -> int:
    """Runs the program; returns its exit code."""
    if not os.path.isfile(options.program):
        raise FileNotFoundError(f"there is no program '{options.program}'")
    try:
        install_as_tensorflow(options.shadow, 2 if options.v2 else 1)
    except ImportError as e:
        raise ValueError(str(e)) from e
    return exit_code(lambda: run_program(options.program, options.arguments), options.program)
