"""Command-line flags: absl's, as TensorFlow's are, and FLAGS, which parses the command line when it is first read.

FLAGS and `absl.flags.FLAGS` hold the same flags. Beyond absl, definitions take the names that TensorFlow's arguments
had before 1.5, and reading a flag before anything was parsed parses `sys.argv`, leaving undefined flags alone.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, ParamSpec, TypeVar

from absl import flags as absl_flags
from absl.flags import *  # noqa: F403

__all__ = list(absl_flags.__all__)

absl_flags.disclaim_key_flags()  # A flag belongs to the module that calls a definition of this one.

_P = ParamSpec("_P")
_R = TypeVar("_R")
_OLD_NAMES: Final = {"flag_name": "name", "default_value": "default", "docstring": "help"}
_HELP: Final = ("help", "helpshort", "helpfull")


class _HelpFlag(absl_flags.BooleanFlag):
    """Prints the main module's docstring and the flags, then ends the program, as soon as it is parsed."""

    def __init__(self, name: str, values: ProgramFlags) -> None:
        super().__init__(name, False, "show this help", allow_override=True)
        self._values = values

    def parse(self, argument: Any) -> None:
        if self.parser.parse(argument):
            self._values.print_help()


class ProgramFlags(absl_flags.FlagValues):
    """The flags of a program and their values, each an attribute: `FLAGS.learning_rate`.

    The first look at a value parses `sys.argv`, if nothing else has done so; undefined flags are left alone.
    """

    def __init__(self, shared: absl_flags.FlagValues | None = None) -> None:
        """Starts without flags, or as another view of the flags of `shared`."""
        super().__init__()  # type: ignore[no-untyped-call]
        if shared is not None:
            # Absl keeps all of its state in this dictionary, because attributes are flags.
            object.__setattr__(self, "__dict__", shared.__dict__)

    def __call__(self, argv: Sequence[str], known_only: bool = False) -> list[str]:
        """Parses a command line, and knows `--help`.

        Args:
            argv: The program's name and its arguments: `--name=value`, `--name value`, `--name` and `--noname` for
                booleans, with one dash or two. What follows `--` is not parsed.
            known_only: Whether undefined flags are left alone; otherwise they are an error.

        Returns:
            The program's name and the arguments that are not flags.

        Raises:
            UnrecognizedFlagError: If a flag is not defined, unless `known_only`.
            IllegalFlagValueError: If a value is bad, or a validator rejects it.
        """
        for name in _HELP:
            if name not in self:
                absl_flags.DEFINE_flag(_HelpFlag(name, self), self)
        return super().__call__(argv, known_only)

    def parse_once(self) -> None:
        """Parses `sys.argv` unless a command line was parsed before; undefined flags are left alone."""
        if not self.is_parsed():
            self(sys.argv or [""], known_only=True)

    _parse_flags = parse_once  # the name that programs from before 1.5 call

    def print_help(self) -> NoReturn:
        """Prints the main module's docstring and every flag, and ends the program."""
        main = sys.modules.get("__main__")
        usage = (main and main.__doc__) or f"USAGE: {sys.argv[0] if sys.argv else ''} [flags]"
        print(f"{usage.strip()}\n\nflags:\n{self.get_help()}", flush=True)
        raise SystemExit(0)

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(f"No flag is called {name!r}: define it first, for instance with DEFINE_string.")
        self.parse_once()
        return super().__getattr__(name)


FLAGS = ProgramFlags(absl_flags.FLAGS)
"""The flags of the program."""


def _definition(define: Callable[_P, _R]) -> Callable[_P, _R]:
    """A definition of absl's that also takes the old names of its arguments, and defines flags of FLAGS."""

    @functools.wraps(define)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        for old, new in _OLD_NAMES.items():
            if old in kwargs:
                kwargs[new] = kwargs.pop(old)
        if not any(isinstance(arg, absl_flags.FlagValues) for arg in args):
            kwargs.setdefault("flag_values", FLAGS)
        return define(*args, **kwargs)

    return wrapper


for _name in absl_flags.__all__:
    if _name.startswith("DEFINE"):
        globals()[_name] = _definition(getattr(absl_flags, _name))
