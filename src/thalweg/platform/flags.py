"""`tf.flags` and `tf.app.flags`: definitions of command-line flags, and FLAGS, which holds their values.

Example:
    >>> values = FlagValues()
    >>> rate = DEFINE_float('rate', 0.1, 'The learning rate.', flag_values=values)
    >>> values(['train.py', '--rate=0.5', 'data.csv'])
    ['train.py', 'data.csv']
    >>> values.rate
    0.5
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from thalweg.platform.flag_values import (
    DuplicateFlagError,
    Error,
    Flag,
    FlagValues,
    IllegalFlagValueError,
    UnrecognizedFlagError,
    ValidationError,
)

__all__ = [
    "FLAGS", "DEFINE_bool", "DEFINE_boolean", "DEFINE_enum", "DEFINE_enum_class", "DEFINE_float", "DEFINE_integer",
    "DEFINE_list", "DEFINE_multi_enum", "DEFINE_multi_float", "DEFINE_multi_integer", "DEFINE_multi_string",
    "DEFINE_spaceseplist", "DEFINE_string", "DuplicateFlagError", "Error", "Flag", "FlagHolder", "FlagValues",
    "IllegalFlagValueError", "UnrecognizedFlagError", "ValidationError", "adopt_module_key_flags", "declare_key_flag",
    "mark_bool_flags_as_mutual_exclusive", "mark_flag_as_required", "mark_flags_as_mutual_exclusive",
    "mark_flags_as_required", "register_multi_flags_validator", "register_validator", "set_default", "validator",
]  # fmt: skip

FLAGS: Final = FlagValues()
"""The flags of the program."""


class FlagHolder:
    """The result of a definition: the flag's name and, on demand, its value."""

    def __init__(self, flag_values: FlagValues, flag: Flag) -> None:
        self._flag_values = flag_values
        self._flag = flag

    @property
    def name(self) -> str:
        """The name of the flag."""
        return self._flag.name

    @property
    def value(self) -> Any:
        """The value of the flag; the first look at one parses `sys.argv`."""
        return getattr(self._flag_values, self._flag.name)

    @property
    def default(self) -> Any:
        """The default of the flag."""
        return self._flag.default

    @property
    def present(self) -> bool:
        """Whether the command line named the flag."""
        return self._flag.present > 0


def _parse_string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"flag value must be a string, found {value!r}")
    return value


def _parse_bool(value: Any) -> bool:
    if isinstance(value, str):
        if value.lower() in ("true", "t", "1"):
            return True
        if value.lower() in ("false", "f", "0"):
            return False
    elif value in (True, False):
        return bool(value)
    raise ValueError(f"a boolean is true or false, not {value!r}")


def _in_range(value: Any, lower: Any, upper: Any) -> Any:
    if (lower is not None and value < lower) or (upper is not None and value > upper):
        raise ValueError(f"{value} is not in the range [{lower}, {upper}]")
    return value


def _parse_integer(value: Any, lower: int | None = None, upper: int | None = None) -> int:
    if isinstance(value, str):
        digits = value.strip().lstrip("+-").lower()
        base = 16 if digits.startswith("0x") else 8 if digits.startswith("0o") else 10
        value = int(value, base)
    elif isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"an integer is needed, not {value!r}")
    return int(_in_range(int(value), lower, upper))


def _parse_float(value: Any, lower: float | None = None, upper: float | None = None) -> float:
    if isinstance(value, bool):
        raise TypeError(f"a number is needed, not {value!r}")
    return float(_in_range(float(value), lower, upper))


def _parse_list(value: Any) -> list[str]:
    if not isinstance(value, str):
        return list(value)
    if not value:
        return []
    import csv  # knows commas within quotes

    return [item.strip() for item in next(csv.reader([value], strict=True))]


def _enum_parser(enum_values: Sequence[str], case_sensitive: bool = True) -> Callable[[Any], str]:
    if not enum_values or isinstance(enum_values, str):
        raise ValueError(f"enum_values must be a list of at least one string, got {enum_values!r}.")
    spellings = {value if case_sensitive else value.lower(): value for value in enum_values}

    def parse(value: Any) -> str:
        key = value if case_sensitive or not isinstance(value, str) else value.lower()
        if key not in spellings:
            raise ValueError(f"value should be one of <{'|'.join(enum_values)}>")
        return spellings[key]

    return parse


def _definer(
    parse: Callable[[Any], Any], doc: str, boolean: bool = False, multi: bool = False, serialize: Any = str
) -> Callable[..., FlagHolder]:
    """Makes a DEFINE function for flags whose values `parse` converts."""

    def define(
        name: str | None = None,
        default: Any = None,
        help: str | None = None,
        flag_values: FlagValues = FLAGS,
        required: bool = False,
        short_name: str | None = None,
        **options: Any,
    ) -> FlagHolder:
        # These three are the names that TensorFlow's arguments had before 1.5.
        name = options.pop("flag_name", name)
        default = options.pop("default_value", default)
        help = options.pop("docstring", help)
        if not isinstance(name, str) or not name or name.startswith("-") or any(c in name for c in "= \t\n"):
            raise Error(f"A flag's name must be a string without spaces, '=' or a leading dash, got {name!r}.")
        bounds = {key[: -len("_bound")]: options.pop(key) for key in ("lower_bound", "upper_bound") if key in options}
        if options and not options.keys() <= {"module_name", "allow_override", "allow_hide_cpp"}:
            raise TypeError(f"DEFINE of the flag {name!r} got unexpected arguments: {sorted(options)}.")
        bounded: Callable[[Any], Any] = (lambda value: parse(value, **bounds)) if bounds else parse
        return _add(Flag(name, default, help, bounded, short_name, boolean, multi, serialize), flag_values, required)

    define.__doc__ = f"""{doc}

    Args:
        name: What follows the dashes on the command line.
        default: The value unless the command line gives one; None for none.
        help: What `--help` says of it.
        flag_values: Where the flag belongs.
        required: Whether the command line must give a value.
        short_name: A second, shorter name.
        **options: `lower_bound` and `upper_bound` of a number.

    Returns:
        A FlagHolder with the flag's `value`.
    """
    return define


def _add(flag: Flag, flag_values: FlagValues, required: bool = False) -> FlagHolder:
    flag_values.add(flag)
    if required:
        mark_flag_as_required(flag.name, flag_values)
    return FlagHolder(flag_values, flag)


def _join(items: Iterable[Any]) -> str:
    return ",".join(map(str, items))


DEFINE_string = _definer(_parse_string, "Defines a flag whose value is a text.")
DEFINE_integer = _definer(_parse_integer, "Defines a flag whose value is an integer, also written 0x1f or 0o17.")
DEFINE_float = _definer(_parse_float, "Defines a flag whose value is a floating-point number.")
DEFINE_boolean = _definer(
    _parse_bool, "Defines a flag that is given as `--name`, `--noname` or `--name=true`.", boolean=True
)
DEFINE_bool = DEFINE_boolean
DEFINE_list = _definer(
    _parse_list, "Defines a flag whose value is a list of texts, with commas between.", serialize=_join
)
DEFINE_spaceseplist = _definer(
    lambda value: value.split() if isinstance(value, str) else list(value),
    "Defines a flag whose value is a list of texts, with spaces between.",
    serialize=lambda items: " ".join(map(str, items)),
)
DEFINE_multi_string = _definer(_parse_string, "Defines a flag that may be given several times, for a list.", multi=True)
DEFINE_multi_integer = _definer(_parse_integer, "Like DEFINE_multi_string, for a list of integers.", multi=True)
DEFINE_multi_float = _definer(_parse_float, "Like DEFINE_multi_string, for a list of numbers.", multi=True)


def DEFINE_enum(
    name: str, default: str | None, enum_values: Sequence[str], help: str | None = None, **options: Any
) -> FlagHolder:
    """Defines a flag whose value is one of some texts; other arguments as for DEFINE_string."""
    parse = _enum_parser(enum_values, options.pop("case_sensitive", True))
    return _definer(parse, "")(name, default, f"<{'|'.join(enum_values)}>: {help or ''}", **options)


def DEFINE_multi_enum(
    name: str, default: Any, enum_values: Sequence[str], help: str | None = None, **options: Any
) -> FlagHolder:
    """Defines a flag that may be given several times, each time with one of some texts."""
    parse = _enum_parser(enum_values, options.pop("case_sensitive", True))
    return _definer(parse, "", multi=True)(name, default, f"<{'|'.join(enum_values)}>: {help or ''}", **options)


def DEFINE_enum_class(
    name: str, default: Any, enum_class: type[enum.Enum], help: str | None = None, **options: Any
) -> FlagHolder:
    """Defines a flag whose value is a member of a Python enum, given by its name in upper or lower case."""
    by_name = {member_name.lower(): member for member_name, member in enum_class.__members__.items()}

    def parse(value: Any) -> enum.Enum:
        if isinstance(value, enum_class):
            return value
        if not isinstance(value, str) or value.lower() not in by_name:
            raise ValueError(f"value should be one of <{'|'.join(by_name)}>")
        return by_name[value.lower()]

    define = _definer(parse, "", serialize=lambda member: str(member.name).lower())
    return define(name, default, f"<{'|'.join(by_name)}>: {help or ''}", **options)


def register_validator(
    flag_name: str,
    checker: Callable[[Any], bool],
    message: str = "Flag validation failed",
    flag_values: FlagValues = FLAGS,
) -> None:
    """Adds a condition on the value of a flag; a checker may also raise ValidationError to say what is wrong."""

    def find_fault(values: FlagValues) -> str | None:
        # A notebook may have deleted the flag, in order to define it again.
        if flag_name not in values or checker(values[flag_name].value):
            return None
        return f"flag --{flag_name}={values[flag_name].value}: {message}"

    if flag_name not in flag_values:
        raise UnrecognizedFlagError(flag_name, list(flag_values))
    flag_values.add_validator(find_fault)


def validator(
    flag_name: str, message: str = "Flag validation failed", flag_values: FlagValues = FLAGS
) -> Callable[[Callable[[Any], bool]], Callable[[Any], bool]]:
    """`register_validator` as a decorator of the checker."""

    def decorate(checker: Callable[[Any], bool]) -> Callable[[Any], bool]:
        register_validator(flag_name, checker, message, flag_values)
        return checker

    return decorate


def register_multi_flags_validator(
    flag_names: Sequence[str],
    multi_flags_checker: Callable[[dict[str, Any]], bool],
    message: str = "Flags validation failed",
    flag_values: FlagValues = FLAGS,
) -> None:
    """Adds a condition on the values of several flags, which the checker gets as a dict."""
    for name in flag_names:
        if name not in flag_values:
            raise UnrecognizedFlagError(name, list(flag_values))

    def find_fault(values: FlagValues) -> str | None:
        known = {name: values[name].value for name in flag_names if name in values}
        if len(known) < len(flag_names) or multi_flags_checker(known):
            return None
        return f"flags {', '.join(f'--{name}={value}' for name, value in known.items())}: {message}"

    flag_values.add_validator(find_fault)


def mark_flag_as_required(flag_name: str, flag_values: FlagValues = FLAGS) -> None:
    """Makes it an error if a flag has no value, neither from the command line nor by default."""
    message = f"Flag --{flag_name} must have a value other than None."
    register_validator(flag_name, lambda value: value is not None, message, flag_values)


def mark_flags_as_required(flag_names: Iterable[str], flag_values: FlagValues = FLAGS) -> None:
    """`mark_flag_as_required` for several flags."""
    for flag_name in flag_names:
        mark_flag_as_required(flag_name, flag_values)


def mark_flags_as_mutual_exclusive(
    flag_names: Sequence[str], required: bool = False, flag_values: FlagValues = FLAGS
) -> None:
    """Makes it an error if more than one of some flags has a value, or, if `required`, other than exactly one."""
    _mark_exclusive(flag_names, required, flag_values, lambda value: value is not None)


def mark_bool_flags_as_mutual_exclusive(
    flag_names: Sequence[str], required: bool = False, flag_values: FlagValues = FLAGS
) -> None:
    """Makes it an error if more than one of some boolean flags is true, or, if `required`, other than exactly one."""
    _mark_exclusive(flag_names, required, flag_values, bool)


def _mark_exclusive(
    flag_names: Sequence[str], required: bool, flag_values: FlagValues, counts: Callable[[Any], bool]
) -> None:
    def check(values: dict[str, Any]) -> bool:
        count = sum(1 for value in values.values() if counts(value))
        return count == 1 or (count == 0 and not required)

    message = f"{'Exactly' if required else 'At most'} one of them may be set."
    register_multi_flags_validator(flag_names, check, message, flag_values)


def set_default(flag_holder: FlagHolder, value: Any) -> None:
    """Changes the default of a flag."""
    flag_holder._flag.set_default(value)


def declare_key_flag(flag_name: str, flag_values: FlagValues = FLAGS) -> None:
    """Accepted for TensorFlow's sake, where it decides what `--helpshort` lists. Here `--help` lists every flag."""
    if flag_name not in flag_values:
        raise UnrecognizedFlagError(flag_name, list(flag_values))


def adopt_module_key_flags(module: Any, flag_values: FlagValues = FLAGS) -> None:
    """Accepted for TensorFlow's sake, where it decides what `--helpshort` lists. Here `--help` lists every flag."""
