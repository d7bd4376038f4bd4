"""Finds the subcommands of `thalweg` in this folder and runs one.

A subcommand is a module with `HELP` (one line), `add_arguments(parser)` and `run(options)`: it returns the exit code.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import pkgutil
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from thalweg import cli, errors
from thalweg.platform import version


def commands() -> list[str]:
    """The names of the subcommands."""
    return sorted(module.name for module in pkgutil.iter_modules(cli.__path__) if module.name != "main")


class _Parser(argparse.ArgumentParser):
    """A parser that says which word was meant."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        close = difflib.get_close_matches(str(value), [str(choice) for choice in action.choices or ()], 1)
        if close and value not in (action.choices or ()):
            raise argparse.ArgumentError(action, f"unknown: {value!r}. Did you mean {close[0]!r}?")
        super()._check_value(action, value)


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    found = _Parser("thalweg", description="Tools around dataflow graphs.")
    found.add_argument(
        "--version",
        action="version",
        version=f"thalweg {version.THALWEG_VERSION} (API of TensorFlow {version.VERSION})",
    )
    subparsers = found.add_subparsers(dest="command", required=True, metavar="command")
    for name in commands():
        module = importlib.import_module(f"thalweg.cli.{name}")
        subparser = subparsers.add_parser(
            name,
            help=module.HELP,
            description=_description(module),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(subparser)
        subparser.set_defaults(run=module.run)
    return found


def _description(module: ModuleType) -> str:
    """What the command does, and the examples in the docstring of its module."""
    _, _, rest = (module.__doc__ or "").strip().partition("\n\n")
    examples = [line for line in rest.splitlines() if line.startswith("thalweg ")]
    summary = f"{module.HELP[0].upper()}{module.HELP[1:]}."
    return "\n".join([summary, "", *(f"  {line}" for line in examples)]) if examples else summary


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand; errors in its input are one line on standard error."""
    options = parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except (errors.OpError, OSError, ValueError) as e:
        said = f"{e.filename}: {e.strerror}" if isinstance(e, OSError) and e.filename and e.strerror else str(e)
        print(f"thalweg {options.command}: {said}", file=sys.stderr)
        return 1
