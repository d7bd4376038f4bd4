"""`thalweg completion bash`: prints what makes a shell complete the commands and options of `thalweg`."""

from __future__ import annotations

import argparse
from typing import Any

HELP = "print the completion of this command for a shell"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"), help='for example: eval "$(thalweg completion bash)"')


def run(options: Any) -> int:
    """Prints the script."""
    try:
        import shtab  # An extra, which only this command uses.
    except ModuleNotFoundError:
        raise ValueError("completion needs shtab: pip install 'thalweg[completion]'") from None
    from thalweg.cli.main import parser  # Start-up time: the command line is made of this module, too.

    print(shtab.complete(parser(), shell=options.shell))
    return 0
