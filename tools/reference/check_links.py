"""Checks the built site: every link leads to a file and an anchor of it, and nothing is loaded from other hosts."""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path
from urllib.parse import unquote

_TARGET = re.compile(r"""<(?:a|link|script|img)\b[^>]*?\b(?:href|src)="([^"]*)\"""")
_ID = re.compile(r"""\b(?:id|name)="([^"]*)\"""")


def broken_links(folder: Path) -> list[str]:
    """Links to files and anchors that do not exist, and to scripts, styles and pictures of other hosts."""
    texts = {path: path.read_text() for path in sorted(folder.rglob("*.html"))}
    anchors = {path: {html.unescape(i) for i in _ID.findall(text)} for path, text in texts.items()}
    found = []
    for path, text in texts.items():
        for tag in re.finditer(_TARGET, text):
            target = html.unescape(tag[1])
            name, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:|//", target):
                if not tag[0].startswith("<a"):
                    found.append(f"{path.relative_to(folder)}: loads {target}")
                continue
            file = (path.parent / unquote(name.partition("?")[0])).resolve() if name else path
            known = anchors.get(file)
            if not file.exists() or (anchor and known is not None and unquote(anchor) not in known):
                found.append(f"{path.relative_to(folder)}: {target}")
    return found


if __name__ == "__main__":
    broken = broken_links(Path(sys.argv[1]).resolve())
    if broken:
        sys.exit(f"{len(broken)} broken links:\n" + "\n".join(broken[:50]))
