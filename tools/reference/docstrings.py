"""Docstrings in Google's style, as Markdown with the field lists that the site generator lays out."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

# Turns the text of a code span into Markdown: a link where the text is a public name.
Linker = Callable[[str], str]

_SECTIONS = ("Args", "Returns", "Raises", "Yields", "Example", "Examples", "Attributes", "Note")
_FIELDS = {"Args": "param", "Raises": "raises", "Returns": "returns", "Yields": "yields"}
_HEADER = re.compile(rf"^({'|'.join(_SECTIONS)}):$")
_ITEM = re.compile(r"^(\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*(?: or [\w.]+)*)(?: \([^)]*\))?: (.*)$")
_SPAN = re.compile(r"(`+)(.+?)\1", re.DOTALL)


def plain(code: str) -> str:
    """A code span as it is."""
    return f"`{code}`"


def docstring(value: Any) -> str:
    """The docstring of a function, class or property, without its indentation."""
    return inspect.getdoc(value) or ""


def summary(value: Any) -> str:
    """The first sentence or line of a docstring."""
    return docstring(value).partition("\n")[0].strip()


def inline(text: str, link: Linker = plain) -> str:
    """A paragraph: code spans go through `link`; special characters of Markdown are escaped elsewhere."""
    pieces, end = [], 0
    for match in _SPAN.finditer(text):
        pieces += [_escaped(text[end : match.start()]), link(match[2])]
        end = match.end()
    return "".join([*pieces, _escaped(text[end:])])


def _escaped(text: str) -> str:
    return re.sub(r"([*<>\[\]_|{}$\\])", r"\\\1", text)


def blocks(text: str, link: Linker = plain) -> str:
    """Paragraphs, lists and examples of a docstring's body as Markdown."""
    lines = text.strip("\n").splitlines()
    result: list[str] = []
    i = 0
    while i < len(lines):
        if lines[i].lstrip().startswith(">>>"):
            end = i
            while end < len(lines) and lines[end].strip():
                end += 1
            # Examples with blank lines between prompts are one block.
            while end + 1 < len(lines) and lines[end + 1].lstrip().startswith(">>>"):
                end += 1
                while end < len(lines) and lines[end].strip():
                    end += 1
            result += ["", fenced("pycon", inspect.cleandoc("\n".join(lines[i:end]))), ""]
            i = end
        elif lines[i].startswith("    ") and (not result or not result[-1].strip()):
            end = i
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            result += [fenced("python", inspect.cleandoc("\n".join(lines[i:end]))), ""]
            i = end
        else:
            end = i
            while end < len(lines) and lines[end].strip() and not lines[end].lstrip().startswith(">>>"):
                end += 1
            # A paragraph at once: code spans may go over a line's end.
            result += inline("\n".join(lines[i:end]), link).splitlines() or [""]
            i = max(end, i + 1)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(result)).strip()


def fenced(language: str, code: str) -> str:
    """A block of code."""
    return f"```{language}\n{code.rstrip()}\n```"


def sections(text: str) -> list[tuple[str, str]]:
    """The parts of a docstring: ('', body), then (title, text) for each section, without its indentation."""
    found: list[tuple[str, list[str]]] = [("", [])]
    for line in text.splitlines():
        header = _HEADER.match(line)
        if header:
            found.append((header[1], []))
        elif line and not line.startswith(" ") and found[-1][0]:
            found.append(("", [line]))  # Text after a section.
        else:
            found[-1][1].append(line)
    # The title's line is empty so that cleandoc removes the indentation of all other lines.
    return [(title, inspect.cleandoc("\n".join(["", *lines])) if title else "\n".join(lines)) for title, lines in found]


def items(text: str) -> list[tuple[str, str]]:
    """The items of a section such as Args: (name, description); text without a name has the name ''."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        match = None if line.startswith(" ") else _ITEM.match(line)
        if match:
            found.append((match[1], [match[2]]))
        elif found:
            found[-1][1].append(line)
        elif line.strip():
            found.append(("", [line]))
    return [
        (name, "\n".join([lines[0], inspect.cleandoc("\n".join(["", *lines[1:]]))]).strip()) for name, lines in found
    ]


def render(text: str, link: Linker = plain, *, skip_summary: bool = False) -> str:
    """A whole docstring as Markdown.

    Args:
        text: The docstring, without its indentation.
        link: Makes Markdown of a code span.
        skip_summary: Whether to leave the first paragraph out.
    """
    parts: list[str] = []
    fields: list[str] = []
    for title, body in sections(text):
        if not title and skip_summary:
            body = body.partition("\n\n")[2]
            skip_summary = False
        if title in ("Example", "Examples"):
            parts += ["**Example**", blocks(body, link)]
        elif title == "Attributes":
            parts += ["**Attributes**", "\n".join(_bullet(name, each, link) for name, each in items(body))]
        elif title in ("Args", "Raises"):
            fields += [_field(f"{_FIELDS[title]} {_plain_name(name)}", each, link) for name, each in items(body)]
        elif title:
            fields.append(_field(_FIELDS.get(title, "note"), body, link))
        elif body.strip():
            parts.append(blocks(body, link))
    # Fields stand before examples, as a reader looks for them.
    example = next((i for i, part in enumerate(parts) if part == "**Example**"), len(parts))
    return "\n\n".join([*parts[:example], *(["\n".join(fields)] if fields else []), *parts[example:]])


def _plain_name(name: str) -> str:
    return name.replace("*", "\\*").strip()


def _bullet(name: str, text: str, link: Linker) -> str:
    body = blocks(text, link).replace("\n", "\n  ")
    return f"- {link(name)}: {body}" if name else f"- {body}"


def _field(title: str, text: str, link: Linker) -> str:
    return f":{title.strip()}: " + blocks(text, link).replace("\n", "\n  ")
