"""Copies of the source files with colours and numbered lines, so that the site's links to them work anywhere."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from pathlib import Path

from reference.links import SOURCES
from reference.paths import REPOSITORY

_LINK = re.compile(rf'href="(?:\.\./)*{SOURCES}/([^"#]+)\.html')
_ENDINGS = (".py", ".h", ".cc")
_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="{up}sources.css"></head>
<body><nav><a href="{up}../index.html">Thalweg</a> › {path}</nav>
{body}</body></html>
"""
_STYLE = """body{font:14px/1.45 system-ui,sans-serif;margin:0;padding:0 1rem 2rem;background:#fff;color:#1b1b1b}
nav{padding:.7rem 0;position:sticky;top:0;background:inherit;border-bottom:1px solid #8884}
pre{line-height:1.4;overflow-x:auto;font-size:13px}
a{color:#2757b5;text-decoration:none} a:hover{text-decoration:underline}
.linenos{color:#888;padding-right:1em;user-select:none} span:target,a:target+span{background:#fd06}
a[id]{scroll-margin-top:4rem} li{list-style:none;font-family:monospace}
@media(prefers-color-scheme:dark){body{background:#16181c;color:#d6d6d6}a{color:#8ab4f8}}
"""


def linked(texts: Iterable[str]) -> list[str]:
    """The files that pages link to, and those of the folders that they link to."""
    found: set[str] = set()
    for text in texts:
        for target in _LINK.findall(text):
            if target.endswith("/index"):
                folder = REPOSITORY / target.removesuffix("/index")
                found.update(str(p.relative_to(REPOSITORY)) for p in folder.rglob("*") if p.suffix in _ENDINGS)
            else:
                found.add(target)
    return sorted(found)


def write(folder: Path, listing: list[str]) -> int:
    """Writes the copies that are missing or older than their file, and an index of each folder; returns how many."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_for_filename

    formatter = HtmlFormatter(linenos="inline", lineanchors="L", anchorlinenos=False, linespans="line")
    dark = HtmlFormatter(style="github-dark").get_style_defs(".highlight")
    folder.mkdir(parents=True, exist_ok=True)
    style = formatter.get_style_defs(".highlight")
    (folder / "sources.css").write_text(f"{style}\n@media(prefers-color-scheme:dark){{{dark}}}\n{_STYLE}")
    written = 0
    for name in listing:
        target, source = folder / f"{name}.html", REPOSITORY / name
        if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
            body = highlight(source.read_text(), get_lexer_for_filename(name), formatter)
            body = body.replace('name="L-', 'id="L')
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(_page(name, body))
            written += 1
    for parent in {str(p) for name in listing for p in Path(name).parents if str(p) != "."}:
        _write_index(folder, parent, listing)
    return written


def _page(name: str, body: str, depth: int | None = None) -> str:
    up = "../" * (name.count("/") if depth is None else depth)
    return _PAGE.format(title=html.escape(name), up=up, path=html.escape(name), body=body)


def _write_index(folder: Path, parent: str, listing: list[str]) -> None:
    inside = [name.removeprefix(f"{parent}/") for name in listing if name.startswith(f"{parent}/")]
    folders = sorted({name.partition("/")[0] for name in inside if "/" in name})
    items = [f'<li><a href="{name}/index.html">{name}/</a>' for name in folders]
    items += [f'<li><a href="{name}.html">{name}</a>' for name in inside if "/" not in name]
    body = f"<ul>{''.join(items)}</ul>"
    (folder / parent / "index.html").write_text(_page(f"{parent}/", body, parent.count("/") + 1))
