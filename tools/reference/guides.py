"""The guides of `docs/` as pages of the site: links to sources lead to their copies, names of `tf` to the reference."""

from __future__ import annotations

import html
import re
from pathlib import Path

from reference.links import SOURCES, Links
from reference.names import Reference
from reference.paths import LINK, REPOSITORY, resolve_span

# Pages from outside of docs/, and where they are on the site.
_PAGES_OUTSIDE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
_BLOCK = re.compile(r"(^(```|~~~).*?^\2.*?$)", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<![`\[])`([^`\n]+)`(?![`\]])")


def guide_files() -> dict[str, Path]:
    """The guides: where each is on the site, and its file."""
    docs = REPOSITORY / "docs"
    found = {str(path.relative_to(docs)): path for path in sorted(docs.rglob("*.md")) if path.parent.name != "site"}
    return {**found, **{page: REPOSITORY / file for file, page in _PAGES_OUTSIDE.items()}}


def guide_page(reference: Reference, page: str, path: Path) -> str:
    """The text of a guide with its links changed to those of the site.

    Args:
        reference: The public names.
        page: Where the guide is on the site, with its ending.
        path: Its file.
    """
    links = Links(reference, page.removesuffix(".md"))
    pieces = _BLOCK.split(path.read_text())
    # Of each block: the text before it, the block, its fence.
    text = "".join(
        piece if i % 3 == 1 else "" if i % 3 == 2 else _with_links(piece, path, links) for i, piece in enumerate(pieces)
    )
    if path.name == "README.md":  # An overview of its folder: the other pages are below it.
        text += "\n```{toctree}\n:hidden:\n:glob:\n\n[0-9]*\n```\n"
    return text


def _with_links(text: str, path: Path, links: Links) -> str:
    pieces, end = [], 0
    for match in LINK.finditer(text):
        pieces += [_SPAN.sub(lambda m: _span(m, links), text[end : match.start()]), _link(match, path, links)]
        end = match.end()
    return "".join([*pieces, _SPAN.sub(lambda m: _span(m, links), text[end:])])


def _span(match: re.Match[str], links: Links) -> str:
    """A code span: a public name or a source file gets a link."""
    code = match[1]
    if code.startswith("tf."):
        return links.code(code)
    if "/" in code and code.endswith((".py", ".h", ".cc")):
        file = resolve_span(code)
        if file is not None:
            return f'<a href="{links.file(str(file.relative_to(REPOSITORY)))}"><code>{html.escape(code)}</code></a>'
    return match[0]


def _title(file: Path) -> str:
    """The heading of a guide."""
    return file.read_text().partition("\n")[0].removeprefix("# ")


def _link(match: re.Match[str], path: Path, links: Links) -> str:
    image, text, target = match.groups()
    name, hash_sign, anchor = target.partition("#")
    if image or not name or "://" in target:
        return match[0]
    file = (path.parent / name).resolve()
    if not file.exists():
        return match[0]  # A page that is made here.
    inside = str(file.relative_to(REPOSITORY))
    if inside in _PAGES_OUTSIDE:
        return f"[{text}]({links.relative(_PAGES_OUTSIDE[inside])})"
    if inside == "README.md":
        return f"[{text}]({links.relative('index.md')})"
    if file.is_relative_to(REPOSITORY / "docs") and (file.suffix == ".md" or file.is_dir()):
        file = file / "README.md" if file.is_dir() else file
        text = _title(file) if text == name else text  # The name of a file says nothing to a reader of the site.
        return f"[{text}]({links.relative(str(file.relative_to(REPOSITORY / 'docs')))}{hash_sign}{anchor})"
    shown = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    address = links.file(inside) if file.is_file() else links.relative(f"{SOURCES}/{inside}/index.html")
    return f'<a href="{address}">{shown}</a>'
