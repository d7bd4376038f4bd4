"""`thalweg check program.py|folder`: lists the names of TensorFlow that a program uses and that Thalweg lacks."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from thalweg.as_tensorflow.census import Use, files_of, missing_part, uses_in

HELP = "list the names of TensorFlow that a program uses and that Thalweg lacks"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--all", action="store_true", help="list every name of TensorFlow, also those that are there")
    parser.add_argument("program", nargs="+", type=Path, help="a Python file, or a folder with such files")


def run(options: Any) -> int:
    """Prints `file:line: name` of each; returns 1 if something is missing or a file cannot be read."""
    files, uses, unreadable = 0, 0, 0
    lacking: dict[Use, None] = {}
    for path in (each for given in options.program for each in files_of(given)):
        files += 1
        try:
            found = uses_in(path)
        except ValueError as e:
            print(e)
            unreadable += 1
            continue
        uses += len(found)
        for use in found:
            missing = missing_part(use.name)
            if missing is not None:
                lacking[use._replace(name=missing)] = None
            elif options.all:
                print(use)
    for use in lacking:
        print(f"{use}: not in Thalweg")
    names = len({use.name for use in lacking})
    print(f"{files} files, {uses} uses of TensorFlow: {len(lacking)} of {names} names that Thalweg lacks")
    return 1 if lacking or unreadable else 0
