"""Command-line flags: one Flag per definition, and FlagValues, which parses a command line and holds the values."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final


class Error(Exception):
    """The base of the errors of flags."""


class DuplicateFlagError(Error):
    """Two modules define a flag of the same name."""


class IllegalFlagValueError(Error):
    """A flag was given a value that it cannot have."""


class UnrecognizedFlagError(Error):
    """No flag of that name is defined."""

    def __init__(self, name: str, known: Sequence[str] = ()) -> None:
        import difflib

        close = difflib.get_close_matches(name, known)
        hint = f" Did you mean {' or '.join('--' + match for match in close)}?" if close else ""
        super().__init__(f"Unknown command line flag '{name}'.{hint}")
        self.flagname = name


class ValidationError(Error):
    """A validator rejected the value of a flag."""


class Flag:
    """One flag.

    Attributes:
        name: What follows the dashes.
        short_name: A second, shorter name, or None.
        help: The description for `--help`.
        default: The value unless the command line gives one.
        value: The current value.
        present: How often the last command line named the flag.
        boolean: Whether it stands without a value, and knows `--noname`.
        multi: Whether it may stand several times, each adding to a list.
        module: The name of the module that defined it.
    """

    def __init__(
        self,
        name: str,
        default: Any,
        help: str | None,
        parse: Callable[[Any], Any],
        short_name: str | None = None,
        boolean: bool = False,
        multi: bool = False,
        serialize: Callable[[Any], str] = str,
    ) -> None:
        """Describes a flag; `parse` takes a text or a default, and raises TypeError or ValueError for a bad one."""
        self.name = name
        self.short_name = short_name
        self.help = help or "(no help available)"
        self.boolean = boolean
        self.multi = multi
        self.present = 0
        self.module = ""
        self.module_id = 0
        self._parse = parse
        self._serialize = serialize
        self.default = self._parsed_default(default)
        self.value = self._fresh_default()

    def _parsed_default(self, default: Any) -> Any:
        if default is None:
            return None
        if self.multi:
            items = default if isinstance(default, (list, tuple)) else [default]
            return [self.parse_one(item) for item in items]
        return self.parse_one(default)

    def _fresh_default(self) -> Any:
        # A program that appends to the value must not change the default.
        return list(self.default) if isinstance(self.default, list) else self.default

    def parse_one(self, text: Any) -> Any:
        """Converts one text of the command line (or a default) to a value."""
        try:
            return self._parse(text)
        except (TypeError, ValueError) as error:
            raise IllegalFlagValueError(f"flag --{self.name}={text}: {error}") from error

    def set_default(self, default: Any) -> None:
        """Changes the default, and the value unless the command line gave one."""
        self.default = self._parsed_default(default)
        if not self.present:
            self.value = self._fresh_default()

    def take(self, text: Any) -> None:
        """Takes a value from the command line."""
        value = self.parse_one(text)
        if self.multi:
            value = [*self.value, value] if self.present else [value]
        self.value = value
        self.present += 1

    def reset(self) -> None:
        """Goes back to the default."""
        self.present = 0
        self.value = self._fresh_default()

    def serialize(self) -> str:
        """The arguments that give the flag its present value, one a line."""
        if self.value is None:
            return ""
        if self.boolean:
            return f"--{self.name}" if self.value else f"--no{self.name}"
        values = self.value if self.multi else [self.value]
        return "\n".join(f"--{self.name}={self._serialize(value)}" for value in values)

    def __str__(self) -> str:
        # Programs from before 1.5 print FLAGS.__flags, whose values were the values of the flags.
        return str(self.value)


class FlagValues:
    """The flags of a program and their values, each an attribute: `FLAGS.learning_rate`.

    The first look at a value parses `sys.argv`, if nothing else has done so; undefined flags are left alone.
    """

    _flags: dict[str, Flag]
    _validators: list[Callable[[FlagValues], str | None]]
    _parsed: bool

    def __init__(self) -> None:
        # Not by assignment: attributes are flags.
        self.__dict__.update(_flags={}, _validators=[], _parsed=False)

    def add(self, flag: Flag) -> None:
        """Adds a flag, on behalf of the module that called the flags package."""
        namespace = _calling_namespace()
        flag.module, flag.module_id = namespace.get("__name__", ""), id(namespace)
        for name in filter(None, (flag.name, flag.short_name)):
            known = self._flags.get(name)
            # A module that is imported a second time has a new namespace, and may define its flags again.
            if known and (known.module != flag.module or known.module_id == flag.module_id):
                raise DuplicateFlagError(
                    f"The flag '{name}' is defined twice: in {known.module} ({known.help}), then in {flag.module}."
                )
        for name in filter(None, (flag.name, flag.short_name)):
            self._flags[name] = flag

    def add_validator(self, find_fault: Callable[[FlagValues], str | None]) -> None:
        """Adds a condition on the values, looked at after parsing and after every change.

        Args:
            find_fault: Returns what is wrong with the values, or None; or raises ValidationError.
        """
        self._validators.append(find_fault)

    def _validate(self) -> None:
        for find_fault in self._validators:
            try:
                fault = find_fault(self)
            except ValidationError as error:
                raise IllegalFlagValueError(str(error)) from error
            if fault is not None:
                raise IllegalFlagValueError(fault)

    def __call__(self, argv: Sequence[str], known_only: bool = False) -> list[str]:
        """Parses a command line.

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
        if isinstance(argv, (str, bytes)) or not argv:
            raise TypeError(f"argv must be a list that begins with the program's name, got {argv!r}.")
        for flag in self._flags.values():
            flag.present = 0
        rest = [argv[0]]
        arguments = iter(argv[1:])
        for argument in arguments:
            if argument == "--":
                rest.extend([argument, *arguments] if known_only else arguments)
            elif argument in ("-", "") or not argument.startswith("-"):
                rest.append(argument)
            elif not self._take(argument, arguments):
                if not known_only:
                    raise UnrecognizedFlagError(argument.lstrip("-").partition("=")[0], list(self._flags))
                rest.append(argument)
        self.__dict__["_parsed"] = True
        self._validate()
        return rest

    def _take(self, argument: str, following: Iterator[str]) -> bool:
        """Gives the flag that an argument names its value; returns False if there is no such flag."""
        name, has_value, value = argument[2 if argument.startswith("--") else 1 :].partition("=")
        flag = self._flags.get(name)
        if flag is None:
            negated = self._flags.get(name[2:]) if name.startswith("no") and not has_value else None
            if negated is not None and negated.boolean:
                negated.take(False)
                return True
            if name in ("help", "helpshort", "helpfull", "h"):
                print(self.get_help(), flush=True)
                raise SystemExit(0)
            return False
        if has_value:
            flag.take(value)
        elif flag.boolean:
            flag.take(True)
        else:
            text = next(following, None)
            if text is None:
                raise IllegalFlagValueError(f"Missing value for flag --{name}")
            flag.take(text)
        return True

    def get_help(self) -> str:
        """The text that `--help` prints: the main module's docstring, then every flag."""
        main = sys.modules.get("__main__")
        lines = [((main and main.__doc__) or f"USAGE: {sys.argv[0] if sys.argv else ''} [flags]").strip(), "", "flags:"]
        for flag in sorted({id(flag): flag for flag in self._flags.values()}.values(), key=lambda flag: flag.name):
            dashes = f"--[no]{flag.name}" if flag.boolean else f"--{flag.name}"
            lines.append(f"  {f'-{flag.short_name}, ' if flag.short_name else ''}{dashes}: {flag.help}")
            lines.append(f"    (default: {flag.default!r})")
        return "\n".join(lines)

    def is_parsed(self) -> bool:
        """Whether a command line was parsed."""
        return self._parsed

    def mark_as_parsed(self) -> None:
        """Makes the defaults readable without a command line."""
        self.__dict__["_parsed"] = True

    def unparse_flags(self) -> None:
        """Forgets the command line: every flag goes back to its default."""
        for flag in self._flags.values():
            flag.reset()
        self.__dict__["_parsed"] = False

    def parse_once(self) -> None:
        """Parses `sys.argv` unless a command line was parsed before; undefined flags are left alone."""
        if not self._parsed:
            self(sys.argv or [""], known_only=True)

    _parse_flags = parse_once  # the name that programs from before 1.5 call

    def flag_values_dict(self) -> dict[str, Any]:
        """The names and values of all flags."""
        return {name: flag.value for name, flag in self._flags.items()}

    def flags_into_string(self) -> str:
        """The arguments that give all flags their present values, one a line."""
        unique = {id(flag): flag for flag in self._flags.values()}
        return "\n".join(text for flag in unique.values() if (text := flag.serialize())) + "\n"

    def get_flag_value(self, name: str, default: Any) -> Any:
        """The value of a flag, or `default` if it is not defined."""
        return getattr(self, name) if name in self._flags else default

    def set_default(self, name: str, value: Any) -> None:
        """Changes the default of a flag."""
        self[name].set_default(value)

    def find_module_defining_flag(self, flagname: str, default: Any = None) -> Any:
        """The name of the module that defined a flag, or `default` if it is not defined."""
        return self._flags[flagname].module if flagname in self._flags else default

    def __getattr__(self, name: str) -> Any:
        flags: dict[str, Flag] = self.__dict__.get("_flags", {})  # copy.copy() asks before there are any
        if name == "__flags":  # what programs from before 1.5 print
            return flags
        flag = flags.get(name)
        if flag is None:
            raise AttributeError(f"No flag is called {name!r}: define it first, for instance with DEFINE_string.")
        if not self._parsed:
            self.parse_once()
        return flag.value

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._flags:
            raise UnrecognizedFlagError(name, list(self._flags))
        self._flags[name].value = value
        if self._parsed:
            self._validate()

    def __delattr__(self, name: str) -> None:
        flag = self[name]
        for alias in [alias for alias, other in self._flags.items() if other is flag]:
            del self._flags[alias]

    def __getitem__(self, name: str) -> Flag:
        if name not in self._flags:
            raise KeyError(name)
        return self._flags[name]

    def __contains__(self, name: object) -> bool:
        return name in self._flags

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._flags))

    def __len__(self) -> int:
        return len(self._flags)

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *self._flags])


_OWN_MODULES: Final = frozenset({"thalweg.platform.flags", "thalweg.platform.flag_values"})


def _calling_namespace() -> dict[str, Any]:
    """The globals of the innermost caller that does not belong to the flags package."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__") in _OWN_MODULES and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_globals
