"""Slurm's compressed lists, of hosts ("n[1-3,07],login") and counts ("4(x2),3"), and which rank is on which host."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

# More than any cluster has; a list that asks for more is a mistake, and would fill the memory.
_MOST: Final = 1 << 16
_BRACKETS: Final = re.compile(r"\[([^\[\]]*)\]")
_COUNT: Final = re.compile(r"(\d{1,9})(?:\(x(\d{1,9})\))?")


def expand_hosts(text: str) -> list[str]:
    """The hosts of a list, in its order; numbers keep their leading zeros.

    Raises:
        ValueError: If it is not such a list, or names more than 65,536 hosts.
    """
    hosts: list[str] = []
    for item in _split(text):
        hosts.extend(_expand(item.strip(), text, _MOST - len(hosts)))
    return hosts


def expand_counts(text: str) -> list[int]:
    """The numbers of a list, such as the tasks of each node.

    Raises:
        ValueError: If it is not such a list, or has more than 65,536 numbers.
    """
    counts: list[int] = []
    for item in text.split(","):
        match = _COUNT.fullmatch(item.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a list of counts, as in '4(x2),3'.")
        times = int(match[2] or 1)
        if len(counts) + times > _MOST:
            raise ValueError(f"{text!r} has more than {_MOST} counts.")
        counts.extend([int(match[1])] * times)
    return counts


def deal_ranks(counts: Sequence[int], run_length: int) -> list[tuple[int, int]]:
    """Deals ranks to hosts in turn, some in a row to each, until each host has as many as it is to have.

    Args:
        counts: The number of ranks of each host.
        run_length: How many ranks in a row a host gets: 1 is Slurm's cyclic distribution, many its block distribution.

    Returns:
        For each rank the index of its host, and its number on that host.

    Raises:
        ValueError: If `run_length` is not positive.
    """
    if run_length < 1:
        raise ValueError(f"Hosts must get at least one rank in a row, got {run_length}.")
    dealt, total = [0] * len(counts), sum(counts)
    places: list[tuple[int, int]] = []
    while len(places) < total:
        for host, count in enumerate(counts):
            end = min(count, dealt[host] + run_length)
            places.extend((host, local) for local in range(dealt[host], end))
            dealt[host] = end
    return places


def _split(text: str) -> list[str]:
    """The parts between commas outside of brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "[") - (char == "]")
        if depth not in (0, 1):
            raise ValueError(f"The brackets of the host list {text!r} do not match.")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    if depth:
        raise ValueError(f"The brackets of the host list {text!r} do not match.")
    return parts


def _expand(item: str, text: str, most: int) -> list[str]:
    """The hosts that one part stands for: every combination of the numbers in its brackets."""
    if not item or any(char.isspace() for char in item):
        raise ValueError(f"The host list {text!r} has an empty name, or one with spaces.")
    hosts = [""]
    for i, piece in enumerate(_BRACKETS.split(item)):
        # Every second piece is the inside of brackets.
        choices = _numbers(piece, text, most) if i % 2 else [piece]
        if len(hosts) * len(choices) > most:
            raise ValueError(f"The host list {text!r} names more than {_MOST} hosts.")
        hosts = [host + choice for host in hosts for choice in choices]
    return hosts


def _numbers(ranges: str, text: str, most: int) -> list[str]:
    found: list[str] = []
    for each in ranges.split(","):
        first, dash, last = each.strip().partition("-")
        last = last if dash else first
        if not (_is_number(first) and _is_number(last)) or int(first) > int(last):
            raise ValueError(f"{each!r} in the host list {text!r} is not a number or a range of numbers.")
        if int(last) - int(first) >= most - len(found):
            raise ValueError(f"The host list {text!r} names more than {_MOST} hosts.")
        found.extend(str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18
