"""Paths that the guides name: links, and code spans such as `passes/place.py`; and the files that they mean."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

# A path in a code span counts from one of these.
ROOTS = tuple(REPOSITORY / root for root in (".", "src", "src/thalweg", "core", "docs"))

_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
# A file with an ending that sources have, or a folder: with a slash, and without placeholders.
_PATH = re.compile(r"^[\w.-]+(?:/[\w.-]+)*(?:/|/[\w-]+\.(?:py|h|cc|md|txt|toml)|/[\w-]+)$|^[\w-]+\.(?:py|h|cc|md)$")


@dataclass(frozen=True)
class Mention:
    """A path in a text.

    Attributes:
        line: Its line, from 1.
        text: The path as it is written.
        is_link: Whether it is the target of a link, which counts from the text's own folder.
    """

    line: int
    text: str
    is_link: bool


def without_code(text: str) -> str:
    """The text with its code blocks emptied, line for line."""
    return _FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)


def mentions(text: str) -> Iterator[Mention]:
    """The paths that a text in Markdown names outside of code blocks."""
    text = without_code(text)
    for match in LINK.finditer(text):
        target = match[3].partition("#")[0]
        if target and "://" not in target and not target.startswith("mailto:"):
            yield Mention(text.count("\n", 0, match.start()) + 1, target, True)
    for match in _SPAN.finditer(LINK.sub(lambda m: " " * len(m[0]), text)):
        if _PATH.match(match[1]) and ("/" in match[1] or "." in match[1]):
            yield Mention(text.count("\n", 0, match.start()) + 1, match[1], False)


def resolve(mention: Mention, folder: Path) -> Path | None:
    """The file or folder that is meant, or None if there is none.

    Args:
        mention: The path.
        folder: The folder of the text.
    """
    if mention.is_link:
        path = (folder / mention.text).resolve()
        return path if path.exists() else None
    return resolve_span(mention.text)


def resolve_span(text: str) -> Path | None:
    """The file or folder that a code span means: from one of the roots, or a single name that some folder has."""
    for root in ROOTS:
        if (root / text).exists():
            return (root / text).resolve()
    name = text.removesuffix("/")
    if "/" not in name:
        for folder in ("src", "core", "tests", "tools", "examples", "bench"):
            for path in (REPOSITORY / folder).rglob(name):
                if path.is_dir() == (name != text):
                    return path
    return None


def is_missing(mention: Mention, folder: Path) -> bool:
    """Whether a path means no file that is or will be there.

    A code span counts only if it can be nothing but a path: it ends in a slash, or has a slash and a source's ending.
    Folders that builds make are in `.gitignore`.
    """
    if resolve(mention, folder) is not None:
        return False
    looks_like_path = "/" in mention.text and mention.text.endswith(("/", ".py", ".h", ".cc", ".md"))
    ignored = f"/{mention.text}" in (REPOSITORY / ".gitignore").read_text().splitlines()
    return (mention.is_link or looks_like_path) and not ignored
