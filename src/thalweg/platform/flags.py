"""`tf.flags` and `tf.app.flags`: the names of `platform/program_flags.py`, loaded when a program uses the first one.

Example:
    >>> from thalweg.platform.flags import DEFINE_float, FlagValues
    >>> values = FlagValues()
    >>> rate = DEFINE_float('rate', 0.1, 'The learning rate.', flag_values=values)
    >>> values(['train.py', '--rate=0.5', 'data.csv'])
    ['train.py', 'data.csv']
    >>> values.rate
    0.5
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thalweg.platform.program_flags import *  # noqa: F403


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Start-up time: absl takes longer to load than any module of ours, and most programs have no flags.
    from thalweg.platform import program_flags

    return getattr(program_flags, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__getattr__("__all__")])
