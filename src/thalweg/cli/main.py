"""Finds the subcommands of `thalweg` in this folder and runs one.

A subcommand is a module with `HELP` (one line), `add_arguments(parser)` and `run(options)`: it returns the exit code.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Sequence

from thalweg import cli, errors


def commands() -> list[str]:
    """The names of the subcommands."""
    return sorted(module.name for module in pkgutil.iter_modules(cli.__path__) if module.name != "main")


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    found = argparse.ArgumentParser("thalweg", description="Tools around dataflow graphs.")
    subparsers = found.add_subparsers(dest="command", required=True, metavar="command")
    for name in commands():
        module = importlib.import_module(f"thalweg.cli.{name}")
        subparser = subparsers.add_parser(name, help=module.HELP, description=module.HELP)
        module.add_arguments(subparser)
        subparser.set_defaults(run=module.run)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand; errors in its input are one line on standard error."""
    options = parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except (errors.OpError, OSError, ValueError) as e:
        print(f"thalweg {options.command}: {e}", file=sys.stderr)
        return 1
