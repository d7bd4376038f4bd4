"""`tf.app`: runs a program's main function with its command line parsed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from thalweg.platform import flags

__all__ = ["flags", "run"]


def run(main: Callable[[list[str]], Any] | None = None, argv: Sequence[str] | None = None) -> NoReturn:
    """Parses the flags, calls the main function with the rest of the command line, and exits with its result.

    Args:
        main: The function; that of the main module if None.
        argv: The command line, program name first; `sys.argv` if None. Undefined flags reach `main`.

    Raises:
        SystemExit: Always: with main's result, or with 1 if a flag is wrong.
        ValueError: If there is no main function.
    """
    main = main or getattr(sys.modules["__main__"], "main", None)
    if main is None:
        raise ValueError(
            "tf.app.run() needs a main function: pass one, or define `main(argv)` in the program's module."
        )
    try:
        rest = flags.FLAGS(argv or sys.argv, known_only=True)
    except flags.Error as error:
        print(f"FATAL Flags parsing error:\n  {error}\nPass --help to see the flags.", file=sys.stderr)
        sys.exit(1)
    sys.exit(main(rest))
