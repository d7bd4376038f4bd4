"""Links of the site: to pages of the reference, and to copies of the sources with numbered lines."""

from __future__ import annotations

import html
import posixpath
from collections.abc import Callable

from reference.names import Reference
from reference.op_facts import Source
from thalweg.graph.definitions import op_registry
from thalweg.graph.definitions.op_registry import OpDef

REFERENCE = "reference"  # the folder of the reference within the site
SOURCES = "sources"  # the folder of the sources within the site


class Links:
    """Makes links that are relative to one page."""

    def __init__(self, reference: Reference, page: str) -> None:
        """Takes the page, as a path from the root of the site without an ending."""
        self._reference = reference
        self._page = page

    def relative(self, target: str) -> str:
        """A path from the root of the site, as the page sees it."""
        return posixpath.relpath(target, posixpath.dirname(self._page) or ".")

    def page(self, text: str, target: str) -> str:
        """A link to another page of the reference."""
        return f"[{text}]({self.relative(f'{REFERENCE}/{target}')}.md)"

    def code(self, code: str) -> str:
        """A code span, with a link where it is a public name, a namespace, or a call of one."""
        name = code.partition("(")[0]
        entry = self._reference.entries.get(name)
        target = entry.page if entry else name if name in self._reference.spaces else None
        if target is None or f"{REFERENCE}/{target}" == self._page:
            fence = "``" if "`" in code else "`"
            return f"{fence}{code}{fence}"
        return self.page(f"`{code}`", target)

    def op(self, name: str) -> str:
        """A link to the description of an op type."""
        target = self.relative(f"{REFERENCE}/{op_page(op_registry.op_def(name))}")
        return f'<a href="{target}.html#tf.raw_ops.{name}"><code>{html.escape(name)}</code></a>'

    def source(self, place: Source | None) -> str:
        """A link to a line of a file, or nothing."""
        if place is None:
            return ""
        text = f"<code>{html.escape(place.what)}</code> in " if place.what else ""
        return f'{text}<a href="{self.file(place.file)}#L{place.line}">{place.file}:{place.line}</a>'

    def file(self, file: str) -> str:
        """The address of the copy of a source file."""
        return f"{self.relative(f'{SOURCES}/{file}')}.html"


def op_page(definition: OpDef) -> str:
    """The page that describes an op type: one for each module that declares some."""
    return "ops/" + definition.module.removeprefix("thalweg.")


MakeLinks = Callable[[str], Links]
